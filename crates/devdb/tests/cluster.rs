//! Real clusters of the installed server: opened, used, killed and opened again.
#![expect(clippy::unwrap_used, reason = "the helpers here are part of tests too")]

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use sched_devdb::{Cluster, OpenOptions, Status, StopMode};

fn sql(cluster: &Cluster, database: &str, statement: &str) -> String {
    sql_at(cluster, &cluster.url(database), statement)
}

fn sql_at(cluster: &Cluster, url: &str, statement: &str) -> String {
    let output = Command::new(cluster.bin("psql")).args(["-XqAtw", "-c", statement, url]).output().unwrap();
    assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A folder that the server's user can reach.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    open_up(folder.path());
    folder
}

fn open_up(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn pid(cluster: &mut Cluster) -> i32 {
    match cluster.status() {
        Status::Ready { pid } => pid,
        other => panic!("the server is {other:?}"),
    }
}

fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

fn exists(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None).is_ok()
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}: not within 30 s");
}

#[test]
fn data_survives_a_stop_and_a_second_open() {
    let folder = folder();
    let dir = folder.path().join("pg");
    let mut cluster = Cluster::open(OpenOptions::durable(&dir)).unwrap();
    let first = pid(&mut cluster);
    cluster.create_database("odd \"name's").unwrap();
    cluster.create_database("odd \"name's").unwrap();
    sql(&cluster, "odd \"name's", "CREATE TABLE kept AS SELECT 42 AS answer");
    let settings = sql(
        &cluster,
        "postgres",
        "SELECT string_agg(setting, ' ' ORDER BY name) FROM pg_settings
          WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'listen_addresses')",
    );
    assert_eq!(settings, "on on  on");
    cluster.stop(StopMode::Fast).unwrap();
    assert!(!exists(first));

    let cluster = Cluster::open(OpenOptions::durable(&dir)).unwrap();
    assert_eq!(sql(&cluster, "odd \"name's", "SELECT answer FROM kept"), "42");
}

#[test]
fn a_second_handle_attaches_and_leaves_the_server_to_its_owner() {
    let folder = folder();
    let mut owner = Cluster::open(OpenOptions::durable(folder.path())).unwrap();
    let mut guest = Cluster::open(OpenOptions::durable(folder.path())).unwrap();
    assert!(owner.is_owner() && !guest.is_owner());
    assert_eq!(pid(&mut owner), pid(&mut guest));
    assert_eq!(owner.url("postgres"), guest.url("postgres"));
    drop(guest);
    assert_eq!(sql(&owner, "postgres", "SELECT 1"), "1");
}

#[test]
fn a_killed_server_is_seen_and_recovered() {
    let folder = folder();
    let mut cluster = Cluster::open(OpenOptions::durable(folder.path())).unwrap();
    sql(&cluster, "postgres", "CREATE TABLE kept AS SELECT 42 AS answer");
    signal(pid(&mut cluster), Signal::SIGKILL);
    until("the owner sees the end", || matches!(cluster.status(), Status::Gone(Some(_))));
    assert!(folder.path().join("data/postmaster.pid").exists(), "the kill left its process file behind");
    drop(cluster);

    let cluster = Cluster::open(OpenOptions::durable(folder.path())).unwrap();
    assert_eq!(sql(&cluster, "postgres", "SELECT answer FROM kept"), "42");
}

#[test]
fn an_interrupted_initdb_is_not_taken_for_a_cluster() {
    let folder = folder();
    let half = folder.path().join("data.new");
    fs::create_dir(&half).unwrap();
    fs::write(half.join("PG_VERSION"), "15\n").unwrap();
    let cluster = Cluster::open(OpenOptions::durable(folder.path())).unwrap();
    assert_eq!(sql(&cluster, "postgres", "SELECT 1"), "1");
    assert!(!half.exists());
}

#[test]
fn a_path_too_long_for_a_socket_gets_a_short_one_that_goes_with_the_server() {
    let folder = folder();
    let dir = folder.path().join("a folder with spaces".repeat(6));
    let cluster = Cluster::open(OpenOptions::durable(&dir)).unwrap();
    assert_eq!(sql(&cluster, "postgres", "SELECT 1"), "1");
    let guest = Cluster::open(OpenOptions::durable(&dir)).unwrap();
    assert_eq!(sql(&guest, "postgres", "SELECT 1"), "1");
    let short = PathBuf::from(fs::read_to_string(dir.join("socket-dir")).unwrap());
    assert!(short.is_dir());
    drop(guest);
    cluster.stop(StopMode::Fast).unwrap();
    assert!(!short.exists());
}

#[test]
fn tcp_is_on_request_only_and_wants_the_password() {
    let folder = folder();
    let options = OpenOptions { loopback_port: Some(0), ..OpenOptions::durable(folder.path()) };
    let cluster = Cluster::open(options).unwrap();
    let url = cluster.loopback_url("postgres").unwrap().expect("the server listens");
    assert_eq!(sql_at(&cluster, &url, "SELECT inet_server_addr()"), "127.0.0.1");
    let guest = Cluster::open(OpenOptions::durable(folder.path())).unwrap();
    assert_eq!(guest.loopback_url("postgres").unwrap(), Some(url.clone()));
    let (_, rest) = url.split_once('@').unwrap();
    let refused = Command::new(cluster.bin("psql"))
        .args(["-Xqw", "-c", "SELECT 1", &format!("postgresql://postgres:wrong@{rest}")])
        .output()
        .unwrap();
    assert!(!refused.status.success(), "a wrong password was taken");
}

#[test]
fn settings_of_the_caller_are_stronger_than_our_own() {
    let folder = folder();
    let settings = vec!["shared_buffers=17MB".to_owned(), "track_commit_timestamp=on".to_owned()];
    let cluster = Cluster::open(OpenOptions { settings, ..OpenOptions::durable(folder.path()) }).unwrap();
    assert_eq!(sql(&cluster, "postgres", "SHOW shared_buffers"), "17MB");
    assert_eq!(sql(&cluster, "postgres", "SHOW track_commit_timestamp"), "on");
    assert_eq!(sql(&cluster, "postgres", "SHOW fsync"), "on");
}

#[test]
fn a_throw_away_cluster_leaves_nothing() {
    let parent = folder();
    let mut cluster = Cluster::open(OpenOptions::throw_away(parent.path())).unwrap();
    let server = pid(&mut cluster);
    assert_eq!(sql(&cluster, "postgres", "SELECT 1"), "1");
    drop(cluster);
    assert!(!exists(server));
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn leftovers_of_killed_owners_are_swept_and_clusters_in_use_are_not() {
    let parent = folder();
    let kept = Cluster::open(OpenOptions::throw_away(parent.path())).unwrap();
    let leftover = parent.path().join("sched-pg-leftover");
    fs::create_dir(&leftover).unwrap();
    fs::write(leftover.join("lock"), "").unwrap();
    let stranger = parent.path().join("sched-pg-without-lock");
    fs::create_dir(&stranger).unwrap();
    let other = Cluster::open(OpenOptions::throw_away(parent.path())).unwrap();
    assert!(!leftover.exists());
    assert!(stranger.exists());
    assert_eq!(sql(&kept, "postgres", "SELECT 1"), "1");
    assert_ne!(kept.dir(), other.dir());
}

#[test]
fn data_of_another_major_version_is_refused_with_its_name() {
    let folder = folder();
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/PG_VERSION"), "8\n").unwrap();
    let error = Cluster::open(OpenOptions::durable(folder.path())).unwrap_err().to_string();
    assert!(error.contains("created by PostgreSQL 8"), "{error}");
}

#[test]
fn a_server_that_cannot_start_shows_its_log() {
    let folder = folder();
    drop(Cluster::open(OpenOptions::durable(folder.path())).unwrap());
    let settings = folder.path().join("data/postgresql.conf");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, format!("{text}\nno_such_setting = 1\n")).unwrap();
    let error = Cluster::open(OpenOptions::durable(folder.path())).unwrap_err().to_string();
    assert!(error.contains("no_such_setting"), "{error}");
}

/// The process that the next tests kill.
#[test]
fn owner_process() {
    #[expect(clippy::disallowed_methods, reason = "the parent test has no other way to tell its child")]
    let Ok(options) = std::env::var("DEVDB_TEST_OWNER") else { return };
    let options = match options.split_once(':').unwrap() {
        ("durable", dir) => OpenOptions::durable(dir),
        ("throw-away", dir) => OpenOptions::throw_away(dir),
        other => panic!("{other:?}"),
    };
    let mut cluster = Cluster::open(options).unwrap();
    fs::write(cluster.dir().join("owner-ready"), pid(&mut cluster).to_string()).unwrap();
    loop {
        std::thread::park();
    }
}

/// Starts `owner_process`, kills it with -9 when its server is ready, and returns the server's
/// process id.
fn killed_owner(kind: &str, dir: &Path, ready: impl Fn() -> Option<PathBuf>) -> i32 {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owner_process"])
        .env("DEVDB_TEST_OWNER", format!("{kind}:{}", dir.display()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut server = None;
    until("the owner's server is ready", || {
        let text = ready().and_then(|path| fs::read_to_string(path).ok());
        server = text.and_then(|text| text.parse().ok());
        server.is_some()
    });
    owner.kill().unwrap();
    owner.wait().unwrap();
    server.unwrap()
}

#[test]
fn a_durable_server_ends_in_order_when_its_owner_is_killed() {
    let folder = folder();
    let server = killed_owner("durable", folder.path(), || Some(folder.path().join("owner-ready")));
    until("the server ends", || !exists(server));
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains("received fast shutdown request"), "{log}");
    assert!(!folder.path().join("data/postmaster.pid").exists(), "it took its process file along");
}

#[test]
fn a_cluster_whose_owner_was_just_killed_opens_again_at_once() {
    let folder = folder();
    let server = killed_owner("durable", folder.path(), || Some(folder.path().join("owner-ready")));
    let mut cluster = Cluster::open(OpenOptions::durable(folder.path())).unwrap();
    assert!(cluster.is_owner());
    assert_ne!(pid(&mut cluster), server);
    assert_eq!(sql(&cluster, "postgres", "SELECT 1"), "1");
}

#[test]
fn a_throw_away_cluster_vanishes_when_its_owner_is_killed() {
    let parent = folder();
    let only = || fs::read_dir(parent.path()).unwrap().flatten().next().map(|entry| entry.path());
    let server = killed_owner("throw-away", parent.path(), || Some(only()?.join("owner-ready")));
    until("the server ends", || !exists(server));
    until("its folder is removed", || only().is_none());
}

#[test]
fn as_root_a_folder_out_of_the_server_users_reach_works_too() {
    if !nix::unistd::geteuid().is_root() {
        // For an ordinary user, the server has the same user.
        return;
    }
    let private = tempfile::tempdir().unwrap();
    fs::set_permissions(private.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let dir = private.path().join("pg");
    let cluster = Cluster::open(OpenOptions::durable(&dir)).unwrap();
    assert_eq!(sql(&cluster, "postgres", "CREATE TABLE kept AS SELECT 42 AS answer"), "");
    cluster.stop(StopMode::Fast).unwrap();
    assert_eq!(fs::metadata(dir.join("data")).unwrap().uid(), 0);

    // The folder becomes reachable for the server's user: the owner of the files changes, the data
    // stays.
    open_up(private.path());
    let cluster = Cluster::open(OpenOptions::durable(&dir)).unwrap();
    assert_eq!(sql(&cluster, "postgres", "SELECT answer FROM kept"), "42");
}

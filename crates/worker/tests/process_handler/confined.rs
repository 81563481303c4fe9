//! Confinement of programs: users, privileges, limits, core dumps, and the worker's secrets.
//!
//! Only root can change users, and limits need control groups. On a machine without them, the tests
//! expect a rejection and report the skip.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use sched_worker::handlers::{ErrorClass, Outcome, Report};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Bench, alive_with, entries, execution, run, token, within};

/// A user without rights and possibly without a name.
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status")
        .unwrap()
        .lines()
        .any(|line| line.starts_with("CapEff:") && !line.ends_with("0000000000000000"))
}

fn limited(command: &str, limits: Value) -> Value {
    json!({"shell": true, "command": command, "grace_seconds": 0, "limits": limits})
}

/// Whether the attempt was rejected because control groups are missing.
fn is_refused(report: &Report) -> bool {
    let refused = report.error_class == Some(ErrorClass::LimitsUnavailable);
    if refused {
        let message = report.error_message.clone().unwrap_or_default();
        assert!(message.contains("control group"), "{message}");
        assert!(report.started_after.is_none(), "nothing may run unbounded");
        eprintln!("skipped: {message}");
    }
    refused
}

#[tokio::test]
async fn program_gains_no_privileges_by_default() {
    for (said, expected) in
        [(None, "NoNewPrivs:\t1\n"), (Some(true), "NoNewPrivs:\t1\n"), (Some(false), "NoNewPrivs:\t0\n")]
    {
        let mut config = json!({"program": "grep", "args": ["NoNewPrivs", "/proc/self/status"]});
        if let Some(said) = said {
            config["no_new_privs"] = json!(said);
        }
        assert_eq!(run(config).await.stdout.head, expected, "{said:?}");
    }
}

#[tokio::test]
async fn crash_leaves_no_core_dump() {
    let report = run(json!({"shell": true, "command": "ulimit -Hc; kill -SEGV $$"})).await;
    assert_eq!(report.stdout.head, "0\n");
    assert_eq!(report.error_message.as_deref(), Some("killed by signal 11 (SIGSEGV)"));
}

#[tokio::test]
async fn program_runs_as_another_user_in_a_private_directory() {
    let nobody = format!("{NOBODY}:{NOBODY}");
    let bench = Bench::running_as(&[&nobody]);
    // The private directory's parent must be searchable, like the system's temporary directory.
    fs::set_permissions(bench.root.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
    let command = "id -u; id -g; grep Groups /proc/self/status; touch mine $TMPDIR/too; cat $SCHED_ARGS_FILE; echo '{\"ok\":1}' > $SCHED_RESULT_FILE";
    let mut config = json!({"shell": true, "command": command});
    config["run_as"] = json!({"user": NOBODY.to_string(), "group": NOBODY.to_string()});
    let report = bench.run(execution(config.clone())).await;
    if !is_root() {
        assert_eq!(report.error_class, Some(ErrorClass::RunAsUnavailable));
        assert!(report.error_message.unwrap().contains("CAP_SETUID"));
        return;
    }
    assert_eq!(report.outcome, Outcome::Succeeded, "{report:?}");
    assert_eq!(report.stdout.head, format!("{NOBODY}\n{NOBODY}\nGroups:\t \n{{\"day\":\"monday\"}}"));
    assert_eq!(report.result, Some(json!({"ok": 1})));
    assert_eq!((report.notes.len(), entries(bench.root.path())), (0, 0), "{:?}", report.notes);

    let token = token();
    config["command"] =
        json!(format!("setsid sleep {token} & setsid setsid env -i sleep {token} & sleep 0.2"));
    assert_eq!(bench.run(execution(config.clone())).await.outcome, Outcome::Succeeded);
    assert_eq!(alive_with(&token), Vec::<u32>::new(), "a program of another user is killed too");

    config["run_as"] = json!({"user": "no-such-user"});
    let report = bench.run(execution(config)).await;
    assert_eq!(report.error_message.as_deref(), Some("there is no user \"no-such-user\" on this worker"));
}

#[tokio::test]
async fn unlisted_user_is_refused() {
    let nobody = format!("{NOBODY}:{NOBODY}");
    let (nobodys, others) = (Bench::new(), Bench::running_as(&[&nobody]));
    let table = [
        (
            &nobodys,
            json!({"user": NOBODY.to_string(), "group": NOBODY.to_string()}),
            "its WORKER_RUN_AS is empty",
        ),
        (&others, json!({"user": "daemon"}), "which is not in WORKER_RUN_AS of this worker (65534:65534)"),
        (&others, json!({"user": NOBODY.to_string(), "group": "1"}), "WORKER_RUN_AS"),
        // With the right to become these users, the program would keep the worker's rights.
        (&others, json!({"user": "root"}), "always refused"),
        (&others, json!({"user": "0", "group": NOBODY.to_string()}), "always refused"),
        (&others, json!({"user": NOBODY.to_string(), "group": "0"}), "always refused"),
        (&others, json!({"user": u32::MAX.to_string(), "group": NOBODY.to_string()}), "always refused"),
        (&others, json!({"user": NOBODY.to_string(), "group": u32::MAX.to_string()}), "always refused"),
    ];
    for (bench, run_as, expected) in table {
        let report = bench.run(execution(json!({"program": "id", "run_as": run_as}))).await;
        assert_eq!(report.error_class, Some(ErrorClass::RunAsUnavailable), "{run_as} {report:?}");
        let message = report.error_message.unwrap();
        assert!(message.contains(expected), "{run_as}: {message}");
        assert!(report.started_after.is_none() && report.stdout.head.is_empty(), "{run_as}");
        assert_eq!(entries(bench.root.path()), 0);
    }
}

#[tokio::test]
async fn fork_bomb_stays_within_its_limit_and_is_killed() {
    let token = token();
    let bomb = format!("f() {{ f | f & sleep {token}; }}; f & exec sleep {token}");
    let mut execution = execution(limited(&bomb, json!({"pids": 20})));
    execution.timeout = Duration::from_secs(2);
    let bench = Bench::new();
    let most = async {
        let mut most = 0;
        for _ in 0..40 {
            most = most.max(alive_with(&token).len());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        most
    };
    let (report, most) =
        within(Duration::from_secs(60), async { tokio::join!(bench.run(execution), most) }).await;
    if is_refused(&report) {
        return;
    }
    assert_eq!(report.outcome, Outcome::TimedOut, "{report:?}");
    assert!((2..=20).contains(&most), "{most} processes");
    assert_eq!(alive_with(&token), Vec::<u32>::new());
}

#[tokio::test]
async fn exceeded_memory_limit_is_reported() {
    let limits = json!({"memory_bytes": 64 * 1024 * 1024});
    let greedy = "head -c 1G /dev/zero | tail -c 1G";
    let report = within(Duration::from_secs(60), run(limited(greedy, limits.clone()))).await;
    if is_refused(&report) {
        return;
    }
    assert_eq!(
        (report.outcome, report.error_class),
        (Outcome::Failed, Some(ErrorClass::OutOfMemory)),
        "{report:?}"
    );
    let message = report.error_message.unwrap();
    assert!(message.contains("memory limit of 67108864 bytes"), "{message}");
    assert_eq!(
        run(limited("head -c 1M /dev/zero | tail -c 1M | wc -c", limits)).await.stdout.head,
        "1048576\n"
    );
}

#[tokio::test]
async fn cpu_limit_slows_the_program() {
    let busy = "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done";
    let mut execution = execution(limited(busy, json!({"cpu_percent": 5})));
    execution.timeout = Duration::from_secs(2);
    let report = Bench::new().run(execution).await;
    if is_refused(&report) {
        return;
    }
    assert_eq!(
        report.outcome,
        Outcome::TimedOut,
        "a loop of well under a second of processor time: {report:?}"
    );
}

#[tokio::test]
async fn dropped_attempt_leaves_no_process_in_its_group() {
    let (bench, token) = (Bench::new(), token());
    let escapes = format!("setsid setsid env -i sleep {token} & setsid sleep {token} & sleep {token}");
    let run = bench.run(execution(limited(&escapes, json!({"pids": 50}))));
    let is_there = async { crate::support::wait_for_sleepers(&token, 3).await };
    tokio::select! {
        report = run => assert!(is_refused(&report), "{report:?}"),
        () = is_there => {}
    }
    crate::support::wait_for_silence(&token).await;
}

#[tokio::test]
async fn process_in_nested_group_is_killed() {
    let (bench, token, other) = (Bench::new(), token(), token());
    // Only its control group distinguishes the process from those of the concurrent attempt.
    let hides = format!(
        "v1=$(sed -n 's/^[0-9]*:pids://p' /proc/self/cgroup); v2=$(sed -n 's/^0:://p' /proc/self/cgroup); \
         for group in /sys/fs/cgroup/pids$v1 /sys/fs/cgroup/unified$v2 /sys/fs/cgroup$v2; do \
         case $group in */sched-*) test -w $group/cgroup.procs && break;; esac; done; \
         mkdir -p $group/below/deeper && sh -c \"echo \\$\\$ > $group/below/deeper/cgroup.procs; \
         exec setsid setsid --fork env -i sleep {token}\"; echo $group; sleep 0.2"
    );
    let beside = bench.run(execution(json!({"program": "sleep", "args": [other], "grace_seconds": 0})));
    let hiding = async {
        crate::support::wait_for_sleepers(&other, 1).await;
        bench.run(execution(limited(&hides, json!({"pids": 50})))).await
    };
    let report = tokio::select! {
        report = beside => panic!("{report:?}"),
        report = hiding => report,
    };
    if is_refused(&report) {
        return;
    }
    assert_eq!(report.outcome, Outcome::Succeeded, "{report:?}");
    assert_eq!((alive_with(&token), report.notes.len()), (Vec::new(), 0), "{:?}", report.notes);
    let group = std::path::PathBuf::from(report.stdout.head.trim());
    assert!(group.starts_with("/sys/fs/cgroup") && group.parent().unwrap().exists(), "{report:?}");
    let is_gone = || {
        bench.handler.clean_up();
        !group.exists()
    };
    crate::support::wait_for(|| format!("no {}", group.display()), is_gone).await;
}

/// Not a test: the test below runs it as a user without rights.
#[tokio::test]
#[ignore = "it is the worker of another test"]
async fn worker_without_rights() {
    let report =
        run(json!({"shell": true, "command": "cat /proc/$PPID/environ; cat /proc/$PPID/maps"})).await;
    // An attempt that did not start would prove nothing.
    assert_eq!(report.exit_code, Some(1), "{report:?}");
    assert_eq!(
        (report.stdout.head.as_str(), report.stderr.head.matches("Permission denied").count()),
        ("", 2),
        "{report:?}"
    );
    // What an attempt leaves without rights is removed all the same.
    let bench = Bench::new();
    let closed = "mkdir -p $TMPDIR/a/b && touch $TMPDIR/a/b/file && chmod 0 $TMPDIR/a/b && chmod 500 $TMPDIR/a $TMPDIR";
    let report = bench.run(execution(json!({"shell": true, "command": closed}))).await;
    assert_eq!((report.outcome, &report.notes), (Outcome::Succeeded, &Vec::new()), "{report:?}");
    assert_eq!(entries(bench.root.path()), 0);
    println!("the worker kept its secrets");
}

/// The user of a worker with few rights.
const WORKER: u32 = 12_345;

/// Not a test: the test below runs it as a user with the documented capabilities only.
#[tokio::test]
#[ignore = "it is the worker of another test"]
async fn worker_that_may_only_change_users() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    for set in ["CapPrm:\t", "CapEff:\t", "CapBnd:\t"] {
        assert!(status.contains(&format!("{set}00000000000000e1\n")), "{status}");
    }
    let place = std::env::temp_dir();
    let run_as = |command: &str| {
        let ids = NOBODY.to_string();
        execution(
            json!({"shell": true, "command": command, "grace_seconds": 0, "run_as": {"user": ids, "group": ids}}),
        )
    };
    let handler = crate::support::handler_in(&place, &[], &[&format!("{NOBODY}:{NOBODY}")]);
    let run = async |command: &str| handler.run(&run_as(command), &CancellationToken::new()).await;
    let left = || {
        let names =
            fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("sched-")).count()
    };

    let report =
        run("id -u; grep CapEff /proc/self/status; cat; cat $SCHED_ARGS_FILE; basename \"$(pwd -P)\"; \
         mkdir -p deep/er; touch mine deep/er/file $TMPDIR/too; chmod 700 deep; \
         (umask 077; echo '{\"ok\":1}' > $SCHED_RESULT_FILE); \
         mkdir -p closed/in; touch closed/in/file; chmod 0 closed/in; chmod 500 closed . $TMPDIR")
        .await;
    assert_eq!(report.outcome, Outcome::Succeeded, "{report:?}");
    let args = "{\"day\":\"monday\"}";
    let expected = format!("{NOBODY}\nCapEff:\t0000000000000000\n{args}{args}work\n");
    assert_eq!(report.stdout.head, expected, "{report:?}");
    assert_eq!(report.result, Some(json!({"ok": 1})), "{report:?}");
    assert_eq!((report.notes.len(), left()), (0, 0), "{:?}", report.notes);

    // The program cannot read files with the worker's rights by replacing its directory.
    let secret = place.join("of-the-worker");
    fs::create_dir(&secret).unwrap();
    fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    fs::write(secret.join("result.json"), "\"a secret of the worker\"").unwrap();
    fs::write(secret.join("args.json"), "x").unwrap();
    let swap = format!("mv $TMPDIR {0}/moved && ln -s {1} $TMPDIR", place.display(), secret.display());
    let report = run(&swap).await;
    assert_eq!((report.outcome, &report.result), (Outcome::Succeeded, &None), "{report:?}");
    assert!(report.notes.iter().any(|note| note.contains("could not be removed")), "{:?}", report.notes);
    assert!(secret.join("result.json").exists() && secret.join("args.json").exists());
    println!("the worker can do what it is documented to do");
}

#[tokio::test]
async fn documented_capabilities_suffice_to_change_users() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: it takes root to give a process a few capabilities");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let temp = place.path().join("tmp");
    fs::create_dir(&temp).unwrap();
    fs::set_permissions(&temp, std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
    let program = place.path().join("tests");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let capabilities = "-all,+chown,+kill,+setgid,+setuid";
    let worker = Command::new("setpriv")
        .args(["--reuid", &WORKER.to_string(), "--regid", &WORKER.to_string(), "--clear-groups"])
        .args(["--bounding-set", capabilities, "--inh-caps", capabilities, "--ambient-caps", capabilities])
        .arg(&program)
        .args(["--exact", "confined::worker_that_may_only_change_users", "--ignored", "--nocapture"])
        .env("TMPDIR", &temp)
        .current_dir(place.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&worker.stdout);
    let complained = String::from_utf8_lossy(&worker.stderr);
    assert!(said.contains("the worker can do what it is documented to do"), "{said} {complained}");
}

#[tokio::test]
async fn result_is_not_read_through_a_link() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: without root all directories belong to the worker");
        return;
    }
    let bench = Bench::running_as(&[&format!("{NOBODY}:{NOBODY}")]);
    let sticky = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
    fs::set_permissions(bench.root.path(), sticky).unwrap();
    let secret = tempfile::tempdir().unwrap();
    for file in ["result.json", "args.json"] {
        fs::write(secret.path().join(file), "\"of root\"").unwrap();
    }
    let command = format!("mv $TMPDIR $TMPDIR.moved && ln -s {} $TMPDIR", secret.path().display());
    let ids = NOBODY.to_string();
    let config = json!({"shell": true, "command": command, "run_as": {"user": ids, "group": ids}});
    let report = bench.run(execution(config)).await;
    assert_eq!((report.outcome, &report.result), (Outcome::Succeeded, &None), "{report:?}");
    assert_eq!(entries(secret.path()), 2, "nothing is removed there either");
}

#[tokio::test]
async fn program_of_same_user_cannot_read_the_worker() {
    // Without root, the worker's user is the same. The worker always runs in a separate process.
    let user = is_root().then_some(NOBODY);
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let program = place.path().join("tests");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut worker = Command::new(&program);
    if let Some(user) = user {
        worker.uid(user).gid(user);
    }
    let worker = worker
        .args(["--exact", "confined::worker_without_rights", "--ignored", "--nocapture"])
        .env("TMPDIR", place.path())
        .env("MY_SECRET", "for the worker only")
        .current_dir(place.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&worker.stdout);
    assert!(
        said.contains("the worker kept its secrets"),
        "{said} {}",
        String::from_utf8_lossy(&worker.stderr)
    );
}

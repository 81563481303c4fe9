//! `sched.archive`, to a folder and to a minimal S3 server.

use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use test_support::Process;

use super::*;

fn lines(path: &Path) -> Vec<Value> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn detached_months_are_archived_then_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}/archive", dir.path().display());
    let worker = RunningWorker::start(HistoryExpiry::Detach, &[("ARCHIVE_URL", &url)]).await;
    let (first, empty) = (worker.detached_month(1, 5000).await, worker.detached_month(2, 0).await);
    let result = worker.done("sched.archive").await;
    assert_eq!((&result["rows"], &result["left"]), (&json!(5000), &json!(0)));
    let objects = result["archived"].as_array().unwrap();
    assert_eq!(objects.len(), 2);
    for (object, (table, rows)) in objects.iter().zip([(first, 5000), (empty, 0)]) {
        assert_eq!(object["table"], format!("history_archive.{table}"));
        assert_eq!(
            worker.text(&format!("to_regclass('history_archive.{table}')")).await,
            "-",
            "it is dropped"
        );
        let path = object["object"].as_str().unwrap().strip_prefix("file://").unwrap().to_owned();
        let lines = lines(Path::new(&path));
        let mut numbers: Vec<u64> = lines.iter().map(|line| line["payload"]["n"].as_u64().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=rows).collect::<Vec<u64>>(), "every row, once");
        let file = Path::new(&path).file_name().unwrap().to_str().unwrap();
        let sums = format!("{}  {file}\n", object["sha256"].as_str().unwrap());
        assert_eq!(std::fs::read_to_string(format!("{path}.sha256")).unwrap(), sums);
        let checked = Command::new("sha256sum")
            .arg("-c")
            .arg(format!("{file}.sha256"))
            .current_dir(Path::new(&path).parent().unwrap())
            .output();
        assert!(checked.unwrap().status.success());
    }
    assert_eq!(worker.done("sched.archive").await["archived"], json!([]));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn months_are_archived_to_s3() {
    let s3 = s3::S3::start();
    let jobs = RunningWorker::without_worker(HistoryExpiry::Detach).await;
    let table = jobs.detached_month(1, 2000).await;
    // A separate process: credentials and endpoint come from its environment.
    let mut worker = Process::daemon("sched-worker")
        .env("DATABASE_URL", jobs.fixture.db.url())
        .env("ARCHIVE_URL", "s3://history/of/sched")
        .env("AWS_ENDPOINT", s3.server.url(""))
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_REGION", "eu-central-1")
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .start();
    let result = jobs.done("sched.archive").await;
    assert_eq!(result["rows"], 2000);
    assert_eq!(jobs.text(&format!("to_regclass('history_archive.{table}')")).await, "-", "it is dropped");
    let object = result["archived"][0]["object"].as_str().unwrap();
    let path = object.replace("s3://", "/");
    assert!(path.starts_with(&format!("/history/of/sched/history_archive/{table}-")), "{path}");
    assert_eq!(s3.paths(), [path.clone(), format!("{path}.sha256")]);
    let mut text = String::new();
    flate2::read::GzDecoder::new(&s3.object(&path)[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().count(), 2000);
    assert!(worker.stop_gracefully(PATIENCE).await.success());
}

async fn path_of(worker: &RunningWorker, dir: &Path, table: &str) -> std::path::PathBuf {
    let oid = worker.text(&format!("'history_archive.{table}'::regclass::oid")).await;
    dir.join(format!("history_archive/{table}-{oid}.jsonl.gz"))
}

#[tokio::test(flavor = "multi_thread")]
async fn archiving_continues_after_a_dead_run() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}", dir.path().display());
    let worker = RunningWorker::start(HistoryExpiry::Detach, &[("ARCHIVE_URL", &url)]).await;
    // A complete object of a month of 100 rows with its checksum, as if a run died before it
    // dropped the month.
    let whole = worker.detached_month(1, 100).await;
    let content = {
        let copy = worker.detached_month(9, 100).await;
        worker.done("sched.archive").await;
        assert_eq!(worker.text(&format!("to_regclass('history_archive.{copy}')")).await, "-");
        let archived = std::fs::read_dir(dir.path().join("history_archive")).unwrap();
        let mut paths: Vec<_> = archived.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.to_str().unwrap().contains("m09") && path.extension().unwrap() == "gz");
        (
            std::fs::read(&paths[0]).unwrap(),
            std::fs::read_to_string(format!("{}.sha256", paths[0].display())).unwrap(),
        )
    };
    assert_eq!(
        worker.text(&format!("to_regclass('history_archive.{whole}')")).await,
        "-",
        "it was archived along"
    );

    let dropped = worker.detached_month(2, 100).await;
    let half = worker.detached_month(3, 100).await;
    let damaged = worker.detached_month(4, 100).await;
    let other = worker.detached_month(5, 99).await;
    for (table, object, checksum) in [
        // A run died before it dropped the month.
        (&dropped, &content.0[..], Some(&content.1)),
        // A run died before it wrote the checksum.
        (&half, &content.0[..content.0.len() / 2], None),
        (&damaged, &content.0[..content.0.len() / 2], Some(&content.1)),
        (&other, &content.0[..], Some(&content.1)),
    ] {
        let path = path_of(&worker, dir.path(), table).await;
        std::fs::write(&path, object).unwrap();
        if let Some(checksum) = checksum {
            std::fs::write(format!("{}.sha256", path.display()), checksum).unwrap();
        }
    }
    let paths = [
        path_of(&worker, dir.path(), &dropped).await,
        path_of(&worker, dir.path(), &half).await,
        path_of(&worker, dir.path(), &damaged).await,
        path_of(&worker, dir.path(), &other).await,
    ];
    let (status, _, error) = worker.run("sched.archive", &json!({})).await;
    assert_eq!(status, "FAILED");
    assert!(error.starts_with("archive_failed: 3 months were archived, 1 were not"), "{error}");
    assert!(error.contains("is the archive of another month"), "{error}");
    for (table, path) in [dropped, half, damaged].iter().zip(&paths) {
        assert_eq!(
            worker.text(&format!("to_regclass('history_archive.{table}')")).await,
            "-",
            "{table} is dropped"
        );
        assert_eq!(lines(path).len(), 100, "{table}");
    }
    assert_eq!(worker.text(&format!("SELECT count(*) FROM history_archive.{other}")).await, "99", "it stays");
    assert_eq!(std::fs::read(&paths[3]).unwrap(), content.0, "the other object stays unchanged");
    worker.stop().await;
}

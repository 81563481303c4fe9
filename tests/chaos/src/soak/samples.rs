//! Samples the installation periodically, and writes a line of JSON and of CSV for each sample.
//!
//! Unavailable values (a daemon or the database is down) are missing. Written lines survive a
//! crash.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use sched_runtime::monotonic_clock;
use serde_json::{Value, json};
use test_support::http;
use tokio::time::{sleep, timeout};

use super::meters::{Histogram, Meters};
use crate::faults::Victims;
use crate::plan::Kind;
use crate::timeline::{Lines, now};

pub(super) const HOT: [&str; 8] = [
    "job_dispatch",
    "scheduled_jobs",
    "worker_registration",
    "worker_claims",
    "scheduler_instances",
    "job_ends",
    "queues",
    "skipped_fires",
];
const LIMIT: Duration = Duration::from_secs(2);

const TABLES: &str = "
    SELECT c.relname::text, pg_table_size(c.oid), pg_indexes_size(c.oid), greatest(c.reltuples, 0)::bigint, coalesce(s.n_dead_tup, 0)
    FROM pg_class c LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relname::text = ANY ($1::text[])
    ORDER BY c.relname";
const SESSIONS: &str = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname = current_database()";

#[derive(Debug, Clone, Default)]
pub(super) struct Sample {
    /// Seconds since the epoch.
    pub(super) at: f64,
    /// Seconds since the start.
    pub(super) seconds: f64,
    /// Claims of all workers since the previous sample.
    pub(super) claims: Histogram,
    /// Lateness of dispatches created since then.
    pub(super) lateness: Histogram,
    /// Number of rows that retention removed since then.
    pub(super) pruned: f64,
    pub(super) daemons: Vec<Process>,
    pub(super) tables: Vec<Table>,
    pub(super) sessions: Option<i64>,
    pub(super) has_old_snapshot: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) pid: i32,
    /// Bytes.
    pub(super) resident: f64,
    pub(super) files: f64,
}

#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) name: String,
    /// Including indexes.
    pub(super) bytes: f64,
    pub(super) index_bytes: f64,
    /// As of the last vacuum or analysis.
    pub(super) rows: f64,
    pub(super) dead: f64,
}

#[derive(Debug)]
pub(super) struct Sampler {
    pub(super) victims: Arc<Victims>,
    pub(super) has_old_snapshot: Arc<AtomicBool>,
    pub(super) seen: tokio::sync::mpsc::UnboundedSender<Sample>,
    pub(super) into: std::path::PathBuf,
}

impl Sampler {
    pub(super) async fn run(self, period: Duration) -> anyhow::Result<()> {
        let Self { victims, has_old_snapshot, seen, into } = self;
        let lines = into.join("samples.jsonl");
        if lines.exists() {
            fs::remove_file(&lines)?;
        }
        let lines = Lines::create(lines)?;
        let mut csv = Csv::create(&into.join("samples.csv"))?;
        let mut meters = Meters::default();
        let start = monotonic_clock::monotonic();
        loop {
            let mut sample = sample(&victims, &mut meters).await;
            sample.seconds = start.elapsed().as_secs_f64();
            sample.has_old_snapshot = has_old_snapshot.load(Ordering::Relaxed);
            lines.add(&sample.json());
            csv.add(&sample)?;
            // The receiver may have ended.
            drop(seen.send(sample));
            sleep(period).await;
        }
    }
}

async fn sample(victims: &Victims, meters: &mut Meters) -> Sample {
    let mut sample = Sample { at: now(), ..Sample::default() };
    for daemon in &victims.fleet.daemons {
        let (kind, name, pid) = (daemon.target.kind, &daemon.name, daemon.pid());
        if let Some((resident, files)) = process(pid) {
            sample.daemons.push(Process { name: name.clone(), kind, pid, resident, files });
        }
        let page = match kind {
            Kind::Api => continue,
            Kind::Scheduler | Kind::Worker => timeout(LIMIT, http::get(daemon.address, "/metrics")).await,
        };
        // A daemon that is down reports the values the next time.
        let Ok(Ok(page)) = page else { continue };
        sample.claims.add(&meters.histogram(name, "sched_claim_seconds", &page.body));
        sample.lateness.add(&meters.histogram(name, "sched_fire_lateness_seconds", &page.body));
        sample.pruned += meters.counter(name, "sched_rows_pruned_total", &page.body);
    }
    let asked = async {
        let sql = victims.workspace.client().await?;
        let tables = sql.query(TABLES, &[&HOT.as_slice()]).await?;
        let sessions: i64 = sql.query_one(SESSIONS, &[]).await?.get(0);
        anyhow::Ok((tables, sessions))
    };
    if let Ok(Ok((tables, sessions))) = timeout(LIMIT, asked).await {
        sample.tables = tables
            .iter()
            .map(|row| Table {
                name: row.get(0),
                bytes: (row.get::<_, i64>(1) + row.get::<_, i64>(2)) as f64,
                index_bytes: row.get::<_, i64>(2) as f64,
                rows: row.get::<_, i64>(3) as f64,
                dead: row.get::<_, i64>(4) as f64,
            })
            .collect();
        sample.sessions = Some(sessions);
    }
    sample
}

/// Resident memory and open files; `None` if the process has ended, or on systems other than Linux.
fn process(pid: i32) -> Option<(f64, f64)> {
    let folder = Path::new("/proc").join(pid.to_string());
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = resident.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let files = fs::read_dir(folder.join("fd")).ok()?.count();
    Some((kilobytes * 1024.0, files as f64))
}

impl Sample {
    fn json(&self) -> Value {
        let histogram = |histogram: &Histogram| json!({"count": histogram.count(), "p50": histogram.quantile(0.5), "p99": histogram.quantile(0.99)});
        let daemons: Vec<Value> = self.daemons.iter().map(|process| {
            json!({"name": process.name, "pid": process.pid, "resident_bytes": process.resident, "files": process.files})
        }).collect();
        let tables: Vec<Value> = self.tables.iter().map(|table| {
            json!({"name": table.name, "bytes": table.bytes, "index_bytes": table.index_bytes, "rows": table.rows, "dead": table.dead})
        }).collect();
        json!({
            "at": self.at, "seconds": self.seconds, "claim_seconds": histogram(&self.claims), "lateness_seconds": histogram(&self.lateness),
            "pruned_rows": self.pruned, "sessions": self.sessions, "has_old_snapshot": self.has_old_snapshot, "daemons": daemons, "tables": tables,
        })
    }
}

#[derive(Debug)]
struct Csv {
    file: File,
    has_head: bool,
}

impl Csv {
    fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("failed to create {}", path.display()))?;
        Ok(Self { file, has_head: false })
    }

    fn add(&mut self, sample: &Sample) -> anyhow::Result<()> {
        let cells = cells(sample);
        if !self.has_head {
            let names: Vec<&str> = cells.iter().map(|(name, _)| name.as_str()).collect();
            writeln!(self.file, "{}", names.join(","))?;
            self.has_head = true;
        }
        let values: Vec<String> = cells
            .iter()
            .map(|(_, value)| if value.is_finite() { value.to_string() } else { String::new() })
            .collect();
        writeln!(self.file, "{}", values.join(",")).context("failed to write a sample")
    }
}

/// The same columns for every sample, even when a part was down.
fn cells(sample: &Sample) -> Vec<(String, f64)> {
    let mut cells = vec![
        ("seconds".to_owned(), sample.seconds),
        ("claims".to_owned(), sample.claims.count()),
        ("claim_p50_seconds".to_owned(), sample.claims.quantile(0.5)),
        ("claim_p99_seconds".to_owned(), sample.claims.quantile(0.99)),
        ("fires".to_owned(), sample.lateness.count()),
        ("lateness_p50_seconds".to_owned(), sample.lateness.quantile(0.5)),
        ("lateness_p99_seconds".to_owned(), sample.lateness.quantile(0.99)),
        ("pruned_rows".to_owned(), sample.pruned),
        ("sessions".to_owned(), sample.sessions.map_or(f64::NAN, |count| count as f64)),
        ("has_old_snapshot".to_owned(), f64::from(u8::from(sample.has_old_snapshot))),
    ];
    for kind in [Kind::Api, Kind::Scheduler, Kind::Worker] {
        for number in 0..crate::plan::count_of(kind) {
            let name = format!("{}-{number}", crate::fleet::daemon_name(kind));
            let process = sample.daemons.iter().find(|process| process.name == name);
            cells.push((
                format!("{name}_resident_bytes"),
                process.map_or(f64::NAN, |process| process.resident),
            ));
            cells.push((format!("{name}_files"), process.map_or(f64::NAN, |process| process.files)));
        }
    }
    for name in HOT {
        let table = sample.tables.iter().find(|table| table.name == name);
        cells.push((format!("{name}_bytes"), table.map_or(f64::NAN, |table| table.bytes)));
        cells.push((format!("{name}_index_bytes"), table.map_or(f64::NAN, |table| table.index_bytes)));
        cells.push((format!("{name}_dead"), table.map_or(f64::NAN, |table| table.dead)));
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_has_the_same_columns() {
        let whole = Sample {
            tables: vec![Table {
                name: HOT[0].to_owned(),
                bytes: 1.0,
                index_bytes: 1.0,
                rows: 1.0,
                dead: 0.0,
            }],
            daemons: vec![Process {
                name: "worker-0".to_owned(),
                kind: Kind::Worker,
                pid: 1,
                resident: 1.0,
                files: 1.0,
            }],
            sessions: Some(3),
            ..Sample::default()
        };
        let names =
            |sample: &Sample| cells(sample).into_iter().map(|(name, _)| name).collect::<Vec<String>>();
        assert_eq!(names(&whole), names(&Sample::default()));
        assert!(names(&whole).contains(&"worker-0_files".to_owned()));
    }

    #[test]
    fn resource_use_of_this_process_is_read() {
        let ours = process(i32::try_from(std::process::id()).unwrap());
        if cfg!(target_os = "linux") {
            let (resident, files) = ours.unwrap();
            assert!(resident > 1e5 && files >= 3.0, "{resident} bytes, {files} files");
        }
    }
}

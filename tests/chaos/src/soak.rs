//! A complete installation with thousands of jobs for hours, under few faults, to detect drift of
//! times, sizes, memory and files.
//!
//! Daemons, faults, clients, checker and some jobs are those of `scripts/chaos`. Samples survive a
//! crash of the program. Ctrl-C and SIGTERM stop it with status 130 and no verdict.

mod bounds;
mod history;
mod jobs;
mod meters;
mod plots;
mod samples;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Parser;
use sched_runtime::monotonic_clock;
use serde_json::{Value, json};
use system_tests::{Effects, FinishedRun, Verdict};
use test_support::{Pooler, http};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::bounds::{Finding, Retained};
use self::samples::{Sample, Sampler};
use crate::clients::{Client, SharedState};
use crate::faults::{self, Victims, drains, snapshot};
use crate::fleet::{Choice, Fleet, program};
use crate::follower::Follower;
use crate::plan::{self, CLIENTS, Kind};
use crate::run::{WAKE, decide};
use crate::timeline::{LEFT_OUT, Lines, START, now};
use crate::watch::{self, Progress};
use crate::workspace::{self, Workspace};
use crate::{report, settle, setup};

const PERIOD: Duration = Duration::from_secs(10);
/// Begin and maximum length of the old snapshot, as shares of the run.
const SNAPSHOT: (f64, f64) = (0.45, 0.10);
const SNAPSHOT_LIMIT: Duration = Duration::from_secs(120);
/// Dispatches per second of the jobs of `scripts/chaos`.
const THEIR_RATE: f64 = 25.0;
/// Similar to production; autovacuum runs as often as tables this small need it.
const SETTINGS: [&str; 3] = ["shared_buffers=256MB", "max_wal_size=1GB", "autovacuum_naptime=10s"];

/// Runs an installation for hours with few faults, and shows drift.
#[derive(Debug, Parser)]
#[command(name = "scripts/soak", max_term_width = 110)]
pub(crate) struct Cli {
    /// Duration in hours
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    hours: f64,
    /// Duration in minutes, added to the hours
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    minutes: f64,
    /// Seed of the faults and requests
    #[arg(long, value_name = "S", default_value_t = 7)]
    seed: u64,
    /// Number of jobs, from minutely to yearly
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    jobs: usize,
    /// Folder of the results and of the run
    #[arg(long, value_name = "FOLDER", default_value = "target/soak")]
    into: PathBuf,
    /// Python with the packages of the oracle of fire times
    #[arg(long, value_name = "FILE")]
    python: PathBuf,
    /// Keeps the folder of the run after any result
    #[arg(long)]
    keep: bool,
}

impl Cli {
    fn length(&self) -> Duration {
        let minutes = self.hours.max(0.0) * 60.0 + self.minutes.max(0.0);
        // Half an hour by default; a month at most.
        let minutes = if minutes > 0.0 { minutes } else { 30.0 };
        Duration::from_secs_f64(minutes.clamp(2.0, 31.0 * 24.0 * 60.0) * 60.0)
    }
}

struct Outcome {
    verdicts: Vec<Verdict>,
    findings: Vec<Finding>,
    figures: String,
    facts: Vec<(&'static str, String)>,
}

pub(crate) async fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    println!("seed {}", cli.seed);
    let workspace = Arc::new(Workspace::open(&cli.into, false, &SETTINGS).await?);
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let outcome = tokio::select! {
        outcome = provoke(cli, &workspace) => Some(outcome),
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
    };
    let is_good = match &outcome {
        Some(Ok(outcome)) => {
            outcome.verdicts.iter().all(Verdict::holds)
                && outcome.findings.iter().all(|finding| finding.is_kept)
        }
        Some(Err(_)) | None => false,
    };
    let is_kept = cli.keep || (outcome.is_some() && !is_good);
    if is_kept && let Err(error) = workspace.dump().await {
        eprintln!("the database cannot be dumped: {error:#}");
    }
    let folder = workspace.file("");
    workspace::leave(workspace, is_kept).await?;
    if is_kept {
        println!("kept: {}", folder.display());
    }
    let Some(outcome) = outcome else { return Ok(ExitCode::from(130)) };
    let outcome = outcome?;
    let bounds = bounds::table(&outcome.findings);
    print!("\n{}\n{}\n{bounds}", Verdict::table(&outcome.verdicts), outcome.figures);
    let verdict = if is_good { "every bound is kept and every invariant holds" } else { "BROKEN" };
    let run =
        format!("seed {}, {:.0} minutes, {} jobs", cli.seed, cli.length().as_secs_f64() / 60.0, cli.jobs);
    println!("\n{run}: {verdict}\nwritten to {}", cli.into.display());
    write(cli, &outcome, &format!("{run}: {verdict}"))?;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn provoke(cli: &Cli, workspace: &Arc<Workspace>) -> anyhow::Result<Outcome> {
    let length = cli.length();
    let timeline = Arc::new(Lines::create(workspace.file("timeline.jsonl"))?);
    let answers = Arc::new(Lines::create(workspace.file("answers.jsonl"))?);
    let effects = workspace.file("effects");
    let their_bearer = setup::arrange(&workspace.client().await?).await?;
    let pooler = Pooler::before(workspace.url(), "session").await;
    let days = history::days(length).to_string();
    let keys = format!("{days}d");
    // The shortest ages at which no data of the run itself expires.
    let ages = [("CLEANUP_RETENTION_DAYS", days.as_str()), ("IDEMPOTENCY_KEY_RETENTION", keys.as_str())];
    let choice = Choice { settings: &ages, ..Choice::default() };
    let fleet = Fleet::start(workspace, pooler.address(), &timeline, choice).await?;
    let apis: Vec<_> = fleet.all(Kind::Api).map(|api| api.address).collect();
    let schedulers: Vec<_> =
        fleet.all(Kind::Scheduler).map(|daemon| (daemon.name.clone(), daemon.address)).collect();
    let api = *apis.first().context("no API")?;
    let job = program("chaos-job")?;
    println!("applying {} jobs", cli.jobs);
    let began = monotonic_clock::monotonic();
    jobs::populate(api, &job, &effects, cli.jobs).await?;
    setup::populate(api, &job, &effects, &their_bearer).await?;
    println!("that took {:.0} s", began.elapsed().as_secs_f64());
    // The events of the created jobs do not matter.
    let stream_lines = Arc::new(Lines::create(workspace.file("stream.jsonl"))?);
    let follower = Follower::start(apis.clone(), Arc::clone(&stream_lines)).await?;
    history::fill(&workspace.client().await?, length, jobs::rate(cli.jobs) + THEIR_RATE).await?;
    // A leader checks the oldest dispatches only once an hour; a new leader starts with them.
    let step_down = "/api/v1/schedulers/leader/step-down";
    let answer = http::post(api, step_down, &json!({})).await?;
    ensure!(answer.status < 300, "the leader does not step down: {}", answer.body);

    let shared = Arc::new(SharedState { apis, answers: answers.clone(), their_bearer });
    let victims = Arc::new(Victims {
        fleet,
        workspace: workspace.clone(),
        pooler: Mutex::new(pooler),
        timeline: timeline.clone(),
        server: Mutex::new(()),
        rolling: Mutex::new(()),
        clock: Mutex::new(()),
    });
    let faults = plan::draw::light_faults(cli.seed, length);
    let planned = faults.len();
    let start = monotonic_clock::monotonic();
    let mut watching = JoinSet::new();
    let is_held = Arc::new(AtomicBool::new(false));
    watching.spawn(watch::roles(schedulers, answers.clone()));
    let (shown, sent) = (timeline.clone(), answers.clone());
    let progress = Progress { workspace: workspace.clone(), timeline: shown, answers: sent, planned, length };
    watching.spawn(progress.print());
    watching.spawn(hold_snapshot(workspace.clone(), is_held.clone(), length));
    let mut looking = JoinSet::new();
    let (seen, mut looks) = mpsc::unbounded_channel();
    let sampler =
        Sampler { victims: victims.clone(), has_old_snapshot: is_held, seen, into: cli.into.clone() };
    looking.spawn_local(sampler.run(PERIOD));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let client = Client::new(number, shared.clone());
        clients
            .spawn(client.run(plan::draw::light_actions(cli.seed, number, length), move || start.elapsed()));
    }
    faults::inject(&victims, faults, || start.elapsed()).await?;
    let mut clients: Vec<Client> = clients.join_all().await;
    if let Some(ended) = looking.try_join_next() {
        ended??;
    }
    looking.shutdown().await;
    let mut samples = Vec::new();
    while let Ok(sample) = looks.try_recv() {
        samples.push(sample);
    }
    workspace.revive().await?;
    victims.fleet.heal().await?;
    if !drains::undrain(workspace, &shared.apis, None).await {
        println!("some workers still drain");
    }
    let quiet_at = now();
    println!("the faults are over; the installation settles");
    let sql = workspace.client().await?;
    let (overdue, left) = history::measure(&sql, length).await?;
    settle::settle(&workspace.client().await?, &shared, &mut clients, false).await?;
    follower.stop(&sql).await?;
    watching.shutdown().await;
    let Some(Victims { fleet, pooler, .. }) = Arc::into_inner(victims) else {
        anyhow::bail!("a fault is still in progress")
    };
    let ends = fleet.end().await;
    drop(pooler);
    history::clear(&sql).await?;
    let finished = FinishedRun {
        effects: Effects::at(&effects, WAKE),
        timeline: timeline.path().to_owned(),
        answers: answers.path().to_owned(),
        stream: Some(stream_lines.path().to_owned()),
        schedulers: Fleet::schedulers(),
        pooled: Fleet::pooled(),
        quiet_at,
        python: cli.python.clone(),
    };
    let verdicts = decide(workspace, &finished, &sql, ends).await;
    let figures = report::figures(&sql, timeline.path(), planned).await?;
    let spans = spans(timeline.path())?;
    let findings = bounds::decide(&samples, &spans, Retained { overdue: overdue as f64 });
    let facts = facts(&sql, cli, left).await?;
    draw(&samples, &cli.into)?;
    Ok(Outcome { verdicts, findings, figures, facts })
}

/// Holds a snapshot for a part of the run, also across restarts of the database.
async fn hold_snapshot(workspace: Arc<Workspace>, is_held: Arc<AtomicBool>, length: Duration) {
    let (from, share) = SNAPSHOT;
    sleep(length.mul_f64(from)).await;
    let until = monotonic_clock::monotonic() + length.mul_f64(share).min(SNAPSHOT_LIMIT);
    loop {
        let left = until.saturating_duration_since(monotonic_clock::monotonic());
        match snapshot::hold(&workspace, left, || is_held.store(true, Ordering::Relaxed)).await {
            _ if left.is_zero() => break,
            Ok(()) => break,
            Err(error) => println!("the old snapshot is lost and taken again: {error:#}"),
        }
        sleep(Duration::from_secs(1)).await;
    }
    is_held.store(false, Ordering::Relaxed);
}

fn spans(timeline: &Path) -> anyhow::Result<Vec<(f64, f64)>> {
    let mut spans = Vec::new();
    for line in fs::read_to_string(timeline)?.lines() {
        let fault: Value = serde_json::from_str(line)?;
        if fault["kind"] == LEFT_OUT || fault["kind"] == START {
            continue;
        }
        let instant = |name: &str| fault[name].as_f64().with_context(|| format!("{line} has no {name}"));
        spans.push((instant("began")?, instant("ended")?));
    }
    Ok(spans)
}

async fn facts(
    sql: &test_support::Client,
    cli: &Cli,
    left: i64,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let output = std::process::Command::new(program("sched-scheduler")?).arg("--version").output()?;
    ensure!(output.status.success(), "the scheduler does not print its version");
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let file = |path: &str| {
        fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
    };
    let server: String = sql.query_one("SHOW server_version", &[]).await?.get(0);
    Ok(vec![
        ("sched", format!("{} ({build} build)", String::from_utf8_lossy(&output.stdout).trim())),
        ("PostgreSQL", server),
        ("settings", format!("durable, {}", SETTINGS.join(" "))),
        ("cores", cores.to_string()),
        ("kernel", file("/proc/sys/kernel/osrelease")),
        ("load after", file("/proc/loadavg")),
        (
            "jobs",
            format!("{}, {:.0} fires per second, and those of scripts/chaos", cli.jobs, jobs::rate(cli.jobs)),
        ),
        ("earlier dispatches left", left.to_string()),
    ])
}

fn draw(samples: &[Sample], into: &Path) -> anyhow::Result<()> {
    let written = plots::write(samples, into)?;
    println!("plots in {}: {}", into.display(), written.join(", "));
    Ok(())
}

fn write(cli: &Cli, outcome: &Outcome, verdict: &str) -> anyhow::Result<()> {
    let findings: Vec<Value> = outcome.findings.iter().map(|finding| {
        let Finding { what, source, measured, bound, unit, is_kept } = finding;
        json!({"what": what, "source": source, "measured": measured, "bound": bound, "unit": unit, "is_kept": is_kept})
    }).collect();
    let invariants: Vec<Value> = outcome.verdicts.iter().map(|verdict| {
        json!({"invariant": verdict.invariant, "checked": verdict.checked, "violations": verdict.violations, "rows": verdict.rows})
    }).collect();
    let facts: Value = outcome.facts.iter().map(|(name, fact)| ((*name).to_owned(), json!(fact))).collect();
    let all = json!({
        "seed": cli.seed, "minutes": cli.length().as_secs_f64() / 60.0, "jobs": cli.jobs, "machine": facts,
        "bounds": findings, "invariants": invariants,
    });
    fs::write(cli.into.join("soak.json"), serde_json::to_string_pretty(&all)? + "\n")?;
    let facts: Vec<String> = outcome.facts.iter().map(|(name, fact)| format!("- {name}: {fact}\n")).collect();
    let text = format!(
        "# Soak\n\n{verdict}\n\n{}\n{}\n{}",
        facts.concat(),
        bounds::table(&outcome.findings),
        outcome.figures
    );
    fs::write(cli.into.join("soak.md"), text).context("failed to write soak.md")
}

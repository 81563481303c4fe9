//! A release replaces the previous one under load. The schema is migrated while the old programs
//! work, and these continue on the new schema. Then the new programs replace them, schedulers
//! first, as in `deploy/README.md`. Run by `scripts/rehearse-upgrade`; `docs/internals/testing-and-proof.md` describes
//! the checks.
//!
//! A daemon of the old release that ends between the migration and its replacement cannot restart:
//! its start is rejected. No fault ends one during that time. All started processes end with this
//! program.

mod fixture;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use sched_runtime::monotonic_clock;
use system_tests::{Effects, FinishedRun, Verdict};
use test_support::{Finished, Pooler, Process};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::clients::{Client, SharedState};
use crate::faults::{self, Victims, drains};
use crate::fleet::{Choice, Fleet, program, program_in};
use crate::follower::Follower;
use crate::plan::{self, CLIENTS, Fault, FaultKind, Kind, NetworkState, Target};
use crate::run::{WAKE, decide};
use crate::timeline::{Lines, now};
use crate::watch::{self, Progress};
use crate::workspace::{self, Workspace};
use crate::{report, settle, setup};

/// The time of the migration, as a share of the run.
const MIGRATION: f64 = 0.25;
/// A migration does not wait long for a lock, and fails instead.
const TRIES: usize = 20;
const AGAIN: Duration = Duration::from_millis(500);
const LIMIT: Duration = Duration::from_secs(120);

/// A release replaces the previous one; everything is checked.
#[derive(Debug, Args)]
pub(crate) struct Cli {
    /// Programs of the previous release
    #[arg(long, value_name = "FOLDER")]
    old: PathBuf,
    /// Duration of the load, in seconds
    #[arg(long, value_name = "N", default_value_t = 80)]
    seconds: u64,
    /// Seed of the requests
    #[arg(long, value_name = "S", default_value_t = 7)]
    seed: u64,
    /// Folder of the run
    #[arg(long, value_name = "FOLDER", default_value = "target/upgrade")]
    into: PathBuf,
    /// Python with the packages of the oracle of fire times
    #[arg(long, value_name = "FILE")]
    python: PathBuf,
    /// Runs the previous release until it has data of every kind, writes its database to this file
    /// as SQL, and exits
    #[arg(long, value_name = "FILE")]
    fixture: Option<PathBuf>,
    /// Keeps the folder after any result
    #[arg(long)]
    keep: bool,
}

pub(crate) async fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let workspace = Arc::new(Workspace::open_empty(&cli.into, false, &workspace::BUSY).await?);
    if let Some(file) = &cli.fixture {
        let written = fixture::write(&workspace, &cli.old, file).await;
        workspace::leave(workspace, false).await?;
        written?;
        return Ok(ExitCode::SUCCESS);
    }
    println!("seed {}", cli.seed);
    let outcome = rehearse(cli, &workspace).await;
    let holds = outcome.as_ref().is_ok_and(|(verdicts, _)| verdicts.iter().all(Verdict::holds));
    let is_kept = cli.keep || !holds;
    if is_kept && let Err(error) = workspace.dump().await {
        eprintln!("the database cannot be dumped: {error:#}");
    }
    let folder = workspace.file("");
    workspace::leave(workspace, is_kept).await?;
    if is_kept {
        println!("kept: {}", folder.display());
    }
    let (verdicts, figures) = outcome?;
    print!("\n{}\n{figures}", Verdict::table(&verdicts));
    println!("\nupgrade, seed {}: {}", cli.seed, if holds { "every invariant holds" } else { "BROKEN" });
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn rehearse(cli: &Cli, workspace: &Arc<Workspace>) -> anyhow::Result<(Vec<Verdict>, String)> {
    let timeline = Arc::new(Lines::create(workspace.file("timeline.jsonl"))?);
    let answers = Arc::new(Lines::create(workspace.file("answers.jsonl"))?);
    let effects = workspace.file("effects");
    migrate(&program_in(&cli.old, "schedctl")?, workspace).await?;
    println!("the previous release: {}", newest(workspace).await?);
    let their_bearer = setup::arrange(&workspace.client().await?).await?;
    let pooler = Pooler::before(workspace.url(), "session").await;
    let ours = program("schedctl")?;
    let choice = Choice { programs: Some(&cli.old), other_build: ours.parent(), ..Choice::default() };
    let fleet = Fleet::start(workspace, pooler.address(), &timeline, choice).await?;
    let apis: Vec<_> = fleet.all(Kind::Api).map(|api| api.address).collect();
    let schedulers: Vec<_> =
        fleet.all(Kind::Scheduler).map(|daemon| (daemon.name.clone(), daemon.address)).collect();
    let stream_lines = Arc::new(Lines::create(workspace.file("stream.jsonl"))?);
    let follower = Follower::start(apis.clone(), Arc::clone(&stream_lines)).await?;
    setup::populate(*apis.first().context("no API")?, &program("chaos-job")?, &effects, &their_bearer)
        .await?;

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
    let length = Duration::from_secs(cli.seconds.max(40));
    let (before, after) = (before(length), after(length));
    let planned = before.len() + after.len();
    let start = monotonic_clock::monotonic();
    let mut watching = JoinSet::new();
    watching.spawn(watch::roles(schedulers, answers.clone()));
    let (shown, sent) = (timeline.clone(), answers.clone());
    let progress = Progress { workspace: workspace.clone(), timeline: shown, answers: sent, planned, length };
    watching.spawn(progress.print());
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let client = Client::new(number, shared.clone());
        clients.spawn(client.run(plan::draw::actions(cli.seed, number, length), move || start.elapsed()));
    }
    faults::inject(&victims, before, || start.elapsed()).await?;
    sleep(length.mul_f64(MIGRATION).saturating_sub(start.elapsed())).await;
    migrate_under_load(&ours, workspace).await?;
    let migrated = monotonic_clock::monotonic();
    faults::inject(&victims, after, || migrated.elapsed()).await?;
    let mut clients: Vec<Client> = clients.join_all().await;
    victims.fleet.heal().await?;
    drains::undrain(workspace, &shared.apis, None).await;
    let quiet_at = now();
    println!("all daemons are upgraded; the installation settles");
    settle::settle(&workspace.client().await?, &shared, &mut clients, false).await?;
    follower.stop(&workspace.client().await?).await?;
    watching.shutdown().await;
    let Some(Victims { fleet, pooler, .. }) = Arc::into_inner(victims) else {
        bail!("a fault is still in progress")
    };
    let ends = fleet.end().await;
    drop(pooler);
    let run = FinishedRun {
        effects: Effects::at(&effects, WAKE),
        timeline: timeline.path().to_owned(),
        answers: answers.path().to_owned(),
        stream: Some(stream_lines.path().to_owned()),
        schedulers: Fleet::schedulers(),
        pooled: Fleet::pooled(),
        quiet_at,
        python: cli.python.clone(),
    };
    let sql = workspace.client().await?;
    let verdicts = decide(workspace, &run, &sql, ends).await;
    let figures = report::figures(&sql, timeline.path(), planned).await?;
    Ok((verdicts, figures))
}

/// Faults against the previous release on its own schema.
fn before(length: Duration) -> Vec<Fault> {
    let worker = Target { kind: Kind::Worker, number: 0 };
    let course = [
        (0.10, FaultKind::Cut(Target { kind: Kind::Scheduler, number: 0 })),
        (0.15, FaultKind::Freeze(worker, Duration::from_secs(2))),
    ];
    course.map(|(share, kind)| Fault { at: length.mul_f64(share), kind }).to_vec()
}

/// The plan from the end of the migration: faults against the old programs on the new schema, then
/// the replacement, schedulers first. Faults in between show that old and new programs work
/// together.
fn after(length: Duration) -> Vec<Fault> {
    let target = |kind, number| Target { kind, number };
    let second = Duration::from_secs(1);
    let course = [
        (0.05, FaultKind::Crash(second)),
        (0.11, FaultKind::Freeze(target(Kind::Scheduler, 0), second * 5)),
        (0.13, FaultKind::Network(target(Kind::Worker, 1), NetworkState::Held, second * 7)),
        (0.15, FaultKind::Drain(2, second * 4)),
        (0.17, FaultKind::Terminate(6)),
        (0.25, FaultKind::Rolling(Kind::Scheduler)),
        (0.35, FaultKind::Freeze(target(Kind::Scheduler, 1), second * 4)),
        (0.37, FaultKind::Cut(target(Kind::Worker, 3))),
        (0.40, FaultKind::Rolling(Kind::Worker)),
        (0.51, FaultKind::Restart(second)),
        (0.55, FaultKind::Rolling(Kind::Api)),
        (0.63, FaultKind::Kill(target(Kind::Scheduler, 0), second)),
        (0.65, FaultKind::Kill(target(Kind::Worker, 4), second)),
    ];
    course.map(|(share, kind)| Fault { at: length.mul_f64(share), kind }).to_vec()
}

async fn migrate_under_load(schedctl: &Path, workspace: &Workspace) -> anyhow::Result<()> {
    let began = monotonic_clock::monotonic();
    for attempt in 1..=TRIES {
        match migrate(schedctl, workspace).await {
            Ok(()) => {
                let (took, newest) = (began.elapsed().as_secs_f64(), newest(workspace).await?);
                println!("migrated under load in {took:.1} s, {attempt} tries: {newest}");
                return Ok(());
            }
            Err(error) => println!("the migration is repeated: {error:#}"),
        }
        sleep(AGAIN).await;
    }
    bail!("the schema is not migrated")
}

async fn migrate(schedctl: &Path, workspace: &Workspace) -> anyhow::Result<()> {
    let launch = Process::at(schedctl).args(["migrate", "up", "--database-url", workspace.url()]);
    let Finished { status, stderr, .. } = launch.run(LIMIT).await;
    if !status.success() {
        bail!("schedctl migrate up: {status}: {stderr}");
    }
    Ok(())
}

async fn newest(workspace: &Workspace) -> anyhow::Result<String> {
    let newest = "SELECT max(version) FROM __diesel_schema_migrations";
    Ok(format!(
        "its newest migration is {}",
        workspace.client().await?.query_one(newest, &[]).await?.get::<_, String>(0)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_fault_ends_an_old_daemon_between_the_migration_and_its_replacement() {
        let course = after(Duration::from_secs(100));
        let replaced = |kind: Kind| {
            let is_it = |fault: &&Fault| fault.kind == FaultKind::Rolling(kind);
            course.iter().find(is_it).map(|fault| fault.at).unwrap()
        };
        for fault in &course {
            if let FaultKind::Kill(target, _) | FaultKind::Term(target, _) = fault.kind {
                assert!(fault.at > replaced(target.kind), "{fault:?}");
            }
        }
        assert!(course.is_sorted_by_key(|fault| fault.at));
    }
}

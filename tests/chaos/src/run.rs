//! One run from the empty folder to the verdict.
//!
//! Ctrl-C and SIGTERM stop it with status 130 and no verdict.

pub(crate) mod again;
mod enough;
pub(crate) mod mutants;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use sched_runtime::monotonic_clock;
use system_tests::{Effects, FinishedRun, Verdict};
use test_support::Pooler;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Cli;
use crate::clients::{Client, SharedState};
use crate::faults::{self, Victims, drains};
use crate::fleet::clocks::Clocks;
use crate::fleet::{Choice, Fleet, program};
use crate::follower::Follower;
use crate::plan::{self, CLIENTS, Kind};
use crate::timeline::{self, Lines, now};
use crate::watch::{self, Progress};
use crate::workspace::{self, Workspace};
use crate::{report, settle, setup};

use self::enough::RunPlan;
use self::mutants::Mutant;

/// Seconds that a woken worker may need on a busy machine.
pub(crate) const WAKE: f64 = 5.0;

struct Outcome {
    verdicts: Vec<Verdict>,
    figures: String,
}

pub(crate) async fn run(cli: &Cli, length: Duration) -> anyhow::Result<ExitCode> {
    // Printed first, so that an interrupted run can be repeated.
    println!("seed {}, {:.1} minutes, intensity {:?}", cli.seed, cli.minutes, cli.intensity);
    let workspace = Arc::new(Workspace::open(&cli.into, cli.may_mount, &workspace::BUSY).await?);
    if !workspace.has_own_disk {
        println!("the disk is never full in this run: mounting is not allowed here");
    }
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let outcome = tokio::select! {
        outcome = provoke(cli, length, &workspace) => Some(outcome),
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
    };
    let mutant = cli.mutant.as_deref().and_then(mutants::named);
    let (is_kept, code) = match &outcome {
        None => (false, ExitCode::from(130)),
        Some(Err(_)) => (true, ExitCode::FAILURE),
        Some(Ok(outcome)) if mutant.is_some_and(|mutant| kills(&outcome.verdicts, mutant)) => {
            (cli.keep, ExitCode::SUCCESS)
        }
        Some(Ok(_)) if mutant.is_some() => (cli.keep, ExitCode::FAILURE),
        Some(Ok(outcome)) => {
            let holds = outcome.verdicts.iter().all(Verdict::holds);
            (!holds || cli.keep, if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    };
    if is_kept && let Err(error) = workspace.dump().await {
        eprintln!("the database cannot be dumped: {error:#}");
    }
    let folder = workspace.file("");
    workspace::leave(workspace, is_kept).await?;
    let Some(outcome) = outcome else { return Ok(code) };
    if is_kept {
        println!("kept: {}", folder.display());
    }
    let outcome = outcome?;
    print!("\n{}\n{}", Verdict::table(&outcome.verdicts), outcome.figures);
    if let Some(mutant) = mutant {
        let end = if code == ExitCode::SUCCESS { "killed" } else { "SURVIVED" };
        println!("mutant: {}|{}|{}|{end}", mutant.name, mutant.description, mutant.finding);
        return Ok(code);
    }
    let verdict = if code == ExitCode::SUCCESS { "every invariant holds" } else { "BROKEN" };
    println!("\nseed {}, {:.1} minutes, intensity {:?}: {verdict}", cli.seed, cli.minutes, cli.intensity);
    Ok(code)
}

/// Whether the checker reports the mutant.
fn kills(verdicts: &[Verdict], mutant: &Mutant) -> bool {
    verdicts.iter().any(|verdict| verdict.violations > 0 && verdict.invariant.starts_with(mutant.finding))
}

/// Executes the second part of a mutant; retries while the database is down.
async fn mutate(workspace: Arc<Workspace>, mutant: Option<&'static Mutant>, after: Duration) {
    let Some(mutant) = mutant.filter(|mutant| !mutant.then.is_empty()) else { return };
    sleep(after).await;
    let attempt =
        async || workspace.client().await?.batch_execute(mutant.then).await.map_err(anyhow::Error::from);
    while let Err(error) = attempt().await {
        eprintln!("the mutant is not installed yet: {error:#}");
        sleep(Duration::from_millis(500)).await;
    }
}

async fn provoke(cli: &Cli, length: Duration, workspace: &Arc<Workspace>) -> anyhow::Result<Outcome> {
    let timeline = Arc::new(Lines::create(workspace.file("timeline.jsonl"))?);
    let answers = Arc::new(Lines::create(workspace.file("answers.jsonl"))?);
    let effects = workspace.file("effects");
    let their_bearer = setup::arrange(&workspace.client().await?).await?;
    let pooler = Pooler::before(workspace.url(), "session").await;
    let clocks = Clocks::find(workspace.file("clocks"))?;
    if clocks.is_none() {
        println!("no clock is wrong in this run: libfaketime is not installed here");
    }
    let settings = [("SCHED_BREAK", cli.without.as_str())];
    let choice =
        Choice { settings: &settings, other_build: cli.other_build.as_deref(), clocks, programs: None };
    let fleet = Fleet::start(workspace, pooler.address(), &timeline, choice).await?;
    let apis: Vec<_> = fleet.all(Kind::Api).map(|api| api.address).collect();
    let schedulers: Vec<_> =
        fleet.all(Kind::Scheduler).map(|daemon| (daemon.name.clone(), daemon.address)).collect();
    let stream_lines = Arc::new(Lines::create(workspace.file("stream.jsonl"))?);
    let follower = Follower::start(apis.clone(), Arc::clone(&stream_lines)).await?;
    setup::populate(*apis.first().context("no API")?, &program("chaos-job")?, &effects, &their_bearer)
        .await?;

    let mutant = cli.mutant.as_deref().and_then(mutants::named);
    if let Some(mutant) = mutant {
        workspace
            .client()
            .await?
            .batch_execute(mutant.install)
            .await
            .context("the mutant cannot be installed")?;
    }
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
    let faults = plan::draw::faults(cli.seed, length, cli.intensity);
    let planned = faults.len();
    let start = monotonic_clock::monotonic();
    let mut watching = JoinSet::new();
    watching.spawn(watch::roles(schedulers, answers.clone()));
    let (shown, sent) = (timeline.clone(), answers.clone());
    let progress = Progress { workspace: workspace.clone(), timeline: shown, answers: sent, planned, length };
    watching.spawn(progress.print());
    // Delayed fires must be decided before every schedule is paused.
    watching.spawn(mutate(workspace.clone(), mutant, length / 6));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let client = Client::new(number, shared.clone());
        clients.spawn(client.run(plan::draw::actions(cli.seed, number, length), move || start.elapsed()));
    }
    faults::inject(&victims, faults.clone(), || start.elapsed()).await?;
    let mut clients: Vec<Client> = clients.join_all().await;
    workspace.revive().await?;
    victims.fleet.heal().await?;
    if !drains::undrain(workspace, &shared.apis, None).await {
        println!("some workers still drain");
    }
    let quiet_at = now();
    println!("the faults are over; the installation settles");
    settle::settle(&workspace.client().await?, &shared, &mut clients, mutant.is_some()).await?;
    follower.stop(&workspace.client().await?).await?;
    watching.shutdown().await;
    let Some(Victims { fleet, pooler, .. }) = Arc::into_inner(victims) else {
        anyhow::bail!("a fault is still in progress")
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
        python: cli.python.clone().context("--python is missing")?,
    };
    let has_other_build = cli.other_build.is_some();
    let run_plan = RunPlan { planned: &faults, length, intensity: cli.intensity, has_other_build };
    check_run(workspace, &run, ends, &run_plan).await
}

async fn check_run(
    workspace: &Workspace,
    run: &FinishedRun,
    ends: Vec<String>,
    run_plan: &RunPlan<'_>,
) -> anyhow::Result<Outcome> {
    let sql = workspace.client().await?;
    let mut verdicts = decide(workspace, run, &sql, ends).await;
    let answers = timeline::read(&run.answers)?;
    verdicts.extend(enough::verdicts(run_plan, &timeline::read(&run.timeline)?, &answers));
    let figures = report::figures(&sql, &run.timeline, run_plan.planned.len()).await?;
    Ok(Outcome { verdicts, figures })
}

/// The verdicts after the daemons have ended; `ends` are those that failed to stop cleanly.
pub(crate) async fn decide(
    workspace: &Workspace,
    run: &FinishedRun,
    sql: &test_support::Client,
    ends: Vec<String>,
) -> Vec<Verdict> {
    let mut verdicts = run.verdicts(sql).await;
    verdicts.push(Verdict::new(
        "stop: every daemon exits in order with status 0",
        plan::SCHEDULERS + plan::WORKERS + plan::APIS,
        ends,
    ));
    verdicts.push(leftover_processes(&run_mark(workspace)));
    verdicts
}

fn run_mark(workspace: &Workspace) -> String {
    workspace.file("effects").display().to_string()
}

fn leftover_processes(mark: &str) -> Verdict {
    let left = system_tests::processes::marked(mark);
    Verdict::new("stop: no process of a job is left", 1, left.iter().map(ToString::to_string).collect())
}

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
use crate::clients::{Client, Office};
use crate::faults::{self, Victims, drains};
use crate::fleet::clocks::Clocks;
use crate::fleet::{Choice, Fleet, program};
use crate::follower::Follower;
use crate::place::{self, Place};
use crate::plan::{self, CLIENTS, Kind};
use crate::timeline::{self, Lines, now};
use crate::watch::{self, Progress};
use crate::{report, settle, setup};

use self::enough::Wanted;
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
    let place = Arc::new(Place::open(&cli.into, cli.may_mount, &place::BUSY).await?);
    if !place.has_own_disk {
        println!("the disk is never full in this run: mounting is not allowed here");
    }
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let outcome = tokio::select! {
        outcome = provoke(cli, length, &place) => Some(outcome),
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
    if is_kept && let Err(error) = place.dump().await {
        eprintln!("the database cannot be dumped: {error:#}");
    }
    let folder = place.file("");
    place::leave(place, is_kept).await?;
    let Some(outcome) = outcome else { return Ok(code) };
    if is_kept {
        println!("kept: {}", folder.display());
    }
    let outcome = outcome?;
    print!("\n{}\n{}", Verdict::table(&outcome.verdicts), outcome.figures);
    if let Some(mutant) = mutant {
        let end = if code == ExitCode::SUCCESS { "killed" } else { "SURVIVED" };
        println!("mutant: {}|{}|{}|{end}", mutant.name, mutant.what, mutant.finding);
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
async fn mutate(place: Arc<Place>, mutant: Option<&'static Mutant>, after: Duration) {
    let Some(mutant) = mutant.filter(|mutant| !mutant.then.is_empty()) else { return };
    sleep(after).await;
    let attempt =
        async || place.client().await?.batch_execute(mutant.then).await.map_err(anyhow::Error::from);
    while let Err(error) = attempt().await {
        eprintln!("the mutant is not installed yet: {error:#}");
        sleep(Duration::from_millis(500)).await;
    }
}

async fn provoke(cli: &Cli, length: Duration, place: &Arc<Place>) -> anyhow::Result<Outcome> {
    let timeline = Arc::new(Lines::create(place.file("timeline.jsonl"))?);
    let answers = Arc::new(Lines::create(place.file("answers.jsonl"))?);
    let effects = place.file("effects");
    let their_bearer = setup::arrange(&place.client().await?).await?;
    let pooler = Pooler::before(place.url(), "session").await;
    let clocks = Clocks::find(place.file("clocks"))?;
    if clocks.is_none() {
        println!("no clock is wrong in this run: libfaketime is not installed here");
    }
    let settings = [("SCHED_BREAK", cli.without.as_str())];
    let choice =
        Choice { settings: &settings, other_build: cli.other_build.as_deref(), clocks, programs: None };
    let fleet = Fleet::start(place, pooler.address(), &timeline, choice).await?;
    let apis: Vec<_> = fleet.all(Kind::Api).map(|api| api.address).collect();
    let schedulers: Vec<_> =
        fleet.all(Kind::Scheduler).map(|daemon| (daemon.name.clone(), daemon.address)).collect();
    let told = Arc::new(Lines::create(place.file("stream.jsonl"))?);
    let follower = Follower::start(apis.clone(), Arc::clone(&told)).await?;
    setup::populate(*apis.first().context("no API")?, &program("chaos-job")?, &effects, &their_bearer)
        .await?;

    let mutant = cli.mutant.as_deref().and_then(mutants::named);
    if let Some(mutant) = mutant {
        place
            .client()
            .await?
            .batch_execute(mutant.install)
            .await
            .context("the mutant cannot be installed")?;
    }
    let office = Arc::new(Office { apis, answers: answers.clone(), their_bearer });
    let victims = Arc::new(Victims {
        fleet,
        place: place.clone(),
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
    let progress = Progress { place: place.clone(), timeline: shown, answers: sent, planned, length };
    watching.spawn(progress.print());
    // Delayed fires must be decided before every schedule is paused.
    watching.spawn(mutate(place.clone(), mutant, length / 6));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let client = Client::new(number, office.clone());
        clients.spawn(client.run(plan::draw::deeds(cli.seed, number, length), move || start.elapsed()));
    }
    faults::inject(&victims, faults.clone(), || start.elapsed()).await?;
    let mut clients: Vec<Client> = clients.join_all().await;
    place.revive().await?;
    victims.fleet.heal().await?;
    if !drains::take_back(place, &office.apis, None).await {
        println!("some workers still drain");
    }
    let quiet_at = now();
    println!("the faults are over; the installation settles");
    settle::settle(&place.client().await?, &office, &mut clients, mutant.is_some()).await?;
    follower.stop(&place.client().await?).await?;
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
        stream: Some(told.path().to_owned()),
        schedulers: Fleet::schedulers(),
        pooled: Fleet::pooled(),
        quiet_at,
        python: cli.python.clone().context("--python is missing")?,
    };
    let has_other_build = cli.other_build.is_some();
    let wanted = Wanted { planned: &faults, length, intensity: cli.intensity, has_other_build };
    judge(place, &run, ends, &wanted).await
}

async fn judge(
    place: &Place,
    run: &FinishedRun,
    ends: Vec<String>,
    wanted: &Wanted<'_>,
) -> anyhow::Result<Outcome> {
    let sql = place.client().await?;
    let mut verdicts = decide(place, run, &sql, ends).await;
    let answers = timeline::read(&run.answers)?;
    verdicts.extend(enough::verdicts(wanted, &timeline::read(&run.timeline)?, &answers));
    let figures = report::figures(&sql, &run.timeline, wanted.planned.len()).await?;
    Ok(Outcome { verdicts, figures })
}

/// The verdicts after the daemons have ended; `ends` are those that failed to stop cleanly.
pub(crate) async fn decide(
    place: &Place,
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
    verdicts.push(left_behind(&run_mark(place)));
    verdicts
}

fn run_mark(place: &Place) -> String {
    place.file("effects").display().to_string()
}

fn left_behind(mark: &str) -> Verdict {
    let left = system_tests::processes::marked(mark);
    Verdict::new("stop: no process of a job is left", 1, left.iter().map(ToString::to_string).collect())
}

//! One failover, from two fresh servers to the verdict.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use sched_runtime::monotonic_clock;
use system_tests::{Effects, FinishedRun, Verdict};
use test_support::{Client as Sql, Pair, socket_of};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::clients::{Client, SharedState};
use crate::fault_proxy::{FaultProxy, Server, connect};
use crate::fleet::program;
use crate::plan::{self, CLIENTS, Kind, NetworkState};
use crate::timeline::{FaultRecord, Lines, now};
use crate::workspace::DATABASE;
use crate::{settle, setup, watch};

use super::crew::Crew;
use super::losses::{self, Losses, Moments};
use super::{Cli, Mode, probe};

/// Rules that every run must exercise: without any data they count as broken.
const DECIDED: [&str; 2] =
    ["11: every accepted trigger is a dispatch", "effects: an attempt ran more than once"];

/// The WAL of an asynchronous standby is held back this long before the primary is killed.
const HELD: Duration = Duration::from_millis(1500);
const UNNOTICED: Duration = Duration::from_secs(1);
/// Seconds that a woken worker may need on a busy machine.
const WAKE: f64 = 5.0;
/// Rules about effects outside the database, which an asynchronous standby does not guarantee.
const OUTSIDE: [&str; 3] = ["11:", "effects:", "8: no dispatch is open"];

/// The columns of [`Outcome::line`].
pub(super) const HEAD: &str = "REPLICATION    PROMOTION  FIRST WRITE  FIRST DISPATCH  FIRST START   ACKNOWLEDGED    LOST  REACHING BACK     RAN  UNKNOWN  RUN AGAIN  HELD UP";

#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) holds: bool,
    pub(super) line: String,
}

pub(super) async fn run(cli: &Cli, folder: &Path, mode: Mode, seed: u64) -> anyhow::Result<Outcome> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    println!("{mode:?} replication, seed {seed}");
    let mut pair = Pair::start(&folder.join("servers"), DATABASE).await?;
    let way_of = async |url: &str| -> anyhow::Result<FaultProxy> {
        FaultProxy::to(Server::Socket(socket_of(url).context("no socket")?), DATABASE).await
    };
    let to_primary = way_of(pair.primary_url()).await?;
    // A separate proxy for replication.
    let replication = way_of(pair.primary_url()).await?;
    let their_bearer = setup::arrange(&connect(pair.primary_url()).await?).await?;
    pair.follow(Some(replication.address())).await?;
    if mode == Mode::Synchronous {
        pair.synchronize().await?;
    }
    let to_standby = way_of(pair.standby_url()).await?;
    let url = format!("postgresql://postgres@{},{}/{DATABASE}", to_primary.address(), to_standby.address());

    let timeline = Arc::new(Lines::create(folder.join("timeline.jsonl"))?);
    let answers = Arc::new(Lines::create(folder.join("answers.jsonl"))?);
    let effects = folder.join("effects");
    let mut crew = Crew::start(&url, folder).await?;
    let apis = crew.addresses(Kind::Api);
    let first = *apis.first().context("no API")?;
    setup::populate(first, &program("chaos-job")?, &effects, &their_bearer).await?;

    let length = Duration::from_secs(cli.seconds.max(6));
    let start = monotonic_clock::monotonic();
    let mut watching = JoinSet::new();
    watching.spawn(watch::roles(crew.named(Kind::Scheduler), answers.clone()));
    let probes = probe::start(&apis, &answers);
    let shared = Arc::new(SharedState { apis, answers: answers.clone(), their_bearer });
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let client = Client::new(number, shared.clone());
        clients.spawn(client.run(plan::draw::actions(seed, number, length), move || start.elapsed()));
    }
    sleep((length / 2).saturating_sub(start.elapsed())).await;
    let moments = fail_over(&mut pair, &replication, mode).await?;
    timeline.fault(FaultRecord {
        kind: "fail-over",
        target: "database",
        began: moments.killed,
        detail: &format!("{mode:?}"),
    });
    sleep(length.saturating_sub(start.elapsed())).await;
    drop(probes);
    let mut clients: Vec<Client> = clients.join_all().await;
    let exited = crew.exited();
    ensure!(exited.is_empty(), "daemons exited during the failover: {exited:?}");
    crew.ready().await?;
    let sql = connect(pair.standby_url()).await?;
    let quiet_at = now();
    settle::settle(&sql, &shared, &mut clients, mode == Mode::Asynchronous).await?;
    watching.shutdown().await;
    let count = crew.count();
    let ends = crew.end(&folder.join("logs")).await?;
    let run = FinishedRun {
        effects: Effects::at(&effects, WAKE),
        timeline: timeline.path().to_owned(),
        answers: answers.path().to_owned(),
        stream: None,
        // The failover affects all of them.
        schedulers: Vec::new(),
        pooled: Vec::new(),
        quiet_at,
        python: cli.python.clone(),
    };
    let mut verdicts = run.verdicts(&sql).await;
    verdicts.push(Verdict::new("stop: every daemon exits in order with status 0", count, ends));
    let losses = losses::count(&sql, answers.path(), &effects, moments).await?;
    Judgement { mode, verdicts, losses, moments }.outcome(&sql).await
}

async fn fail_over(pair: &mut Pair, replication: &FaultProxy, mode: Mode) -> anyhow::Result<Moments> {
    let mut moments = None;
    let work = async {
        if mode == Mode::Asynchronous {
            sleep(HELD).await;
        }
        let killed = now();
        pair.kill_primary().await?;
        println!("the primary is killed");
        sleep(UNNOTICED).await;
        let noticed = now();
        pair.promote().await?;
        let promoted = now();
        println!("the standby is promoted");
        moments = Some(Moments { killed, noticed, promoted });
        anyhow::Ok(())
    };
    let mut done = Ok(());
    let network = if mode == Mode::Asynchronous { NetworkState::Held } else { NetworkState::Normal };
    replication.make(network, async { done = work.await }).await;
    done?;
    moments.context("the failover did not complete")
}

struct Judgement {
    mode: Mode,
    verdicts: Vec<Verdict>,
    losses: Losses,
    moments: Moments,
}

impl Judgement {
    async fn outcome(&self, sql: &Sql) -> anyhow::Result<Outcome> {
        let Self { mode, verdicts, losses, moments } = self;
        let mode = *mode;
        let is_outside = |verdict: &Verdict| OUTSIDE.iter().any(|rule| verdict.invariant.starts_with(rule));
        // A short run has no data for some rules.
        let decided: Vec<Verdict> = verdicts
            .iter()
            .filter(|verdict| verdict.checked > 0 || verdict.violations > 0)
            .cloned()
            .collect();
        let undecided: Vec<&Verdict> =
            verdicts.iter().filter(|verdict| verdict.checked == 0 && verdict.violations == 0).collect();
        let has_to_be = |verdict: &&Verdict| DECIDED.iter().any(|rule| verdict.invariant.starts_with(rule));
        let broken: Vec<&Verdict> = decided
            .iter()
            .filter(|verdict| verdict.violations > 0 && !(mode == Mode::Asynchronous && is_outside(verdict)))
            .chain(undecided.iter().copied().filter(has_to_be))
            .collect();
        print!("{}", Verdict::table(&decided));
        for verdict in &undecided {
            println!("no data: {}", verdict.invariant);
        }
        let after = async |statement: &str| -> anyhow::Result<String> {
            let at: Option<f64> = sql.query_one(statement, &[&moments.promoted]).await?.get(0);
            Ok(since(moments.promoted, at))
        };
        let dispatched = after(
            "SELECT extract(epoch FROM min(created_at))::double precision FROM job_dispatch
             WHERE trigger_id IS NULL AND created_at > to_timestamp($1)",
        )
        .await?;
        let started = after(
            "SELECT extract(epoch FROM min(started_at))::double precision FROM job_execution_log
             WHERE started_at > to_timestamp($1)",
        )
        .await?;
        let ((acknowledged, lost), (ran, unknown)) = (losses.triggers, losses.ran);
        let line = format!(
            "{:<13} {:>9} {:>12} {dispatched:>15} {started:>12} {acknowledged:>14} {lost:>7} {:>14} {ran:>7} {unknown:>8} {:>10} {:>8}",
            format!("{mode:?}").to_lowercase(),
            since(moments.noticed, Some(moments.promoted)),
            since(moments.promoted, losses.first_write),
            format!("{:.2} s", losses.reach),
            losses.run_again,
            losses.held_up,
        );
        let was_lost = mode == Mode::Synchronous && (lost > 0 || unknown > 0);
        for dispatch in &losses.stuck {
            println!("{dispatch} is open for another reason than a lost end");
        }
        let went_on = losses.first_write.is_some() && dispatched != NEVER;
        Ok(Outcome {
            holds: broken.is_empty() && losses.stuck.is_empty() && !was_lost && went_on && acknowledged > 0,
            line,
        })
    }
}

const NEVER: &str = "never";

fn since(from: f64, at: Option<f64>) -> String {
    at.map_or_else(|| NEVER.to_owned(), |at| format!("{:.2} s", at - from))
}

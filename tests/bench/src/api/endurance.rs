//! Memory of the API over ten minutes of load. It must stay constant.
//!
//! Eight clients read, explain and trigger without pauses. Resident memory is read every second.
//! The median of the last minute is compared with that of the second minute, when all caches and
//! pools are full.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use futures_util::future::{try_join, try_join_all};

use super::hosted::Api;
use super::trigger::prepare;
use crate::figures::{Bar, Figure, Goal, Reference, largest, median};
use crate::rows::Bench;

const CLIENTS: usize = 8;

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let seconds = bench.scale.pick(600, 15);
    let db = bench.workspace.database().await?;
    let jobs = prepare(&db, bench.scale.pick(10_000, 1_000)).await?;
    let api = Api::start(&db).await?;
    let (is_over, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    let watched = async {
        let mut memory = Vec::new();
        for _ in 0..seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            memory.push(api.memory()?);
        }
        is_over.store(true, Ordering::Relaxed);
        anyhow::Ok(memory)
    };
    let loaded = try_join_all((0..CLIENTS).map(async |_| {
        let mut client = api.client().await?;
        while !is_over.load(Ordering::Relaxed) {
            let n = requests.fetch_add(1, Ordering::Relaxed);
            let job = jobs.get(n % jobs.len()).context("the list has the job")?;
            match n % 8 {
                0 => client.get("/jobs?limit=100").await?,
                1 => client.get("/runs?limit=100").await?,
                2 => client.get(&format!("/jobs/{job}/attempts")).await?,
                3 | 4 => client.post(&format!("/jobs/{job}/trigger")).await?,
                _ => client.get(&format!("/jobs/{job}")).await?,
            };
        }
        anyhow::Ok(())
    }));
    let (memory, _) = try_join(watched, loaded).await?;
    api.stop().await;
    let minute = (seconds / 10).max(1);
    let early: Vec<f64> = memory.iter().copied().skip(minute).take(minute).collect();
    let late: Vec<f64> = memory.iter().copied().rev().take(minute).collect();
    let reference = Reference::value("median of the second tenth of the same run", median(&early));
    let figure = Figure::new(
        "memory_under_load",
        "MiB",
        &[median(&late)],
        Goal { reference, bar: Bar::RatioAtMost(1.1) },
    );
    let sent = requests.into_inner();
    Ok(vec![figure.also("largest", largest(&memory), "MiB").also("requests", sent as f64, "requests").also(
        "requests per second",
        sent as f64 / seconds as f64,
        "1/s",
    )])
}

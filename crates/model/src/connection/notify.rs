//! Notifications: hints that something may have changed.
//!
//! A hint is never the truth. Losing every one of them costs latency up to the poll interval and nothing else; hence a
//! listener that reconnects reports [`Hint::Reconnected`], upon which its user looks at once. Senders use a statement of
//! its own after the commit, because a NOTIFY inside a transaction takes a lock that serialises all commits. That statement waits for no disk.

use std::pin::pin;
use std::time::Duration;

use diesel::sql_types::{Array, Text};
use diesel_async::{RunQueryDsl, SimpleAsyncConnection};
use futures_util::StreamExt;
use rand::RngExt;

use crate::{Conn, Database, DbResult};
use sched_domain::ids::WorkerId;

/// Dispatches may be waiting; the payload is the queue, or empty for any queue.
pub const DISPATCH_CHANNEL: &str = "sched_dispatch";
/// Jobs were written; no payload.
pub const JOBS_CHANNEL: &str = "sched_jobs";
/// Jobs ended after which others run; no payload.
pub const ENDS_CHANNEL: &str = "sched_ends";
/// The leader resigned, or is asked to; no payload.
pub const LEADER_CHANNEL: &str = "sched_leader";
/// Somebody wants the leader to look for lost attempts; no payload.
pub const RECOVERY_CHANNEL: &str = "sched_recovery";

/// There is a rule or a message that was not there before; no payload.
pub const NOTIFICATIONS_CHANNEL: &str = "sched_notifications";

/// Somebody wants running work stopped; the payload is the worker that runs it.
pub const CANCEL_CHANNEL: &str = "sched_cancel";

/// What a listener tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// Somebody notified.
    Notified {
        /// On which channel.
        channel: String,
        /// With which payload.
        payload: String,
    },
    /// The listener has (re)connected: anything may have been missed.
    Reconnected,
    /// The listener hears nothing until it reconnects.
    Disconnected,
}

statement! {
    /// Notifies one channel once for each payload.
    Notify<'a> = "notify/notify.sql", (channel: &'a str as Text, payloads: &'a [String] as Array<Text>) -> diesel::sql_types::Bool
}

/// Tells workers that dispatches may be waiting in `queues`. Call it after the commit, on its own.
///
/// # Errors
/// When the database cannot be asked; the hint is lost then, and nothing else.
pub async fn dispatches_waiting(conn: &mut Conn, queues: &[String]) -> DbResult<()> {
    notify(conn, DISPATCH_CHANNEL, queues).await
}

/// Tells workers that dispatches which had been claimed wait again, in whatever queue. Call it after the commit, on its own.
///
/// # Errors
/// When the database cannot be asked; the hint is lost then, and nothing else.
pub async fn dispatches_wait_again(conn: &mut Conn) -> DbResult<()> {
    notify(conn, DISPATCH_CHANNEL, &[String::new()]).await
}

/// Tells workers that some of what they run is to be stopped. Call it after the commit, on its own.
///
/// # Errors
/// When the database cannot be asked; the hint is lost then, and they learn of it at their next heartbeat.
pub async fn cancellations(conn: &mut Conn, workers: &[WorkerId]) -> DbResult<()> {
    let workers: Vec<String> = workers.iter().map(ToString::to_string).collect();
    notify(conn, CANCEL_CHANNEL, &workers).await
}

/// Tells the leader to look at the schedules, as writing jobs does. Call it after the commit, on its own.
///
/// # Errors
/// When the database cannot be asked; the hint is lost then, and the leader looks by itself.
pub async fn jobs_changed(conn: &mut Conn) -> DbResult<()> {
    notify(conn, JOBS_CHANNEL, &[String::new()]).await
}

/// Tells the leader that jobs have ended after which others run. Call it after the commit, on its own.
///
/// # Errors
/// When the database cannot be asked; the hint is lost then, and the leader looks by itself.
pub async fn jobs_ended(conn: &mut Conn) -> DbResult<()> {
    notify(conn, ENDS_CHANNEL, &[String::new()]).await
}

/// Tells the leader to look for lost attempts, wherever they may be.
///
/// # Errors
/// When the database cannot be asked; the hint is lost then.
pub async fn recovery_requested(conn: &mut Conn) -> DbResult<()> {
    notify(conn, RECOVERY_CHANNEL, &[String::new()]).await
}

/// Tells the leader that there is a message to be sent, or a rule that may be the first. Call it after the commit, on its own.
///
/// # Errors
/// When the database cannot be asked; the hint is lost then, and the leader looks by itself.
pub async fn notifications_wanted(conn: &mut Conn) -> DbResult<()> {
    notify(conn, NOTIFICATIONS_CHANNEL, &[String::new()]).await
}

/// Tells standbys that there is no leader.
///
/// # Errors
/// When the database cannot be asked; the hint is lost then, and nothing else.
pub async fn leader_resigned(conn: &mut Conn) -> DbResult<()> {
    notify(conn, LEADER_CHANNEL, &[String::new()]).await
}

/// Tells the leader to look at its row at once.
///
/// # Errors
/// When the database cannot be asked; the hint is lost then, and the leader looks with its next heartbeat.
pub async fn step_down_requested(conn: &mut Conn) -> DbResult<()> {
    notify(conn, LEADER_CHANNEL, &[String::new()]).await
}

async fn notify(conn: &mut Conn, channel: &str, payloads: &[String]) -> DbResult<()> {
    if !payloads.is_empty() {
        Notify { channel, payloads }.execute(conn).await?;
    }
    Ok(())
}

/// Listens on `channels` for ever and hands every hint to `on_hint`.
///
/// Uses a connection of its own. When that breaks, it connects again after 0.1 to 5 seconds, growing and jittered. Ends
/// only by being dropped.
pub async fn listen(database: &Database, channels: &[&'static str], mut on_hint: impl FnMut(Hint)) {
    let mut failures = 0_u32;
    loop {
        let ended = listen_once(database, channels, &mut on_hint, &mut failures).await;
        on_hint(Hint::Disconnected);
        match ended {
            Ok(()) => tracing::info!("The listening connection ended; connecting again."),
            Err(error) if failures == 0 => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "Listening for notifications failed; polling goes on."
                );
            }
            Err(error) => {
                tracing::debug!(error = &error as &dyn std::error::Error, "Listening is still not possible.")
            }
        }
        failures = failures.saturating_add(1);
        let longest = 100_u64 << failures.min(6);
        let pause = rand::rng().random_range(longest / 2..=longest).min(5_000);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

async fn listen_once(
    database: &Database,
    channels: &[&'static str],
    on_hint: &mut impl FnMut(Hint),
    failures: &mut u32,
) -> DbResult<()> {
    let mut conn = database.dedicated().await?;
    for channel in channels {
        conn.batch_execute(&format!("LISTEN {channel}")).await?;
    }
    *failures = 0;
    on_hint(Hint::Reconnected);
    let mut notifications = pin!(conn.notifications_stream());
    while let Some(notification) = notifications.next().await {
        let notification = notification?;
        on_hint(Hint::Notified { channel: notification.channel, payload: notification.payload });
    }
    Ok(())
}

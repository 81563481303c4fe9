//! Notifications: hints that data may have changed.
//!
//! A lost hint costs latency up to the poll interval and nothing else. A listener that reconnects
//! reports [`Hint::Reconnected`], and its user polls at once. Senders use a separate statement
//! after the commit: a NOTIFY inside a transaction takes a lock that serializes all commits. That
//! statement does not wait for a disk flush.

use std::pin::pin;
use std::time::Duration;

use diesel::sql_types::{Array, Text};
use diesel_async::{RunQueryDsl, SimpleAsyncConnection};
use futures_util::StreamExt;
use rand::RngExt;

use crate::{Conn, Database, DbResult};
use sched_domain::ids::WorkerId;

/// Runs may be waiting; the payload is the queue, or empty for any queue.
pub const DISPATCH_CHANNEL: &str = "sched_dispatch";
/// Jobs were written; no payload.
pub const JOBS_CHANNEL: &str = "sched_jobs";
/// Jobs with dependents ended; no payload.
pub const ENDS_CHANNEL: &str = "sched_ends";
/// The leader resigned, or an operator requested it; no payload.
pub const LEADER_CHANNEL: &str = "sched_leader";
/// A user requested a check for lost attempts; no payload.
pub const RECOVERY_CHANNEL: &str = "sched_recovery";

/// A new notification rule or delivery exists; no payload.
pub const NOTIFICATIONS_CHANNEL: &str = "sched_notifications";

/// A user requested the cancellation of running work, or a drain; the payload is the worker.
pub const CANCEL_CHANNEL: &str = "sched_cancel";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    Notified {
        channel: String,
        payload: String,
    },
    /// The listener has connected again: notifications may have been missed.
    Reconnected,
    /// The listener receives nothing until it reconnects.
    Disconnected,
}

statement! {
    Notify<'a> = "notify/notify.sql", (channel: &'a str as Text, payloads: &'a [String] as Array<Text>) -> diesel::sql_types::Bool
}

/// Notifies workers that runs may be waiting in `queues`. Call it after the commit.
///
/// # Errors
/// The hint is lost.
pub async fn dispatches_waiting(conn: &mut Conn, queues: &[String]) -> DbResult<()> {
    notify(conn, DISPATCH_CHANNEL, queues).await
}

/// Notifies workers that claimed runs wait again, in any queue. Call it after the commit.
///
/// # Errors
/// The hint is lost.
pub async fn dispatches_wait_again(conn: &mut Conn) -> DbResult<()> {
    notify(conn, DISPATCH_CHANNEL, &[String::new()]).await
}

/// Notifies workers that some of their running work must stop. Call it after the commit.
///
/// # Errors
/// The hint is lost; the workers find the cancellations at their next heartbeat.
pub async fn cancellations(conn: &mut Conn, workers: &[WorkerId]) -> DbResult<()> {
    let workers: Vec<String> = workers.iter().map(ToString::to_string).collect();
    notify(conn, CANCEL_CHANNEL, &workers).await
}

/// Notifies a worker that a drain was requested or withdrawn. Call it after the commit.
///
/// # Errors
/// The hint is lost; the worker reads the request at its next heartbeat.
pub async fn drain_changed(conn: &mut Conn, worker: WorkerId) -> DbResult<()> {
    cancellations(conn, &[worker]).await
}

/// Notifies the leader that schedules may have changed. Call it after the commit.
///
/// # Errors
/// The hint is lost; the leader finds the change at its next poll.
pub async fn jobs_changed(conn: &mut Conn) -> DbResult<()> {
    notify(conn, JOBS_CHANNEL, &[String::new()]).await
}

/// Notifies the leader that jobs with dependents have ended, or that ends which are not counted yet
/// may make room for a queued run. Call it after the commit.
///
/// # Errors
/// The hint is lost; the leader finds the ends at its next poll.
pub async fn jobs_ended(conn: &mut Conn) -> DbResult<()> {
    notify(conn, ENDS_CHANNEL, &[String::new()]).await
}

/// Notifies the leader to check for lost attempts everywhere.
///
/// # Errors
/// The hint is lost.
pub async fn recovery_requested(conn: &mut Conn) -> DbResult<()> {
    notify(conn, RECOVERY_CHANNEL, &[String::new()]).await
}

/// Notifies the leader of a delivery, or of a rule that may be the first. Call it after the commit.
///
/// # Errors
/// The hint is lost; the leader finds them at its next poll.
pub async fn notifications_wanted(conn: &mut Conn) -> DbResult<()> {
    notify(conn, NOTIFICATIONS_CHANNEL, &[String::new()]).await
}

/// Notifies standbys that there is no leader.
///
/// # Errors
/// The hint is lost.
pub async fn leader_resigned(conn: &mut Conn) -> DbResult<()> {
    notify(conn, LEADER_CHANNEL, &[String::new()]).await
}

/// Notifies the leader to read its row at once.
///
/// # Errors
/// The hint is lost; the leader reads its row with its next heartbeat.
pub async fn step_down_requested(conn: &mut Conn) -> DbResult<()> {
    notify(conn, LEADER_CHANNEL, &[String::new()]).await
}

/// [`dispatches_waiting`] on a connection whose commit is under way.
pub(super) async fn send_dispatches_waiting(conn: &Conn, queues: &[String]) -> DbResult<()> {
    Notify { channel: DISPATCH_CHANNEL, payloads: queues }.execute(&mut { conn }).await?;
    Ok(())
}

async fn notify(conn: &mut Conn, channel: &str, payloads: &[String]) -> DbResult<()> {
    if !payloads.is_empty() {
        Notify { channel, payloads }.execute(conn).await?;
    }
    Ok(())
}

/// Listens on `channels` and passes every hint to `on_hint`, until dropped.
///
/// Uses its own connection, and reconnects after 0.1 to 5 seconds, growing and jittered.
pub async fn listen(database: &Database, channels: &[&'static str], mut on_hint: impl FnMut(Hint)) {
    let mut failures = 0_u32;
    loop {
        let ended = listen_once(database, channels, &mut on_hint, &mut failures).await;
        on_hint(Hint::Disconnected);
        match ended {
            Ok(()) => tracing::info!("the listening connection ended; reconnecting"),
            Err(error) if failures == 0 => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "listening for notifications failed; polling continues"
                );
            }
            Err(error) => {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "listening for notifications still fails"
                )
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

//! Housekeeping settings: the leader stores its retention settings for the built-in jobs.
//!
//! Built-in jobs run on workers and must not delete by their own settings. The leader writes its
//! settings ([`store`]) in fenced transactions, and the jobs read them ([`load`]). A job that has
//! deleted all expired data writes a mark ([`note_retained`]). Without a fresh mark the leader does
//! the work itself. There is one row; a process that dies leaves it unchanged.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use crate::schema::housekeeping;
use crate::{Conn, DbError, DbResult, connection::database_clock};
use sched_domain::retention::{HistoryExpiry, Retention};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Housekeeping {
    pub retention: Retention,
    /// Retention of idempotency keys, in whole seconds.
    pub idempotency_keys: Duration,
    pub expiry: HistoryExpiry,
    /// Silence after which a standby's registration is removed; whole seconds.
    pub stale_scheduler: Duration,
    /// Time for which an OFFLINE worker stays in the list; whole seconds.
    pub stale_worker: Duration,
}

#[derive(PartialEq, Eq, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = housekeeping, check_for_backend(diesel::pg::Pg))]
struct Row {
    finished_days: i32,
    dead_letter_days: i32,
    audit_days: i32,
    idempotency_key_seconds: i64,
    history_expiry: String,
    stale_scheduler_seconds: i64,
    stale_worker_seconds: i64,
}

impl Row {
    fn of(settings: &Housekeeping) -> Self {
        let days = |days: u32| i32::try_from(days).unwrap_or(i32::MAX);
        // At least one second: a shorter time would become zero.
        let seconds = |time: Duration| i64::try_from(time.as_secs().max(1)).unwrap_or(i64::MAX);
        Self {
            finished_days: days(settings.retention.finished_days),
            dead_letter_days: days(settings.retention.dead_letter_days),
            audit_days: days(settings.retention.audit_days),
            idempotency_key_seconds: seconds(settings.idempotency_keys),
            history_expiry: settings.expiry.as_str().to_owned(),
            stale_scheduler_seconds: seconds(settings.stale_scheduler),
            stale_worker_seconds: seconds(settings.stale_worker),
        }
    }

    fn read(self) -> DbResult<Housekeeping> {
        let corrupt = |reason: String| DbError::Corrupt { what: "the housekeeping row".to_owned(), reason };
        let days = |days: i32| u32::try_from(days).map_err(|error| corrupt(error.to_string()));
        let seconds = |seconds: i64| {
            u64::try_from(seconds).map(Duration::from_secs).map_err(|error| corrupt(error.to_string()))
        };
        Ok(Housekeeping {
            retention: Retention {
                finished_days: days(self.finished_days)?,
                dead_letter_days: days(self.dead_letter_days)?,
                audit_days: days(self.audit_days)?,
            },
            idempotency_keys: seconds(self.idempotency_key_seconds)?,
            expiry: self
                .history_expiry
                .parse()
                .map_err(|_unknown| corrupt(format!("history_expiry is {:?}", self.history_expiry)))?,
            stale_scheduler: seconds(self.stale_scheduler_seconds)?,
            stale_worker: seconds(self.stale_worker_seconds)?,
        })
    }
}

/// Stores the settings if they differ; returns whether it wrote. Call it in a fenced transaction.
pub async fn store(conn: &mut Conn, settings: &Housekeeping) -> DbResult<bool> {
    let row = Row::of(settings);
    let stored: Option<Row> =
        housekeeping::table.select(Row::as_select()).get_result(conn).await.optional()?;
    if stored.as_ref() == Some(&row) {
        return Ok(false);
    }
    diesel::insert_into(housekeeping::table)
        .values(&row)
        .on_conflict(housekeeping::is_only)
        .do_update()
        .set((&row, housekeeping::told_at.eq(database_clock::clock_timestamp())))
        .execute(conn)
        .await?;
    Ok(true)
}

/// The settings of the latest leader; `None` if no scheduler has led since the table exists.
pub async fn load(conn: &mut Conn) -> DbResult<Option<Housekeeping>> {
    let row: Option<Row> = housekeeping::table.select(Row::as_select()).get_result(conn).await.optional()?;
    row.map(Row::read).transpose()
}

/// Marks all expired data as deleted now.
pub async fn note_retained(conn: &mut Conn) -> DbResult<()> {
    let now = housekeeping::retained_at.eq(database_clock::clock_timestamp().nullable());
    diesel::update(housekeeping::table).set(now).execute(conn).await?;
    Ok(())
}

/// Whether a job wrote its mark ([`note_retained`]) within `time`. Ignores a mark from the future,
/// left by a clock that was set back.
pub async fn was_retained_within(conn: &mut Conn, time: Duration) -> DbResult<bool> {
    let marks: Option<(Option<DateTime<Utc>>, DateTime<Utc>)> = housekeeping::table
        .select((housekeeping::retained_at, database_clock::clock_timestamp()))
        .get_result(conn)
        .await
        .optional()?;
    let time = TimeDelta::from_std(time).unwrap_or(TimeDelta::MAX);
    Ok(marks.is_some_and(|(at, now)| at.is_some_and(|at| at <= now && now - at < time)))
}

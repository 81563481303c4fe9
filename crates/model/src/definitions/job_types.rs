//! Kinds of schedule, of the whole installation: which there are is the program's to say, which accept new jobs the operator's.
//!
//! Jobs of a kind that accepts no new ones go on as they are.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use crate::schema::scheduler_job_types as t;
use crate::{Conn, DbResult};
use sched_timetable::JobType;

/// A kind of schedule.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, Queryable, Selectable)]
#[diesel(table_name = t, check_for_backend(diesel::pg::Pg))]
pub struct JobTypeRecord {
    /// The kind, as jobs name it.
    pub name: String,
    /// Name shown to people.
    pub display_name: String,
    /// What it means.
    pub description: String,
    /// False accepts no new job of this kind.
    pub is_active: bool,
}

/// All kinds, by name.
pub async fn list(conn: &mut Conn) -> DbResult<Vec<JobTypeRecord>> {
    Ok(t::table.order(t::name).select(JobTypeRecord::as_select()).load(conn).await?)
}

/// The kind of that name.
pub async fn by_name(conn: &mut Conn, name: &str) -> DbResult<Option<JobTypeRecord>> {
    Ok(t::table.find(name).select(JobTypeRecord::as_select()).get_result(conn).await.optional()?)
}

/// Whether new jobs may be of that kind.
pub(crate) async fn accepts_jobs(conn: &mut Conn, job_type: JobType) -> DbResult<bool> {
    let found: Option<bool> =
        t::table.find(job_type.as_str()).select(t::is_active).get_result(conn).await.optional()?;
    // The foreign key speaks for one that is missing.
    Ok(found.unwrap_or(true))
}

/// Says whether new jobs may be of that kind; returns it as it was, or `None` if there is none of that name. Call it in a transaction.
pub async fn set_active(conn: &mut Conn, name: &str, is_active: bool) -> DbResult<Option<JobTypeRecord>> {
    let found: Option<JobTypeRecord> = t::table
        .find(name)
        .select(JobTypeRecord::as_select())
        .for_no_key_update()
        .get_result(conn)
        .await
        .optional()?;
    if found.as_ref().is_some_and(|before| before.is_active != is_active) {
        diesel::update(t::table.find(name)).set(t::is_active.eq(is_active)).execute(conn).await?;
    }
    Ok(found)
}

//! Kinds of schedule of the whole installation: the program defines them, and the operator sets
//! which accept new jobs. Existing jobs continue.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use crate::schema::scheduler_job_types as t;
use crate::{Conn, DbResult};
use sched_timetable::JobType;

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, Queryable, Selectable)]
#[diesel(table_name = t, check_for_backend(diesel::pg::Pg))]
pub struct JobTypeRecord {
    pub name: String,
    pub display_name: String,
    pub description: String,
    /// An inactive kind accepts no new jobs.
    pub is_active: bool,
}

pub async fn list(conn: &mut Conn) -> DbResult<Vec<JobTypeRecord>> {
    Ok(t::table.order(t::name).select(JobTypeRecord::as_select()).load(conn).await?)
}

pub async fn by_name(conn: &mut Conn, name: &str) -> DbResult<Option<JobTypeRecord>> {
    Ok(t::table.find(name).select(JobTypeRecord::as_select()).get_result(conn).await.optional()?)
}

pub(crate) async fn accepts_jobs(conn: &mut Conn, job_type: JobType) -> DbResult<bool> {
    let found: Option<bool> =
        t::table.find(job_type.as_str()).select(t::is_active).get_result(conn).await.optional()?;
    // The foreign key rejects a missing kind.
    Ok(found.unwrap_or(true))
}

/// Sets whether the kind accepts new jobs; returns the kind before the change. Call it in a
/// transaction.
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

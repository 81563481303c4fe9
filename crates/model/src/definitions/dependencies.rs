//! Dependencies between jobs, written with the settings of the dependent job.
//!
//! A writer locks the tenant's row ([`serialise`]) before every other lock, so two writers cannot
//! close a cycle that neither sees. Then it locks the written jobs and their upstream jobs, in the
//! order of ids ([`lock_jobs`]). Only then does it write the dependencies ([`replace`]).
//!
//! The end of an attempt takes no lock on its job. It reads the committed dependencies, and is
//! recorded in `job_ends` for [`crate::dispatching::dependents`] if there is one. So an end counts if
//! its statement begins after the commit of the dependency. All of it happens in the caller's
//! transaction: a process that dies leaves the dependencies unchanged.

use std::collections::{BTreeSet, HashMap};

use diesel::prelude::*;
use diesel::sql_types::{Array, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::calendars;
use crate::jobs::SaveError;
use crate::schema::{job_dependencies, scheduled_jobs, tenants};
use crate::{Conn, DbResult};
use sched_domain::dependency::{After, AfterCondition, MAX_FOLLOWERS, find_cycle};
use sched_domain::ids::{JobId, TenantId};
use sched_domain::job::JobSettings;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DependencyError {
    #[error("there is no job named {0:?}")]
    NoSuchJob(String),
    #[error("the dependencies have a cycle: {0}")]
    Cycle(String),
    #[error("{MAX_FOLLOWERS} jobs already run after {0:?}, which is the maximum")]
    Crowded(String),
}

#[derive(Debug, Clone, Copy)]
pub struct Dependent<'a> {
    pub job: JobId,
    /// Settings of the job, already written.
    pub settings: &'a JobSettings,
}

/// Blocks other writers of the tenant's dependencies until the end of the transaction, if a job in
/// `settings` has a dependency.
pub async fn serialise<'a>(
    conn: &mut Conn,
    tenant: TenantId,
    settings: impl IntoIterator<Item = &'a JobSettings>,
) -> DbResult<()> {
    if settings.into_iter().any(|settings| !settings.after.is_empty()) {
        tenants::table
            .find(tenant)
            .select(tenants::id)
            .for_no_key_update()
            .get_result::<TenantId>(conn)
            .await?;
    }
    Ok(())
}

/// Locks the calendars and then the jobs that the write touches, each in the order of ids.
///
/// Does nothing without dependencies: then each job is locked when it is written.
pub async fn lock_jobs(conn: &mut Conn, tenant: TenantId, settings: &[&JobSettings]) -> DbResult<()> {
    if settings.iter().all(|settings| settings.after.is_empty()) {
        return Ok(());
    }
    let named: BTreeSet<String> = settings.iter().flat_map(|one| one.calendars.iter().cloned()).collect();
    calendars::lock_named(conn, tenant, &named.into_iter().collect::<Vec<_>>()).await?;
    let written = by_names(conn, tenant, settings.iter().map(|one| one.name.as_str())).await?;
    let mut jobs: BTreeSet<JobId> = written.into_values().collect();
    jobs.extend(upstream_of(conn, tenant, &jobs).await?);
    let upstream = settings.iter().flat_map(|one| &one.after).map(|after| after.job.as_str());
    jobs.extend(by_names(conn, tenant, upstream).await?.into_values());
    lock(conn, tenant, &jobs).await
}

/// Locks jobs to delete and their upstream jobs, in the order of ids, after [`serialise`].
pub(crate) async fn lock_with_upstream(
    conn: &mut Conn,
    tenant: TenantId,
    jobs: &BTreeSet<JobId>,
) -> DbResult<()> {
    let mut all = jobs.clone();
    all.extend(upstream_of(conn, tenant, jobs).await?);
    lock(conn, tenant, &all).await
}

/// Removes the dependencies of a job. The job's settings keep them for a later restore.
pub(crate) async fn remove(conn: &mut Conn, tenant: TenantId, job: JobId) -> DbResult<()> {
    let jobs = BTreeSet::from([job]);
    let upstream = upstream_of(conn, tenant, &jobs).await?;
    if upstream.is_empty() {
        return Ok(());
    }
    write(conn, tenant, &jobs, &[]).await
}

/// Locks a job to restore and its upstream jobs, in the order of ids.
pub(crate) async fn lock_restored(
    conn: &mut Conn,
    tenant: TenantId,
    job: JobId,
    settings: &JobSettings,
) -> DbResult<()> {
    let named = settings.after.iter().map(|after| after.job.as_str());
    let mut jobs: BTreeSet<JobId> = by_names(conn, tenant, named).await?.into_values().collect();
    jobs.insert(job);
    lock(conn, tenant, &jobs).await
}

/// Replaces the dependencies of jobs. Call it after all jobs of a transaction are written, so that
/// their order does not matter.
///
/// # Errors
/// An upstream job does not exist, or the dependencies have a cycle.
pub async fn replace(
    conn: &mut Conn,
    tenant: TenantId,
    dependents: &[Dependent<'_>],
) -> Result<(), SaveError> {
    if dependents.is_empty() {
        return Ok(());
    }
    let jobs: BTreeSet<JobId> = dependents.iter().map(|dependent| dependent.job).collect();
    let names = dependents.iter().flat_map(|dependent| &dependent.settings.after);
    let ids = by_names(conn, tenant, names.map(|after| after.job.as_str())).await?;
    let mut upstream = upstream_of(conn, tenant, &jobs).await?;
    upstream.extend(ids.values().copied());
    lock(conn, tenant, &upstream).await?;
    let edges = resolve(dependents, &ids)?;
    write(conn, tenant, &jobs, &edges).await?;
    if let Some(crowded) = crowded(conn, tenant, &edges).await? {
        return Err(refusal(
            dependents,
            &edges,
            |edge| edge.after == crowded,
            |after| DependencyError::Crowded(after.job.clone()),
        ));
    }
    refuse_cycles(conn, tenant, dependents, &edges).await
}

/// Position of the dependent, index of its entry, and the two jobs.
#[derive(Debug, Clone, Copy)]
struct NewEdge {
    dependent: usize,
    entry: usize,
    job: JobId,
    after: JobId,
    condition: AfterCondition,
}

fn resolve(dependents: &[Dependent<'_>], ids: &HashMap<String, JobId>) -> Result<Vec<NewEdge>, SaveError> {
    let mut edges = Vec::new();
    for (position, dependent) in dependents.iter().enumerate() {
        for (entry, after) in dependent.settings.after.iter().enumerate() {
            let Some(id) = ids.get(&after.job) else {
                return Err(SaveError::Dependency {
                    job: dependent.settings.name.clone(),
                    entry,
                    source: DependencyError::NoSuchJob(after.job.clone()),
                });
            };
            let (job, condition) = (dependent.job, after.on);
            edges.push(NewEdge { dependent: position, entry, job, after: *id, condition });
        }
    }
    Ok(edges)
}

fn refusal(
    dependents: &[Dependent<'_>],
    edges: &[NewEdge],
    is_at_fault: impl Fn(&NewEdge) -> bool,
    why: impl FnOnce(&After) -> DependencyError,
) -> SaveError {
    let found = edges.iter().find(|edge| is_at_fault(edge)).and_then(|edge| {
        let dependent = dependents.get(edge.dependent)?;
        Some((&dependent.settings.name, edge.entry, dependent.settings.after.get(edge.entry)?))
    });
    match found {
        Some((job, entry, after)) => SaveError::Dependency { job: job.clone(), entry, source: why(after) },
        // The caller has just found one.
        None => SaveError::Database(crate::DbError::NotFound),
    }
}

async fn write(conn: &mut Conn, tenant: TenantId, jobs: &BTreeSet<JobId>, edges: &[NewEdge]) -> DbResult<()> {
    use job_dependencies as d;
    let of_jobs = d::table.filter(d::tenant_id.eq(tenant)).filter(d::job_id.eq_any(jobs));
    diesel::delete(of_jobs).execute(conn).await?;
    let rows: Vec<_> = edges
        .iter()
        .map(|edge| {
            (
                d::tenant_id.eq(tenant),
                d::job_id.eq(edge.job),
                d::after_job_id.eq(edge.after),
                d::condition.eq(edge.condition),
            )
        })
        .collect();
    // Below the maximum number of parameters of a statement.
    for rows in rows.chunks(5_000) {
        diesel::insert_into(d::table).values(rows).execute(conn).await?;
    }
    Ok(())
}

async fn refuse_cycles(
    conn: &mut Conn,
    tenant: TenantId,
    dependents: &[Dependent<'_>],
    edges: &[NewEdge],
) -> Result<(), SaveError> {
    let mut starts: Vec<JobId> = edges.iter().map(|edge| edge.job).collect();
    starts.dedup();
    if starts.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = starts.iter().map(|job| job.0).collect();
    let known: Vec<(JobId, JobId)> = Upstream { tenant, jobs: &ids }.load(conn).await?;
    let Some(cycle) = find_cycle(&starts, &known) else { return Ok(()) };
    let names = names_of(conn, tenant, &cycle).await?;
    let name = |job: &JobId| names.get(job).cloned().unwrap_or_default();
    let cycle = cycle.as_slice();
    let around = cycle.iter().chain(cycle.first()).map(name).collect::<Vec<_>>().join(" → ");
    let (first, last) = (cycle.first().copied(), cycle.last().copied());
    let closes = |edge: &NewEdge| Some(edge.job) == first && Some(edge.after) == last;
    Err(refusal(dependents, edges, closes, |_| DependencyError::Cycle(around)))
}

statement! {
    Upstream<'a> = "dependencies/dependencies_upstream.sql", (tenant: TenantId as SqlUuid, jobs: &'a [Uuid] as Array<SqlUuid>) -> (SqlUuid, SqlUuid)
}

/// An upstream job with too many dependents.
async fn crowded(conn: &mut Conn, tenant: TenantId, edges: &[NewEdge]) -> DbResult<Option<JobId>> {
    use job_dependencies as d;
    let found = d::table
        .filter(d::tenant_id.eq(tenant))
        .filter(d::after_job_id.eq_any(edges.iter().map(|edge| edge.after)))
        .group_by(d::after_job_id)
        .having(diesel::dsl::count_star().gt(MAX_FOLLOWERS))
        .select(d::after_job_id)
        .first(conn)
        .await
        .optional()?;
    Ok(found)
}

async fn by_names(
    conn: &mut Conn,
    tenant: TenantId,
    names: impl Iterator<Item = &str>,
) -> DbResult<HashMap<String, JobId>> {
    let names: BTreeSet<&str> = names.collect();
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    let found: Vec<(String, JobId)> = scheduled_jobs::table
        .filter(scheduled_jobs::tenant_id.eq(tenant))
        .filter(scheduled_jobs::name.eq_any(names))
        .filter(scheduled_jobs::deleted_at.is_null())
        .select((scheduled_jobs::name, scheduled_jobs::id))
        .load(conn)
        .await?;
    Ok(found.into_iter().collect())
}

pub async fn unknown_names(
    conn: &mut Conn,
    tenant: TenantId,
    names: &BTreeSet<&str>,
) -> DbResult<BTreeSet<String>> {
    let found = by_names(conn, tenant, names.iter().copied()).await?;
    let unknown = names.iter().filter(|name| !found.contains_key(**name));
    Ok(unknown.map(|name| (*name).to_owned()).collect())
}

async fn names_of(conn: &mut Conn, tenant: TenantId, jobs: &[JobId]) -> DbResult<HashMap<JobId, String>> {
    let found: Vec<(JobId, String)> = scheduled_jobs::table
        .filter(scheduled_jobs::tenant_id.eq(tenant))
        .filter(scheduled_jobs::id.eq_any(jobs))
        .select((scheduled_jobs::id, scheduled_jobs::name))
        .load(conn)
        .await?;
    Ok(found.into_iter().collect())
}

async fn upstream_of(conn: &mut Conn, tenant: TenantId, jobs: &BTreeSet<JobId>) -> DbResult<BTreeSet<JobId>> {
    use job_dependencies as d;
    let found: Vec<JobId> = d::table
        .filter(d::tenant_id.eq(tenant))
        .filter(d::job_id.eq_any(jobs))
        .select(d::after_job_id)
        .load(conn)
        .await?;
    Ok(found.into_iter().collect())
}

async fn lock(conn: &mut Conn, tenant: TenantId, jobs: &BTreeSet<JobId>) -> DbResult<()> {
    if jobs.is_empty() {
        return Ok(());
    }
    scheduled_jobs::table
        .filter(scheduled_jobs::tenant_id.eq(tenant))
        .filter(scheduled_jobs::id.eq_any(jobs))
        .order(scheduled_jobs::id)
        .select(scheduled_jobs::id)
        // The strongest lock from the beginning: see `job_counters::count_openings`.
        .for_update()
        .load::<JobId>(conn)
        .await?;
    Ok(())
}

/// Dependents of each of these jobs, by name, with their conditions, without deleted ones.
pub async fn followers(
    conn: &Conn,
    tenant: TenantId,
    jobs: &[JobId],
) -> DbResult<HashMap<JobId, Vec<After>>> {
    use job_dependencies as d;
    let found: Vec<(JobId, String, AfterCondition)> = d::table
        .inner_join(
            scheduled_jobs::table
                .on(scheduled_jobs::tenant_id.eq(d::tenant_id).and(scheduled_jobs::id.eq(d::job_id))),
        )
        .filter(d::tenant_id.eq(tenant))
        .filter(d::after_job_id.eq_any(jobs))
        .filter(scheduled_jobs::deleted_at.is_null())
        .order((d::after_job_id, scheduled_jobs::name))
        .select((d::after_job_id, scheduled_jobs::name, d::condition))
        .load(&mut { conn })
        .await?;
    let mut followers: HashMap<JobId, Vec<After>> = HashMap::new();
    for (job, follower, on) in found {
        followers.entry(job).or_default().push(After { job: follower, on });
    }
    Ok(followers)
}

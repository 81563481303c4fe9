//! Fills a database with tenants, jobs and finished dispatches.
//!
//! The SQL names only the relevant columns. Other columns have their defaults, so later columns
//! need no change.

use std::ops::RangeInclusive;

use anyhow::Context;

use crate::sql::{Db, fill};

pub(crate) struct Jobs<'a> {
    /// Number of the tenant, from 1.
    pub(crate) tenant: usize,
    pub(crate) prefix: &'a str,
    pub(crate) count: usize,
    pub(crate) job_type: &'a str,
    /// SQL of the schedule; `n` counts the jobs.
    pub(crate) config: &'a str,
    pub(crate) overlap: &'a str,
    /// SQL of the first fire; `n` counts the jobs.
    pub(crate) next: &'a str,
    /// SQL of the interval between `settled_until` and the first fire.
    pub(crate) settled_before: &'a str,
}

impl Default for Jobs<'_> {
    /// Jobs of the first tenant that fire every thirty days, next in 1 to 30 days.
    fn default() -> Self {
        Self {
            tenant: 1,
            prefix: "far",
            count: 0,
            job_type: "interval",
            config: r#"'{"hours": 720}'"#,
            overlap: "skip",
            next: "now() + interval '1 day' + n % 2505600 * interval '1 second'",
            settled_before: "interval '31 days'",
        }
    }
}

pub(crate) async fn tenants(db: &Db, count: usize) -> anyhow::Result<()> {
    db.run(&fill(include_str!("../sql/tenants.sql"), &[("tenants", &count.to_string())])).await
}

pub(crate) async fn jobs(db: &Db, jobs: &Jobs<'_>) -> anyhow::Result<()> {
    let statement = fill(
        include_str!("../sql/jobs.sql"),
        &[
            ("tenant", &jobs.tenant.to_string()),
            ("prefix", jobs.prefix),
            ("count", &jobs.count.to_string()),
            ("job_type", jobs.job_type),
            ("config", jobs.config),
            ("overlap", jobs.overlap),
            ("next", jobs.next),
            ("settled_before", jobs.settled_before),
        ],
    );
    db.run(&statement).await
}

pub(crate) async fn choose_due(db: &Db, prefix: &str) -> anyhow::Result<()> {
    db.run(&format!(
        "TRUNCATE bench.due;
         INSERT INTO bench.due SELECT tenant_id, id FROM scheduled_jobs WHERE name LIKE '{prefix}%';
         ANALYZE bench.due"
    ))
    .await
}

pub(crate) async fn choose_scattered(db: &Db, count: usize) -> anyhow::Result<()> {
    db.run(&format!(
        "TRUNCATE bench.due;
         INSERT INTO bench.due SELECT tenant_id, id FROM scheduled_jobs WHERE name LIKE 'far-%' ORDER BY hashtext(name) LIMIT {count};
         ANALYZE bench.due"
    ))
    .await
}

/// Inserts a finished dispatch of every job for each past hour of `hours`, the oldest first. Keys
/// and indexes are dropped meanwhile. Foreign keys are not checked: all referenced rows exist.
pub(crate) async fn history(db: &Db, hours: RangeInclusive<usize>) -> anyhow::Result<()> {
    let keys = db
        .rows(
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
             WHERE conrelid = 'job_dispatch'::regclass AND contype IN ('p', 'u')",
        )
        .await?;
    let indexes = db
        .rows(
            "SELECT indexrelid::regclass, pg_get_indexdef(indexrelid) FROM pg_index
             WHERE indrelid = 'job_dispatch'::regclass
               AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)",
        )
        .await?;
    db.run("SET maintenance_work_mem = '1GB'; SET session_replication_role = replica").await?;
    for row in &keys {
        let name = row.first().context("a key has a name")?;
        db.run(&format!("ALTER TABLE job_dispatch DROP CONSTRAINT {name}")).await?;
    }
    for row in &indexes {
        let name = row.first().context("an index has a name")?;
        db.run(&format!("DROP INDEX {name}")).await?;
    }
    let (newest, oldest) = (hours.start().to_string(), hours.end().to_string());
    let hours = [("newest", newest.as_str()), ("oldest", oldest.as_str())];
    db.run(&fill(include_str!("../sql/history.sql"), &hours)).await?;
    for row in &keys {
        let [name, definition] = row.as_slice() else { continue };
        db.run(&format!("ALTER TABLE job_dispatch ADD CONSTRAINT {name} {definition}")).await?;
    }
    for row in &indexes {
        let definition = row.get(1).context("an index has a definition")?;
        db.run(definition).await?;
    }
    db.run("SET session_replication_role = origin").await?;
    settle(db).await
}

/// Vacuum, analysis and a checkpoint, as on a server that has run for a while.
pub(crate) async fn settle(db: &Db) -> anyhow::Result<()> {
    db.run("VACUUM ANALYZE scheduled_jobs").await?;
    db.run("VACUUM ANALYZE job_dispatch").await?;
    db.run("ANALYZE").await?;
    db.run("CHECKPOINT").await
}

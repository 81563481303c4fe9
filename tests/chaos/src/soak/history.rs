//! The history of a long-running installation: finished dispatches that expire before or during the
//! soak, at the rate of new ones.
//!
//! Retention counts in days and removes expired dispatches at a whole hour. Therefore this module
//! writes dispatches that ended the retention time before the present hour. They cover a period as
//! long as the soak before that time, removed while the soak begins. They also cover an equal
//! period after it, which expires as the hours pass. The dispatches of the run itself never expire,
//! so that the checker finds all of them. The history is written and cleared with plain SQL and
//! without triggers.

use std::time::Duration;

use anyhow::Context as _;
use test_support::Client;

pub(super) const JOB: &str = "older";
/// An expired dispatch may remain this long: the leader checks every five minutes, and removes page
/// after page.
pub(super) const LEFT_FOR: Duration = Duration::from_secs(600);

const FILL: &str = "
    SET session_replication_role = replica;
    INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, created_at, available_at, claimed_at, completed_at, status, queue,
                              worker_id, claim_token, attempt, triggered_by, trigger_id, args)
    SELECT i.id, j.tenant_id, j.id, j.version, a.at, a.at, a.at, a.at, a.at + interval '1 second', 'COMPLETED', 'default', i.id, n, 1, 'manual', i.id, '{}'
    FROM scheduled_jobs j, generate_series(0, {count}) AS n,
         LATERAL (SELECT date_trunc('hour', now()) - interval '{days} days' - interval '{length} seconds' + n * interval '{step} seconds' AS at) AS a,
         LATERAL (SELECT lpad(to_hex((extract(epoch FROM a.at) * 1000)::bigint), 12, '0') AS hex) AS h,
         LATERAL (SELECT (left(hex, 8) || '-' || right(hex, 4) || '-7' || substr(gen_random_uuid()::text, 16))::uuid AS id) AS i
    WHERE j.name = '{job}';
    SET session_replication_role = origin;
    VACUUM ANALYZE job_dispatch; VACUUM ANALYZE scheduled_jobs;";

pub(super) fn days(length: Duration) -> u64 {
    length.as_secs() / 86_400 + 1
}

/// Writes `rate` dispatches a second for twice the length of the soak.
pub(super) async fn fill(sql: &Client, length: Duration, rate: f64) -> anyhow::Result<()> {
    let count = ((2 * length).as_secs_f64() * rate) as u64;
    let fill = FILL
        .replace("{count}", &count.to_string())
        .replace("{days}", &days(length).to_string())
        .replace("{length}", &length.as_secs().to_string())
        .replace("{step}", &(1.0 / rate).to_string())
        .replace("{job}", JOB);
    for statement in fill.split(';').filter(|statement| !statement.trim().is_empty()) {
        sql.batch_execute(statement).await.context("failed to write the history")?;
    }
    Ok(())
}

/// Dispatches that expired at least [`LEFT_FOR`] ago and still exist, and the number of all that
/// exist.
pub(super) async fn measure(sql: &Client, length: Duration) -> anyhow::Result<(i64, i64)> {
    let statement = format!(
        "SELECT count(*) FILTER (WHERE d.completed_at < date_trunc('hour', now() - interval '{} seconds') - interval '{} days'), count(*)
         FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id WHERE j.name = '{JOB}'",
        LEFT_FOR.as_secs(),
        days(length)
    );
    let row = sql.query_one(&statement, &[]).await?;
    Ok((row.get(0), row.get(1)))
}

pub(super) async fn clear(sql: &Client) -> anyhow::Result<()> {
    sql.batch_execute(&format!(
        "SET session_replication_role = replica;
         DELETE FROM job_dispatch WHERE job_id = (SELECT id FROM scheduled_jobs WHERE name = '{JOB}');
         SET session_replication_role = origin"
    ))
    .await
    .context("failed to remove the history")
}

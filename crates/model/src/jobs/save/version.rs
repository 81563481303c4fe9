//! Stored versions of a job.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::super::switch::Pause;
use crate::schema::scheduled_job_versions;
use crate::{Conn, DbError, DbResult};
use sched_domain::ids::{JobId, TenantId};
use sched_domain::job::JobSettings;

pub(in crate::jobs) struct NewVersion<'a> {
    pub(in crate::jobs) version: i64,
    pub(in crate::jobs) change: &'static str,
    pub(in crate::jobs) settings: &'a JobSettings,
    /// When the cursor was computed: later fires follow these settings.
    pub(in crate::jobs) changed_at: DateTime<Utc>,
    pub(in crate::jobs) source: &'a str,
    pub(in crate::jobs) pause: Option<&'a Pause<'a>>,
}

impl NewVersion<'_> {
    pub(in crate::jobs) async fn store(&self, conn: &mut Conn, tenant: TenantId, id: JobId) -> DbResult<()> {
        use scheduled_job_versions as v;
        let settings = serde_json::to_value(self.settings).map_err(|error| DbError::Corrupt {
            what: format!("settings of job {id}"),
            reason: error.to_string(),
        })?;
        diesel::insert_into(v::table)
            .values((
                v::tenant_id.eq(tenant),
                v::job_id.eq(id),
                v::version.eq(self.version),
                v::change.eq(self.change),
                v::settings.eq(settings),
                v::changed_at.eq(self.changed_at),
                v::changed_src.eq(self.source),
                v::pause_reason.eq(self.pause.and_then(|pause| pause.reason)),
                v::paused_until.eq(self.pause.and_then(|pause| pause.until)),
            ))
            .execute(conn)
            .await?;
        Ok(())
    }
}

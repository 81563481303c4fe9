//! The arguments of a run.
//!
//! A run stores its arguments only if they differ from those of its job. NULL means the arguments
//! of the version that the run names. The job notes whether its version is stored with its
//! arguments (`is_version_stored`); the transaction that inserts a run reads this under the lock on
//! the job. Triggers keep the version: none that is current or that a run names is deleted or
//! changed, and changed arguments of a job always have a new version.

use diesel::sql_types::Jsonb;

fragment! {
    /// The arguments of a row of `job_dispatch`.
    RunArguments: Jsonb = "coalesce(job_dispatch.args, (SELECT v.settings -> 'task_args' FROM scheduled_job_versions v \
         WHERE v.tenant_id = job_dispatch.tenant_id AND v.job_id = job_dispatch.job_id AND v.version = job_dispatch.job_version))"
}

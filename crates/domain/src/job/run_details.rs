/// The surroundings of a run, as of its claim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunDetails {
    /// Slug of the tenant.
    pub tenant: String,
    /// Name of the project of the job.
    pub project: Option<String>,
    pub queue: String,
    /// The user, key or program that triggered the run; `None` for a run of the schedule.
    pub user: Option<String>,
    /// The cron expression of the job, or the fields of its schedule; `None` without a schedule.
    pub schedule: Option<String>,
}

//! Word lists of jobs.

text_enum! {
    /// Decides where the history of a job is kept.
    pub enum Scope {
        /// Backs up or restores the main schema; its history lives outside it.
        BackupInfrastructure = "backup_infrastructure",
        System = "system",
        Project = "project",
    }
}

text_enum! {
    pub enum MisfireKind {
        Skip = "skip",
        /// The latest fires, the earlier ones are skipped.
        FireOnce = "fire_once",
        /// All fire, up to a cap.
        FireAll = "fire_all",
    }
}

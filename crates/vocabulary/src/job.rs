//! Word lists of jobs.

text_enum! {
    /// The owner of a job, which decides where its history is kept.
    pub enum Scope {
        /// Backs up or restores the main schema; its history lives outside it.
        BackupInfrastructure = "backup_infrastructure",
        System = "system",
        Project = "project",
    }
}

text_enum! {
    /// Policy for fire times that passed without a dispatch.
    pub enum MisfireKind {
        /// They are skipped, and the skip recorded.
        Skip = "skip",
        /// The latest fires, the earlier ones are skipped.
        FireOnce = "fire_once",
        /// All fire, up to a cap.
        FireAll = "fire_all",
    }
}

//! Roles of users and keys.

text_enum! {
    /// The weakest first. Each has all permissions of those before.
    pub enum Role {
        Viewer = "viewer",
        /// Also triggers, cancels, retries, pauses.
        Operator = "operator",
        /// Also changes jobs, functions, calendars, queues, secrets and keys.
        Admin = "admin",
        /// Also manages members and their roles.
        Owner = "owner",
    }
}

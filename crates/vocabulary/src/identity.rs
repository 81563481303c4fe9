//! Roles of users and keys.

text_enum! {
    /// What a user is in one tenant, the weakest first. Each may do all that those before it may.
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

//! Schedulers and workers.

text_enum! {
    pub enum WorkerStatus {
        Idle = "IDLE",
        Busy = "BUSY",
        /// Finishes its runs and claims nothing new.
        Draining = "DRAINING",
        /// Its lease has expired; its runs were given to other workers.
        Offline = "OFFLINE",
    }
}

text_enum! {
    pub enum TermEnd {
        Resigned = "resigned",
        Expired = "expired",
        /// An operator requested that the leader step down.
        SteppedDown = "stepped_down",
    }
}

impl WorkerStatus {
    /// The name in the API, on the command line and as a label of metrics.
    #[must_use]
    pub const fn public_name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Draining => "draining",
            Self::Offline => "offline",
        }
    }
}

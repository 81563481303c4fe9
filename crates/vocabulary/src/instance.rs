//! The processes of an installation: schedulers and workers.

text_enum! {
    /// What a worker is doing.
    pub enum WorkerStatus {
        /// Alive and without work.
        Idle = "IDLE",
        /// Alive and running something.
        Busy = "BUSY",
        /// Alive, finishes what it runs and takes nothing new.
        Draining = "DRAINING",
        /// Its lease has expired; its runs were given to other workers.
        Offline = "OFFLINE",
    }
}

text_enum! {
    /// How a term of leadership ended.
    pub enum TermEnd {
        /// The leader stopped in order.
        Resigned = "resigned",
        /// The leader's lease expired and another took over.
        Expired = "expired",
        /// An operator requested that the leader step down.
        SteppedDown = "stepped_down",
    }
}

impl WorkerStatus {
    /// The name of the state that people see: in the API, on the command line and as a label of metrics.
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

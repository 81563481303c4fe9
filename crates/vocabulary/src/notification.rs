//! Word lists of notifications.

text_enum! {
    /// How a channel is reached.
    pub enum ChannelKind {
        /// A request with a signed JSON body.
        Webhook = "webhook",
        /// An incoming webhook of a chat, which takes `{"text": "..."}`.
        Chat = "chat",
        Email = "email",
    }
}

text_enum! {
    /// Events that a rule can notify.
    pub enum Occasion {
        /// A run ended without success: retries exhausted, or none configured.
        Failure = "failure",
        /// The same, of those that became dead letters.
        DeadLetter = "dead_letter",
        /// A fire time passed without a run, or no worker started its run in time.
        Missed = "missed",
        /// A run succeeded after a failed one of the same job.
        Recovery = "recovery",
    }
}

text_enum! {
    pub enum MessageKind {
        Failure = "failure",
        DeadLetter = "dead_letter",
        Missed = "missed",
        Recovery = "recovery",
        /// A user tested the channel.
        Test = "test",
    }
}

text_enum! {
    /// How far a message has come.
    pub enum DeliveryStatus {
        /// It has no dispatch yet.
        Waiting = "waiting",
        /// Its dispatch waits, runs or will be tried again.
        Sending = "sending",
        /// It was taken by the other side.
        Sent = "sent",
        Failed = "failed",
    }
}

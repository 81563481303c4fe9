//! Word lists of notifications.

text_enum! {
    pub enum ChannelKind {
        Webhook = "webhook",
        /// An incoming webhook of a chat, which takes `{"text": "..."}`.
        Chat = "chat",
        Email = "email",
    }
}

text_enum! {
    pub enum Occasion {
        /// A run ended without success: retries exhausted, or none configured.
        Failure = "failure",
        /// The same, of dead letters.
        DeadLetter = "dead_letter",
        /// A fire time passed without a run, or no worker started its run in time.
        Missed = "missed",
        Recovery = "recovery",
    }
}

text_enum! {
    pub enum MessageKind {
        Failure = "failure",
        DeadLetter = "dead_letter",
        Missed = "missed",
        Recovery = "recovery",
        Test = "test",
    }
}

text_enum! {
    pub enum DeliveryStatus {
        Waiting = "waiting",
        Sending = "sending",
        /// The receiver accepted it.
        Sent = "sent",
        Failed = "failed",
    }
}

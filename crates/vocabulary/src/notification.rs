//! Words of notifications.

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
    /// What a rule may tell.
    pub enum Occasion {
        /// A run has ended for good without success: retries exhausted, or none configured.
        Failure = "failure",
        /// The same, of those that became dead letters.
        DeadLetter = "dead_letter",
        /// A fire time passed without a run, or nobody began one in time.
        Missed = "missed",
        /// A run succeeded after one that had failed for good.
        Recovery = "recovery",
    }
}

text_enum! {
    pub enum MessageKind {
        Failure = "failure",
        DeadLetter = "dead_letter",
        Missed = "missed",
        Recovery = "recovery",
        /// Somebody tried the channel.
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

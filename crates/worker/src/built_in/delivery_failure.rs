//! Why a notification was not sent, with or without data of the tenant.

use sched_model::DbError;

use crate::handlers::native::HandlerError;

#[derive(Debug)]
pub(super) struct Failure {
    pub(super) class: &'static str,
    pub(super) message: String,
    /// No further attempt can succeed.
    pub(super) is_final: bool,
    /// The cause is the installation and not the tenant.
    pub(super) is_for_all: bool,
}

impl Failure {
    /// A temporary failure. Only the tenant sees `message`.
    pub(super) fn new(class: &'static str, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), is_final: false, is_for_all: false }
    }

    pub(super) fn for_good(self) -> Self {
        Self { is_final: true, ..self }
    }

    /// Marks the message as free of tenant data.
    pub(super) fn for_all(self) -> Self {
        Self { is_for_all: true, ..self }
    }

    /// For the history of the job, which other tenants can read.
    pub(super) fn shown(self) -> HandlerError {
        let message = if self.is_for_all {
            self.message
        } else {
            "the message was not sent; the notification deliveries of the tenant show the reason".to_owned()
        };
        let error = HandlerError::new(self.class, message);
        if self.is_final { error.no_retry() } else { error }
    }
}

impl From<DbError> for Failure {
    fn from(error: DbError) -> Self {
        Self::new("handler_error", error.to_string()).for_all()
    }
}

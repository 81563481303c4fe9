//! The answer to a request that fails: a problem document, and the headers of its status.

use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, RETRY_AFTER, UPGRADE, WWW_AUTHENTICATE};
use actix_web::{HttpResponse, ResponseError};
use sched_wire::{PROBLEM_JSON, Problem};

use super::ApiError;
use super::field_error::FieldError;

/// About the time of a database restart.
const RETRY_AFTER_SECONDS: &str = "2";
const NO_TOKEN: &str = "Bearer realm=\"sched\"";
const INVALID_TOKEN: &str = "Bearer realm=\"sched\", error=\"invalid_token\"";

impl ApiError {
    fn mistakes(&self) -> &[FieldError] {
        match self {
            Self::Parameters(mistakes) | Self::Refused(mistakes) => mistakes,
            Self::Shared(error) => error.mistakes(),
            _ => &[],
        }
    }

    /// Without the fields that depend on the request.
    pub(crate) fn problem(&self) -> Problem {
        let (status, code) = self.kind();
        let title = status.canonical_reason().unwrap_or("Error");
        let mut problem = Problem::new(status.as_u16(), title, code, self.to_string());
        problem.errors = self.mistakes().iter().map(FieldError::to_wire).collect();
        problem
    }

    /// The detail for a request that only reads, if the usual one concerns a change.
    pub(crate) fn detail_of_read(&self) -> Option<&'static str> {
        match self {
            Self::TimedOut => Some("the request exceeded its time limit; retry"),
            Self::Unavailable(_) => Some("the database cannot be reached; retry later"),
            Self::Shared(error) => error.detail_of_read(),
            _ => None,
        }
    }

    pub(crate) fn respond(&self, problem: &Problem) -> HttpResponse {
        let mut response = HttpResponse::build(self.kind().0);
        if let Self::MethodNotAllowed { allow } = self {
            response.insert_header((ALLOW, allow.as_str()));
        }
        if let Self::Unauthenticated(shown) = self {
            // RFC 6750: no error code for a request without a token.
            let challenge = if shown.is_some() { INVALID_TOKEN } else { NO_TOKEN };
            response.insert_header((WWW_AUTHENTICATE, challenge));
        }
        if let Self::NoUpgrade(_) = self {
            response.insert_header((UPGRADE, "websocket"));
        }
        if matches!(self, Self::SignInFailed(_)) {
            response.insert_header((WWW_AUTHENTICATE, NO_TOKEN));
        }
        if let Self::TooManyRequests { after_seconds }
        | Self::TooManySignIns { after_seconds }
        | Self::TooManyUnauthenticated { after_seconds }
        | Self::QuotaUsedUp { after_seconds, .. } = self
        {
            response.insert_header((RETRY_AFTER, after_seconds.to_string()));
        }
        if matches!(self, Self::SlowBody) {
            // The rest of the body would be read as the next request.
            response.force_close();
        }
        if matches!(self, Self::InFlight) {
            response.insert_header((RETRY_AFTER, "1"));
        }
        if self.kind().0 == StatusCode::SERVICE_UNAVAILABLE || matches!(self, Self::TooManyStreams { .. }) {
            response.insert_header((RETRY_AFTER, RETRY_AFTER_SECONDS));
        }
        // Strings and numbers only: this cannot fail.
        let body = serde_json::to_string(problem).unwrap_or_default();
        response.content_type(PROBLEM_JSON).body(body)
    }
}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        self.kind().0
    }

    fn error_response(&self) -> HttpResponse {
        self.respond(&self.problem())
    }
}

#[cfg(test)]
mod tests {
    use actix_web::error::PayloadError;
    use sched_model::DbError;
    use sched_model::dispatching::retries::JobBar;
    use sched_model::domain::identity::Permission;
    use sched_model::domain::ids::DispatchId;
    use sched_model::domain::run_state::DispatchStatus;

    use super::*;
    use crate::error::conflict::Conflict;
    use crate::error::field_error::Reason;
    use crate::openapi::PROBLEMS;

    #[test]
    fn answer_hides_database_messages() {
        let cause = "password authentication failed for user \"x\"";
        for error in [
            ApiError::from(DbError::Unavailable(cause.into())),
            ApiError::from(DbError::Corrupt { what: cause.into(), reason: cause.into() }),
        ] {
            let text = serde_json::to_string(&error.problem()).unwrap();
            assert!(!text.contains("password"), "{text}");
        }
    }

    #[test]
    fn failed_read_has_no_effect_to_check() {
        let outage = || ApiError::from(DbError::Unavailable("x".into()));
        for error in [ApiError::TimedOut, outage(), ApiError::Shared(std::sync::Arc::new(outage()))] {
            assert!(error.problem().detail.contains("took effect"), "{error}");
            let of_read = error.detail_of_read().unwrap();
            assert!(of_read.contains("retry") && !of_read.contains("effect"), "{of_read}");
        }
        assert_eq!(ApiError::Starting.detail_of_read(), None);
    }

    #[test]
    fn every_code_has_a_section_in_the_problems_page() {
        let outage = || DbError::Unavailable("x".into());
        let reasons = [
            Reason::Invalid,
            Reason::AlreadyExists,
            Reason::SingletonTaken,
            Reason::Inactive,
            Reason::Concurrent,
            Reason::InUse,
            Reason::KeyReused,
            Reason::LastOwner,
            Reason::LastOperator,
            Reason::BuiltIn,
            Reason::QuotaExceeded,
        ];
        let refused = reasons.map(|reason| {
            ApiError::Refused(vec![FieldError { reason, pointer: String::new(), message: String::new() }])
        });
        let others = [
            ApiError::NoSuchPath,
            ApiError::MethodNotAllowed { allow: "GET".to_owned() },
            ApiError::NotFound { kind: "job", name: String::new() },
            ApiError::Malformed(String::new()),
            ApiError::MediaType,
            ApiError::TooLarge,
            ApiError::SlowBody,
            ApiError::BrokenBody(PayloadError::Overflow),
            ApiError::Parameters(Vec::new()),
            ApiError::NoLeader,
            ApiError::NoStandby,
            ApiError::NoSecretKeys,
            ApiError::Unsealed(sched_model::domain::secret::SealError),
            ApiError::Unwritten(serde::ser::Error::custom("x")),
            ApiError::InFlight,
            ApiError::OtherTag { kind: "queue", found: String::new() },
            ApiError::Precondition(String::new()),
            ApiError::OtherVersion { found: 1 },
            ApiError::Unauthenticated(None),
            ApiError::SignInFailed(""),
            ApiError::TooManySignIns { after_seconds: 1 },
            ApiError::Csrf,
            ApiError::NoTokenKeys,
            ApiError::Forbidden(Permission::JobsRead),
            ApiError::TooWide(Permission::JobsRead),
            ApiError::TooManyRequests { after_seconds: 1 },
            ApiError::TooManyUnauthenticated { after_seconds: 1 },
            ApiError::QuotaUsedUp { limit: 1, after_seconds: 1 },
            ApiError::WrongHost(String::new()),
            ApiError::CrossSite,
            ApiError::TimedOut,
            ApiError::TooManyFollowers,
            ApiError::NoUpgrade(String::new()),
            ApiError::TooManyStreams { limit: 1 },
            ApiError::Starting,
            ApiError::Unavailable(outage()),
            ApiError::Busy(outage()),
            ApiError::Broken,
            ApiError::Internal(outage()),
        ];
        let barred = |bar| Conflict::Barred { job: String::new(), bar };
        let conflicts = [
            Conflict::Finished(DispatchStatus::Completed),
            Conflict::NotFinished(DispatchStatus::Pending),
            Conflict::Succeeded,
            Conflict::AlreadyRetried(DispatchId(uuid::Uuid::nil())),
            barred(JobBar::Deleted),
            barred(JobBar::Disabled),
            barred(JobBar::FunctionInactive),
        ];
        let conflicts = conflicts.map(ApiError::Conflict);
        for error in refused.into_iter().chain(others).chain(conflicts) {
            let (status, code) = error.kind();
            let section = PROBLEMS.split("\n## ").find(|part| part.lines().next() == Some(code));
            let section = section.unwrap_or_else(|| panic!("{code} is not in docs/reference/problems.md"));
            assert!(section.contains(status.as_str()) && section.contains("What to do: "), "{status} {code}");
            assert_eq!(error.problem().kind, format!("/api/docs/problems#{code}"));
        }
    }
}

//! Why a request fails, and the problem document this makes.
//!
//! One type and one exhaustive mapping: a new variant has to choose its status and its code. Causes inside (what the
//! database said) stand in the log and never in an answer. Logging is [`crate::http::middleware`]'s part.

pub(crate) mod conflict;
pub(crate) mod field_error;

use std::sync::Arc;

use actix_web::error::PayloadError;
use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, RETRY_AFTER, UPGRADE, WWW_AUTHENTICATE};
use actix_web::{HttpResponse, ResponseError};
use sched_model::DbError;
use sched_model::domain::identity::Permission;
use sched_wire::{BASE_PATH, CSRF_TOKEN, PROBLEM_JSON, Problem};

use crate::error::conflict::Conflict;
use crate::error::field_error::{Mistake, Reason};
use crate::http::extract::{BODY_WITHIN, MAX_BODY_BYTES};

/// When a client that was told to come back should; a database that restarts takes about as long.
const RETRY_AFTER_SECONDS: &str = "2";
/// How a client is to say who it is.
const NO_TOKEN: &str = "Bearer realm=\"sched\"";
/// The same, to one whose token is not taken.
const INVALID_TOKEN: &str = "Bearer realm=\"sched\", error=\"invalid_token\"";

/// Why a request fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// No route.
    #[error("there is nothing at this path; the API is below {BASE_PATH}")]
    NoSuchPath,
    /// A route, but not with this method.
    #[error("this path takes {allow}")]
    MethodNotAllowed {
        /// The methods it takes.
        allow: String,
    },
    /// No such thing.
    #[error("there is no {kind} {name:?}")]
    NotFound {
        /// Kind of thing.
        kind: &'static str,
        /// How it was named.
        name: String,
    },
    /// The body is not JSON.
    #[error("the body is not valid JSON: {0}")]
    Malformed(String),
    /// The body is not said to be plain JSON.
    #[error("the body must be application/json in UTF-8, without a content encoding")]
    MediaType,
    /// The body is too long.
    #[error("the body is longer than {MAX_BODY_BYTES} bytes")]
    TooLarge,
    /// The body did not arrive in time.
    #[error("the body did not arrive within {} s; nothing was done", BODY_WITHIN.as_secs())]
    SlowBody,
    /// The body broke off.
    #[error("the body could not be read to its end")]
    BrokenBody(#[source] PayloadError),
    /// Parameters, headers or parts of the path are wrong.
    #[error("{}", told(.0))]
    Parameters(Vec<Mistake>),
    /// The body is understood and refused; nothing was written.
    #[error("{}", told(.0))]
    Refused(Vec<Mistake>),
    /// This API was started without keys for secrets.
    #[error(
        "this API keeps no secrets: start it, and every worker, with secrets-key-file (SECRETS_KEY_FILE); \
         `schedctl secrets keygen` makes the file"
    )]
    NoSecretKeys,
    /// The cipher refused a value.
    #[error("something went wrong inside; the log has it under the id of this request")]
    Unsealed(#[source] sched_model::domain::secret::SealError),
    /// An answer could not be written down.
    #[error("something went wrong inside; the log has it under the id of this request")]
    Unwritten(#[source] serde_json::Error),
    /// The request is for the leader, and there is none.
    #[error("no scheduler leads; start one, or wait until one takes over")]
    NoLeader,
    /// The request is for the leader to give way, and nobody would follow.
    #[error(
        "no other scheduler stands by, so that nothing would be dispatched for two leases; start one first, \
         or send {{\"force\": true}}"
    )]
    NoStandby,
    /// The thing has another version than the one the request is for; nothing was written.
    #[error(
        "it was changed meanwhile and has version {found} now, which If-Match did not name; nothing was written: read it again and send what is to change"
    )]
    OtherVersion {
        /// Its version.
        found: i64,
    },
    /// It has another entity tag than the one the request is for; nothing was written.
    #[error(
        "the {kind} was changed meanwhile and has the ETag \"{found}\" now, which If-Match did not name; nothing was written: read it again and send what is to change"
    )]
    OtherTag {
        /// Kind of thing.
        kind: &'static str,
        /// Its tag.
        found: String,
    },
    /// It is there and must not be, or the other way round; nothing was written.
    #[error("{0}")]
    Precondition(String),
    /// A request under the same key is being done.
    #[error(
        "a request with this Idempotency-Key is being done at this moment; send it again to learn what became of it"
    )]
    InFlight,
    /// The work that it is about is not in a state for it; nothing was written.
    #[error(transparent)]
    Conflict(Conflict),
    /// Nobody knows who sends the request.
    #[error("{}", .0.as_deref().unwrap_or("this needs an API key, in the header Authorization: Bearer sched_…, or the cookie of a session"))]
    Unauthenticated(
        /// What is wrong with what was shown; `None` when nothing was.
        Option<String>,
    ),
    /// Whoever wants to sign in may not.
    #[error("{0}")]
    SignInFailed(&'static str),
    /// Too many attempts to sign in have failed.
    #[error("too many attempts to sign in have failed; wait {after_seconds} s")]
    TooManySignIns {
        /// When the next one is looked at.
        after_seconds: u32,
    },
    /// A request with a cookie does not show that it comes from a page of ours.
    #[error(
        "with the cookie of a session this needs the header {CSRF_TOKEN}, whose value signing in and \
         `GET {BASE_PATH}/sessions/current` answer"
    )]
    Csrf,
    /// The keys that tokens are signed with are not known.
    #[error("the keys of the token issuer cannot be read; try again, or use an API key")]
    NoTokenKeys,
    /// Whoever sends it may not do this.
    #[error("this needs the permission {0}, which is not yours; `GET {BASE_PATH}/me` lists those that are")]
    Forbidden(Permission),
    /// A key or token that is bounded to scopes was to act as its user as a person.
    #[error(
        "a key or token that is bounded to scopes can neither see nor end the sessions of its user, nor change their password"
    )]
    Bounded,
    /// A new key was to do what its maker may not.
    #[error("a key can have no permission that its maker does not have, and {0} is not yours")]
    TooWide(Permission),
    /// Too many requests of one key.
    #[error("this key sends more requests than it may; wait {after_seconds} s")]
    TooManyRequests {
        /// When there is room for another.
        after_seconds: u32,
    },
    /// Too many requests from one address with tokens that nobody was seen with before, or to sign in.
    #[error("too many requests come from this address of callers who are not known; wait {after_seconds} s")]
    TooManyStrangers {
        /// When there is room for another.
        after_seconds: u32,
    },
    /// The tenant makes more runs than it may.
    #[error("the tenant may make {limit} dispatches per minute, and has made them; wait {after_seconds} s")]
    QuotaUsedUp {
        /// How many it may make.
        limit: i64,
        /// When it may make others.
        after_seconds: u32,
    },
    /// The request names a host we are not.
    #[error(
        "the request is for {0:?}; without an API key only loopback names, and those of api-allowed-hosts \
         (API_ALLOWED_HOSTS), are answered to"
    )]
    WrongHost(String),
    /// A web page of somebody else's sends the request.
    #[error("a page of another site may not do this here")]
    CrossSite,
    /// Too many passwords are to be checked.
    #[error("too many passwords are being checked at once; nothing was done, try again")]
    TooManyPasswords,
    /// The request took too long.
    #[error("the request took too long and was given up; whether it took effect is not known")]
    TimedOut,
    /// Too many clients follow what runs.
    #[error("too many clients follow output or events through this API; come back later, or ask another one")]
    TooManyFollowers,
    /// The request for a WebSocket is none.
    #[error("this path takes WebSockets alone: {0}")]
    NoUpgrade(String),
    /// Somebody follows too much at once.
    #[error("this key holds {limit} streams of this API, which is its share; end one of them first")]
    TooManyStreams {
        /// How many it may hold.
        limit: usize,
    },
    /// The daemon has not found its database yet.
    #[error("the API has not reached its database yet; try again")]
    Starting,
    /// The database cannot be reached.
    #[error("the database cannot be reached; try again later, and look first whether a change took effect")]
    Unavailable(#[source] DbError),
    /// The database is too busy with the same rows.
    #[error("the database did not get to it in time; try again")]
    Busy(#[source] DbError),
    /// A computation broke off: it panicked, which the log has told, or the daemon is ending.
    #[error("something went wrong inside; the log has it under the id of this request")]
    Broken,
    /// Anything we did not expect.
    #[error("something went wrong inside; the log has it under the id of this request")]
    Internal(#[source] DbError),
    /// What befell several requests at once, each of which is told.
    #[error(transparent)]
    Shared(Arc<ApiError>),
}

fn told(mistakes: &[Mistake]) -> String {
    match mistakes {
        [only] if only.pointer.is_empty() => only.message.clone(),
        [only] => format!("{}: {}", only.pointer, only.message),
        several => format!("{} mistakes; nothing was changed", several.len()),
    }
}

impl From<DbError> for ApiError {
    fn from(error: DbError) -> Self {
        match error {
            DbError::Unavailable(_) => Self::Unavailable(error),
            DbError::Collision(_) | DbError::TimedOut(_) => Self::Busy(error),
            DbError::Constraint { .. }
            | DbError::NotFound
            | DbError::TermOver
            | DbError::Corrupt { .. }
            | DbError::Other(_) => Self::Internal(error),
        }
    }
}

impl ApiError {
    /// A parameter, header or part of the path that is wrong.
    pub(crate) fn parameter(name: &str, message: impl Into<String>) -> Self {
        Self::Parameters(vec![Mistake::invalid(name, message)])
    }

    /// The status and the code of the problem.
    pub(crate) fn kind(&self) -> (StatusCode, &'static str) {
        match self {
            Self::NoSuchPath => (StatusCode::NOT_FOUND, "no_such_path"),
            Self::MethodNotAllowed { .. } => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::NotFound { .. } => (StatusCode::NOT_FOUND, "not_found"),
            Self::Malformed(_) => (StatusCode::BAD_REQUEST, "malformed_json"),
            Self::MediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"),
            Self::SlowBody => (StatusCode::REQUEST_TIMEOUT, "body_too_slow"),
            Self::BrokenBody(_) => (StatusCode::BAD_REQUEST, "broken_body"),
            Self::Parameters(_) => (StatusCode::BAD_REQUEST, "invalid_parameters"),
            Self::Refused(mistakes) => refusal(mistakes),
            Self::NoSecretKeys => (StatusCode::UNPROCESSABLE_ENTITY, "no_secret_keys"),
            Self::NoLeader => (StatusCode::CONFLICT, "no_leader"),
            Self::NoStandby => (StatusCode::CONFLICT, "no_standby"),
            Self::Conflict(conflict) => (StatusCode::CONFLICT, conflict.code()),
            Self::InFlight => (StatusCode::CONFLICT, "idempotency_key_in_flight"),
            Self::Precondition(_) => (StatusCode::PRECONDITION_FAILED, "precondition_failed"),
            Self::OtherVersion { .. } | Self::OtherTag { .. } => {
                (StatusCode::PRECONDITION_FAILED, "version_mismatch")
            }
            Self::Unauthenticated(_) => (StatusCode::UNAUTHORIZED, "unauthenticated"),
            Self::SignInFailed(_) => (StatusCode::UNAUTHORIZED, "sign_in_failed"),
            Self::TooManySignIns { .. } => (StatusCode::TOO_MANY_REQUESTS, "too_many_sign_ins"),
            Self::Csrf => (StatusCode::FORBIDDEN, "csrf"),
            Self::NoTokenKeys => (StatusCode::SERVICE_UNAVAILABLE, "no_token_keys"),
            Self::Forbidden(_) | Self::Bounded | Self::TooWide(_) => (StatusCode::FORBIDDEN, "forbidden"),
            Self::TooManyRequests { .. } | Self::TooManyStrangers { .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "too_many_requests")
            }
            Self::QuotaUsedUp { .. } => (StatusCode::TOO_MANY_REQUESTS, "quota_exceeded"),
            Self::WrongHost(_) => (StatusCode::MISDIRECTED_REQUEST, "wrong_host"),
            Self::CrossSite => (StatusCode::FORBIDDEN, "cross_site"),
            Self::TimedOut => (StatusCode::SERVICE_UNAVAILABLE, "timed_out"),
            Self::TooManyFollowers => (StatusCode::SERVICE_UNAVAILABLE, "too_many_followers"),
            Self::NoUpgrade(_) => (StatusCode::UPGRADE_REQUIRED, "upgrade_required"),
            Self::TooManyStreams { .. } => (StatusCode::TOO_MANY_REQUESTS, "too_many_streams"),
            Self::Starting => (StatusCode::SERVICE_UNAVAILABLE, "starting"),
            Self::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "database_unavailable"),
            Self::Busy(_) | Self::TooManyPasswords => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
            Self::Broken | Self::Unsealed(_) | Self::Unwritten(_) | Self::Internal(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "internal")
            }
            Self::Shared(error) => error.kind(),
        }
    }

    fn mistakes(&self) -> &[Mistake] {
        match self {
            Self::Parameters(mistakes) | Self::Refused(mistakes) => mistakes,
            Self::Shared(error) => error.mistakes(),
            _ => &[],
        }
    }

    /// The problem document, without what only the request knows.
    pub(crate) fn problem(&self) -> Problem {
        let (status, code) = self.kind();
        let title = status.canonical_reason().unwrap_or("Error");
        let mut problem = Problem::new(status.as_u16(), title, code, self.to_string());
        problem.errors = self.mistakes().iter().map(Mistake::to_wire).collect();
        problem
    }

    /// The answer that carries `problem`.
    pub(crate) fn respond(&self, problem: &Problem) -> HttpResponse {
        let mut response = HttpResponse::build(self.kind().0);
        if let Self::MethodNotAllowed { allow } = self {
            response.insert_header((ALLOW, allow.as_str()));
        }
        if let Self::Unauthenticated(shown) = self {
            // RFC 6750: nothing is said of a token that was not sent.
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
        | Self::TooManyStrangers { after_seconds }
        | Self::QuotaUsedUp { after_seconds, .. } = self
        {
            response.insert_header((RETRY_AFTER, after_seconds.to_string()));
        }
        if matches!(self, Self::SlowBody) {
            // What is left of the body would be read as the next request.
            response.force_close();
        }
        if matches!(self, Self::InFlight) {
            response.insert_header((RETRY_AFTER, "1"));
        }
        if self.kind().0 == StatusCode::SERVICE_UNAVAILABLE || matches!(self, Self::TooManyStreams { .. }) {
            response.insert_header((RETRY_AFTER, RETRY_AFTER_SECONDS));
        }
        // Strings and numbers only: writing them cannot fail, and an empty body would still carry the status.
        let body = serde_json::to_string(problem).unwrap_or_default();
        response.content_type(PROBLEM_JSON).body(body)
    }
}

/// One value that can never be right makes the whole request so; otherwise the first conflict names it.
fn refusal(mistakes: &[Mistake]) -> (StatusCode, &'static str) {
    match mistakes.iter().find(|mistake| !mistake.reason.is_conflict()).or(mistakes.first()) {
        Some(mistake) if mistake.reason.is_conflict() => (StatusCode::CONFLICT, mistake.reason.code()),
        Some(mistake) => (StatusCode::UNPROCESSABLE_ENTITY, mistake.reason.code()),
        None => (StatusCode::UNPROCESSABLE_ENTITY, Reason::Invalid.code()),
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
    use sched_model::dispatching::retries::JobBar;
    use sched_model::domain::dispatch::DispatchStatus;
    use sched_model::domain::ids::DispatchId;

    use super::*;
    use crate::openapi::PROBLEMS;

    #[test]
    fn what_the_database_said_is_not_in_the_answer() {
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
    fn every_code_stands_in_the_readme_and_on_the_page_that_its_type_leads_to() {
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
            ApiError::Refused(vec![Mistake { reason, pointer: String::new(), message: String::new() }])
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
            ApiError::TooManyStrangers { after_seconds: 1 },
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
            let is_row = |line: &&str| line.contains(status.as_str()) && line.contains(&format!("`{code}`"));
            assert!(include_str!("../README.md").lines().any(|line| is_row(&line)), "{status} {code}");
            let told = PROBLEMS.split("\n## ").find(|part| part.lines().next() == Some(code));
            let told = told.unwrap_or_else(|| panic!("{code} is not in docs/problems.md"));
            assert!(told.contains(status.as_str()) && told.contains("What to do: "), "{status} {code}");
            assert_eq!(error.problem().kind, format!("/api/docs/problems#{code}"));
        }
    }

    #[test]
    fn a_value_that_can_never_be_right_outweighs_a_conflict() {
        let conflict = Mistake {
            reason: Reason::SingletonTaken,
            pointer: "/jobs/0/function".into(),
            message: "taken".into(),
        };
        let invalid = Mistake::invalid("/jobs/1/name", "is wrong");
        assert_eq!(ApiError::Refused(vec![conflict.clone()]).kind().1, "singleton_taken");
        assert_eq!(ApiError::Refused(vec![conflict, invalid]).kind().0, StatusCode::UNPROCESSABLE_ENTITY);
    }
}

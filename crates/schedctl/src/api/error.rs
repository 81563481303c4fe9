//! Errors of requests to the API, with advice for the user. API terms are translated to commands
//! and flags. All text from the network is escaped here.

use std::fmt;

use sched_runtime::exit::{self, ExitStatus};
use sched_wire::Problem;

use crate::endpoint::Source;
use crate::output::neutral;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("the API key has characters that are not valid in a header")]
    Key(#[source] reqwest::header::InvalidHeaderValue),
    #[error("the value for {name} has characters that are not valid in a header")]
    Header {
        name: &'static str,
        #[source]
        source: reqwest::header::InvalidHeaderValue,
    },
    #[error("the name of a header is not valid")]
    HeaderName(#[source] reqwest::header::InvalidHeaderName),
    #[error("the URL of the API cannot have a path; use one such as http://127.0.0.1:8080")]
    NoPath,
    #[error("could not set up TLS for the API")]
    Setup(#[source] reqwest::Error),
    #[error("the API at {url} (from {origin}) cannot be reached{}", hint(.origin, *.dev_runs))]
    Unreachable {
        url: String,
        origin: Source,
        dev_runs: bool,
        #[source]
        source: reqwest::Error,
    },
    #[error(
        "the server at {url} (from {origin}) is not the API of this release: status {status} without a valid body; \
         check --api-url"
    )]
    Foreign {
        url: String,
        origin: Source,
        status: u16,
        #[source]
        source: Option<serde_json::Error>,
    },
    /// The API rejected the request.
    #[error("{}", Refusal(.0))]
    Refused(Box<Problem>),
}

impl ExitStatus for ApiError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Key(_) | Self::Header { .. } | Self::HeaderName(_) | Self::NoPath => exit::USAGE,
            Self::Setup(_) => exit::FAILURE,
            Self::Unreachable { .. } | Self::Foreign { .. } => exit::REMOTE,
            Self::Refused(_) => exit::REFUSED,
        }
    }
}

impl ApiError {
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(problem) if problem.code == "not_found")
    }

    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(problem) => matches!(problem.status, 429 | 503),
            // A reverse proxy whose API is away.
            Self::Foreign { status, .. } => matches!(status, 502..=504),
            Self::Key(_) | Self::Header { .. } | Self::HeaderName(_) | Self::NoPath | Self::Setup(_) => false,
        }
    }
}

fn hint(origin: &Source, dev_runs: bool) -> &'static str {
    match origin {
        Source::Given(_) => "; is `sched-api` running there?",
        Source::Dev(_) if dev_runs => {
            "; its `schedctl dev` is running: wait until it has started, or check the log of its API"
        }
        Source::Dev(_) => "; its `schedctl dev` has stopped: start it again, or set --api-url",
        Source::Default => "; start it with `schedctl dev`, or set --api-url",
    }
}

const HERE: [(&str, &str); 5] = [
    (
        "or of a name_prefix, with what they name, and for the rest without_jobs",
        "or of a --prefix, with what they name, and for the rest --without-jobs",
    ),
    ("`GET /api/v1/me`", "`schedctl whoami`"),
    ("with force=true", "with --force"),
    ("send {\"force\": true}", "give --force"),
    (
        "in the header Authorization: Bearer sched_…, or the cookie of a session",
        "which --api-key-file, SCHED_API_KEY_FILE or SCHED_API_KEY gives",
    ),
];

fn here(text: &str) -> String {
    HERE.into_iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
}

struct Refusal<'a>(&'a Problem);

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problem = self.0;
        write!(
            f,
            "{} (status {}, {})",
            neutral::line(&here(&problem.detail)),
            problem.status,
            neutral::line(&problem.code)
        )?;
        for error in problem.errors.iter().filter(|error| !problem.detail.contains(&error.message)) {
            f.write_str("\n  ")?;
            if !error.pointer.is_empty() {
                write!(f, "{}: ", neutral::line(&error.pointer))?;
            }
            f.write_str(&neutral::line(&here(&error.message)))?;
        }
        if problem.status >= 500 && !problem.request_id.is_empty() {
            write!(f, "\n  see request {} in the log of the API", neutral::line(&problem.request_id))?;
        }
        Ok(())
    }
}

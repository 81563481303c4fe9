//! Why a request to the API failed, and what the user can do about it.
//!
//! A refusal is shown as the API worded it, a line for each field; who knows more about the fields (a jobs file has lines
//! and names) rewords them before; what it says of its routes and parameters is said of commands and flags. Everything that came over the
//! wire is escaped here. Pure.

use std::fmt;

use sched_runtime::exit::{self, ExitStatus};
use sched_wire::Problem;

use crate::endpoint::Source;
use crate::output::neutral;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// The key cannot stand in a header.
    #[error("the API key holds characters that no request can carry")]
    Key(#[source] reqwest::header::InvalidHeaderValue),
    /// A header's value cannot stand in one.
    #[error("the value for {name} holds characters that no request can carry")]
    Header {
        name: &'static str,
        #[source]
        source: reqwest::header::InvalidHeaderValue,
    },
    /// A header's name is none.
    #[error("a header of the API has a name that no request can carry")]
    HeaderName(#[source] reqwest::header::InvalidHeaderName),
    /// The address takes no path.
    #[error("the API address takes no path; give one such as http://127.0.0.1:8080")]
    NoPath,
    /// The client cannot be set up.
    #[error("could not set up TLS for the API")]
    Setup(#[source] reqwest::Error),
    /// Nothing answers.
    #[error("the API at {url} (from {origin}) cannot be reached{}", hint(.origin, *.dev_runs))]
    Unreachable {
        url: String,
        origin: Source,
        /// Whether the `schedctl dev` that named the address runs.
        dev_runs: bool,
        #[source]
        source: reqwest::Error,
    },
    /// Something else answers.
    #[error(
        "what answers at {url} (from {origin}) is not the API of this release: it gave status {status} and no body we \
         understand; check --api-url"
    )]
    Foreign {
        url: String,
        origin: Source,
        status: u16,
        #[source]
        source: Option<serde_json::Error>,
    },
    /// The API refused.
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
    /// Whether there is nothing of that name.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused(problem) if problem.code == "not_found")
    }

    /// Whether asking again later may help.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(problem) => matches!(problem.status, 429 | 503),
            // A proxy before it, whose API is away.
            Self::Foreign { status, .. } => matches!(status, 502..=504),
            Self::Key(_) | Self::Header { .. } | Self::HeaderName(_) | Self::NoPath | Self::Setup(_) => false,
        }
    }
}

fn hint(origin: &Source, dev_runs: bool) -> &'static str {
    match origin {
        Source::Given(_) => "; is `sched-api` running there?",
        Source::Dev(_) if dev_runs => {
            "; the `schedctl dev` there runs: wait until it has started, and see what it prints of its API"
        }
        Source::Dev(_) => "; the `schedctl dev` there runs no more: start it again, or give --api-url",
        Source::Default => "; start everything with `schedctl dev`, or give --api-url",
    }
}

/// What the API calls its own things, and what they are called here.
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

/// A sentence of the API in words of the command line.
fn here(text: &str) -> String {
    HERE.into_iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
}

/// A problem for people: what is wrong, then a line for each field.
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
        // A single mistake is often the whole of the detail.
        for error in problem.errors.iter().filter(|error| !problem.detail.contains(&error.message)) {
            f.write_str("\n  ")?;
            if !error.pointer.is_empty() {
                write!(f, "{}: ", neutral::line(&error.pointer))?;
            }
            f.write_str(&neutral::line(&here(&error.message)))?;
        }
        if problem.status >= 500 && !problem.request_id.is_empty() {
            write!(
                f,
                "\n  the log of the API tells more under request {}",
                neutral::line(&problem.request_id)
            )?;
        }
        Ok(())
    }
}

//! A stub API and the program run against it.

use std::process::{Command, Output};

use sched_runtime::exit;
use scripted_http::{Request, Response, Script, Server};
use serde_json::{Value, json};

/// A stub API that answers the method and path of a request with a status, a body and the entity
/// tag "7".
pub(crate) struct Api {
    server: Server,
}

impl Api {
    pub(crate) fn new(answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static) -> Self {
        Self::scripted(move |request: &Request| {
            let (status, body) = answer(&route_of(request));
            response(status, body).steps(request)
        })
    }

    pub(crate) fn scripted(script: impl Script) -> Self {
        Self { server: Server::start(script) }
    }

    pub(crate) fn of(answers: &[(&str, Value)]) -> Self {
        let answers: Vec<(String, String)> =
            answers.iter().map(|(route, answer)| ((*route).to_owned(), answer.to_string())).collect();
        Self::new(move |route| match answers.iter().find(|(known, _)| known == route) {
            Some((_, answer)) => (200, answer.clone()),
            None => (404, problem(404, "not_found", &format!("no answer for {route}"))),
        })
    }

    /// Methods and paths of the requests.
    pub(crate) fn routes(&self) -> Vec<String> {
        self.server.requests().iter().map(route_of).collect()
    }

    /// Of conditional requests.
    pub(crate) fn conditions(&self) -> Vec<String> {
        let condition = |request: &Request| {
            let mut headers =
                request.headers.iter().map(|(name, value)| format!("{name}: {value}").to_lowercase());
            let header = headers.find(|header| header.starts_with("if-"))?;
            Some(format!("{} {header}", request.method))
        };
        self.server.requests().iter().filter_map(condition).collect()
    }

    pub(crate) fn bodies(&self) -> Vec<String> {
        let bodies = self.server.requests().into_iter().map(|request| request.text());
        bodies.filter(|body| !body.is_empty()).collect()
    }

    #[track_caller]
    pub(crate) fn run(&self, code: u8, arguments: &str) -> Output {
        self.run_with(code, arguments, &[])
    }

    #[track_caller]
    pub(crate) fn run_with(&self, code: u8, arguments: &str, variables: &[(&str, String)]) -> Output {
        let folder = tempfile::tempdir().unwrap();
        let mut command = self.command(arguments);
        command.current_dir(folder.path()).envs(variables.iter().map(|(name, value)| (name, value)));
        let done = command.output().unwrap();
        assert_eq!(
            done.status.code(),
            Some(code.into()),
            "{arguments}: {}{}",
            text(&done.stdout),
            text(&done.stderr)
        );
        done
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedctl"));
        command.env_clear().env("SCHED_API_URL", self.server.url("")).args(arguments.split(' '));
        command
    }

    #[track_caller]
    pub(crate) fn printed(&self, arguments: &str) -> String {
        text(&self.run(exit::OK, arguments).stdout).to_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self, arguments: &str) -> Value {
        serde_json::from_str(&self.printed(&format!("{arguments} -o json"))).unwrap()
    }
}

/// The method and the path of a request.
fn route_of(request: &Request) -> String {
    format!("{} {}", request.method, request.path.replace("/api/v1", ""))
}

/// A response of the stub.
pub(crate) fn response(status: u16, body: String) -> Response {
    Response::new(status).header("ETag", "\"7\"").body(body)
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

pub(crate) fn problem(status: u16, code: &str, detail: &str) -> String {
    json!({"type": "about:blank", "title": "x", "status": status, "detail": detail, "code": code}).to_string()
}

/// The values that apply to a job or a function, as the installation sets them.
pub(crate) fn effective() -> Value {
    json!({
        "max_attempts": {"value": 1, "origin": "installation"},
        "timeout_seconds": {"value": 300, "origin": "function"},
        "queue": {"value": "default", "origin": "function"},
    })
}

pub(crate) fn page(items: &[Value], next: Option<&str>) -> Value {
    json!({"items": items, "next_cursor": next})
}

#[track_caller]
pub(crate) fn line<'a>(printed: &'a str, title: &str) -> &'a str {
    let found =
        printed.lines().find_map(|line| line.strip_prefix(title).filter(|rest| rest.starts_with("  ")));
    found.unwrap_or_else(|| panic!("{title} is missing in\n{printed}")).trim()
}

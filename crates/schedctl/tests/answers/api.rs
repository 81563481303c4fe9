//! A stub API with prepared answers, and the program run against it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::thread;

use sched_runtime::exit;
use serde_json::{Value, json};

/// A stub API that answers the first line of a request with a status, a body and the entity tag
/// "7".
pub(crate) struct Api {
    pub(crate) url: String,
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    /// Methods and conditions of conditional requests.
    pub(crate) conditions: Arc<Mutex<Vec<String>>>,
    /// Bodies of the requests that had one.
    pub(crate) bodies: Arc<Mutex<Vec<String>>>,
}

impl Api {
    pub(crate) fn new(answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        let conditions = Arc::new(Mutex::new(Vec::new()));
        let kept_conditions = Arc::clone(&conditions);
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let kept_bodies = Arc::clone(&bodies);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (asked, condition, body) = request(&mut stream);
                kept_conditions.lock().unwrap().extend(condition);
                kept_bodies.lock().unwrap().extend(Some(body).filter(|body| !body.is_empty()));
                let (status, body) = answer(&asked);
                kept.lock().unwrap().push(asked);
                write!(
                    stream,
                    "HTTP/1.1 {status} x\r\nETag: \"7\"\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                )
                .unwrap();
            }
        });
        Self { url, asked, conditions, bodies }
    }

    /// A stub with these answers, and 404 for other requests.
    pub(crate) fn of(answers: &[(&str, Value)]) -> Self {
        let answers: Vec<(String, String)> =
            answers.iter().map(|(asked, answer)| ((*asked).to_owned(), answer.to_string())).collect();
        Self::new(move |asked| match answers.iter().find(|(known, _)| known == asked) {
            Some((_, answer)) => (200, answer.clone()),
            None => (404, problem(404, "not_found", &format!("nobody answers {asked}"))),
        })
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

    /// The program, prepared to run in the directory of the tests, where no installation is.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedctl"));
        command.env_clear().env("SCHED_API_URL", &self.url).args(arguments.split(' '));
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

/// The first line of a request, its condition, and its body.
fn request(stream: &mut TcpStream) -> (String, Option<String>, String) {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    // Closing a connection with unread data would discard the answer.
    let length =
        head.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    let asked = head.first().unwrap().replace("/api/v1", "").replace(" HTTP/1.1", "");
    let condition = head.iter().find_map(|line| {
        let line = line.to_lowercase();
        line.starts_with("if-").then(|| format!("{} {line}", asked.split(' ').next().unwrap()))
    });
    (asked, condition, text(&body).to_owned())
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

pub(crate) fn problem(status: u16, code: &str, detail: &str) -> String {
    json!({"type": "about:blank", "title": "x", "status": status, "detail": detail, "code": code}).to_string()
}

pub(crate) fn page(items: &[Value], next: Option<&str>) -> Value {
    json!({"items": items, "next_cursor": next})
}

/// The value of a line of a record.
#[track_caller]
pub(crate) fn line<'a>(printed: &'a str, title: &str) -> &'a str {
    let found =
        printed.lines().find_map(|line| line.strip_prefix(title).filter(|rest| rest.starts_with("  ")));
    found.unwrap_or_else(|| panic!("{title} is missing in\n{printed}")).trim()
}

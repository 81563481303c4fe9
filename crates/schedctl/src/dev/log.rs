//! Merges the lines of many processes into one stream on standard error. A line is written in one
//! piece, with control characters escaped. A very long line is split, so no process can exhaust
//! memory.

use std::io::{self, IsTerminal as _, Write as _};

use sched_runtime::tasks::{OwnedTask, spawn_owned};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};

use crate::output::{colour_allowed, neutral};

const WIDTH: usize = 10;
/// Longest part of a line.
const LONGEST: u64 = 64 * 1024;
/// Parameters of the escape sequence.
const COLOURS: [u8; 6] = [36, 33, 32, 35, 34, 31];

#[derive(Debug, Clone, Copy)]
pub(super) struct Log {
    colour: bool,
}

impl Log {
    pub(super) fn new() -> Self {
        Self { colour: io::stderr().is_terminal() && colour_allowed() }
    }

    pub(super) fn print(self, text: &str) {
        self.line("schedctl", None, text);
    }

    pub(super) fn follow(
        self,
        name: String,
        colour: usize,
        from: impl AsyncRead + Send + Unpin + 'static,
    ) -> OwnedTask<()> {
        spawn_owned(format!("log of {name}"), async move {
            let mut reader = BufReader::new(from);
            loop {
                let mut piece = Vec::new();
                match (&mut reader).take(LONGEST).read_until(b'\n', &mut piece).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {
                        let text = String::from_utf8_lossy(&piece);
                        self.line(&name, Some(colour), text.trim_end_matches(['\n', '\r']));
                    }
                }
            }
        })
    }

    fn line(self, name: &str, colour: Option<usize>, text: &str) {
        let line = format(name, colour.filter(|_| self.colour), text);
        // If standard error is gone, the daemons continue.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }
}

fn format(name: &str, colour: Option<usize>, text: &str) -> String {
    let text = neutral::line(text);
    match colour.and_then(|index| COLOURS.get(index % COLOURS.len())) {
        Some(colour) => format!("\u{1b}[{colour}m{name:<WIDTH$}|\u{1b}[0m {text}\n"),
        None => format!("{name:<WIDTH$}| {text}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_carries_its_name_and_is_harmless() {
        assert_eq!(format("api", None, "ready \u{1b}[2J"), "api       | ready \\u{1b}[2J\n");
        assert_eq!(format("worker", Some(0), "x"), "\u{1b}[36mworker    |\u{1b}[0m x\n");
        assert_eq!(format("scheduler", None, ""), "scheduler | \n");
    }
}

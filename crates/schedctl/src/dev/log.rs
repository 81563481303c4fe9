//! One stream of lines out of many processes.
//!
//! Every line carries the name of who wrote it; on a terminal each name has its colour. Lines go to standard error, so
//! that standard output stays for data. A line is written whole, and foreign control characters in it are shown instead of
//! obeyed. A very long line is cut into pieces, so that no process can fill our memory.

use std::io::{self, IsTerminal as _, Write as _};

use sched_runtime::tasks::{OwnedTask, spawn_owned};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};

use crate::output::{colour_allowed, neutral};

/// Width of the names.
const WIDTH: usize = 10;
/// Longest piece of a line.
const LONGEST: u64 = 64 * 1024;
/// Colours of the names, as the parameter of the escape sequence.
const COLOURS: [u8; 6] = [36, 33, 32, 35, 34, 31];

/// Where lines go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Log {
    colour: bool,
}

impl Log {
    /// Standard error, with colours if it is a terminal.
    pub(super) fn new() -> Self {
        Self { colour: io::stderr().is_terminal() && colour_allowed() }
    }

    /// A line of our own.
    pub(super) fn say(self, text: &str) {
        self.line("schedctl", None, text);
    }

    /// Passes on what `from` writes, as lines of `name`, until it ends.
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
                    // A pipe that cannot be read any more has as little to say as one that has ended.
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
        // With standard error gone there is nobody left to tell, and the daemons go on.
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

//! Confirmation before data is lost. Without a terminal, a command whose own name announces the
//! loss continues; a command whose loss is a side effect of a flag requires the confirming flag.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use anyhow::anyhow;
use sched_runtime::exit::ExitError;

use crate::failure::{failure, usage};
use crate::output::print_notice;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithoutTerminal {
    Continue,
    Refuse,
}

/// `flag` confirms in advance. Fails if the user declines or cannot be prompted.
pub(crate) fn confirm(action: &str, flag: &str, without_terminal: WithoutTerminal) -> Result<(), ExitError> {
    if !io::stdin().is_terminal() {
        return match without_terminal {
            WithoutTerminal::Continue => {
                print_notice(&format!("{action}; continuing without confirmation, as there is no terminal."));
                Ok(())
            }
            WithoutTerminal::Refuse => {
                Err(usage(anyhow!("{action}; confirm with {flag}, as there is no terminal for a prompt")))
            }
        };
    }
    let mut terminal = io::stderr().lock();
    let prompted = write!(terminal, "{action}. Continue? [y/N] ").and_then(|()| terminal.flush());
    prompted.map_err(failure)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(failure)?;
    if is_consent(&answer) {
        Ok(())
    } else {
        Err(failure(anyhow!("nothing was changed, because the prompt was not confirmed")))
    }
}

fn is_consent(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        for (answer, expected) in
            [("y\n", true), ("YES\n", true), ("\n", false), ("", false), ("yep\n", false)]
        {
            assert_eq!(is_consent(answer), expected, "{answer:?}");
        }
    }
}

//! Asking before data is lost.
//!
//! On a terminal the user is asked. Without one nobody can answer: a command that says by its own words what it drops goes on and
//! tells so, and one whose loss is a side effect of a flag wants the other flag instead of guessing.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use anyhow::anyhow;
use sched_runtime::exit::ExitError;

use crate::failure::{failure, usage};
use crate::output::tell;

/// What to do where there is no terminal to ask on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unattended {
    /// Go on, and say so.
    GoOn,
    /// Refuse, naming the flag that agrees.
    Refuse,
}

/// Returns when the user agrees to what `what` says; `flag` is what would have answered before.
///
/// # Errors
/// When the user does not agree, or cannot be asked.
pub(crate) fn ask(what: &str, flag: &str, unattended: Unattended) -> Result<(), ExitError> {
    if !io::stdin().is_terminal() {
        return match unattended {
            Unattended::GoOn => {
                tell(&format!("{what}; there is no terminal to ask on, going on."));
                Ok(())
            }
            Unattended::Refuse => {
                Err(usage(anyhow!("{what}; give {flag} to agree, there is no terminal to ask on")))
            }
        };
    }
    let mut terminal = io::stderr().lock();
    let asked = write!(terminal, "{what}. Go on? [y/N] ").and_then(|()| terminal.flush());
    asked.map_err(failure)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(failure)?;
    if is_consent(&answer) {
        Ok(())
    } else {
        Err(failure(anyhow!("nothing was changed, as you did not agree")))
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

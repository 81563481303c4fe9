//! What a command prints and tells, taken before it reaches anybody: for who decides afterwards whether to show it.
//!
//! It belongs to the task that runs the command, so commands need not know whether somebody takes it. One that prints from a task of its own is not
//! heard; none that only reads does.

use std::cell::RefCell;

/// What was said, in full.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Captured {
    /// For standard output.
    pub(crate) printed: String,
    /// Lines for people, on standard error.
    pub(crate) told: Vec<String>,
}

tokio::task_local! {
    static TAKEN: RefCell<Captured>;
}

/// Runs `work`, and takes what it prints and tells.
pub(crate) async fn captured<T>(work: impl Future<Output = T>) -> (T, Captured) {
    let work = async {
        let done = work.await;
        (done, TAKEN.with(RefCell::take))
    };
    TAKEN.scope(RefCell::default(), work).await
}

/// Whether somebody has taken the text.
pub(super) fn takes_printed(text: &str) -> bool {
    TAKEN.try_with(|taken| taken.borrow_mut().printed.push_str(text)).is_ok()
}

/// Whether somebody has taken the line.
pub(super) fn takes_told(text: &str) -> bool {
    TAKEN.try_with(|taken| taken.borrow_mut().told.push(text.to_owned())).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Format, Output, tell};

    #[tokio::test]
    async fn what_is_said_meanwhile_is_taken_in_its_order() {
        let (done, said) = captured(async {
            tell("one");
            Output::new(Format::Table).print("a\n").unwrap();
            tokio::task::yield_now().await;
            Output::new(Format::Table).print("b\n").unwrap();
            tell("two");
            7
        })
        .await;
        assert_eq!((done, said.printed.as_str()), (7, "a\nb\n"));
        assert_eq!(said.told, ["one", "two"]);
        assert!(!takes_told("nobody listens any more"));
    }
}

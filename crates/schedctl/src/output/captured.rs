//! Captures the output of a command, for callers that decide later whether to show it.
//!
//! The capture belongs to the task of the command, so commands need not know about it. Output of
//! another task is not captured; read-only commands have none.

use std::cell::RefCell;

/// Captured output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Captured {
    /// Standard output.
    pub(crate) printed: String,
    /// Messages for standard error.
    pub(crate) told: Vec<String>,
}

tokio::task_local! {
    static TAKEN: RefCell<Captured>;
}

/// Runs `work`, and captures its output.
pub(crate) async fn captured<T>(work: impl Future<Output = T>) -> (T, Captured) {
    let work = async {
        let done = work.await;
        (done, TAKEN.with(RefCell::take))
    };
    TAKEN.scope(RefCell::default(), work).await
}

/// Captures the text, if a capture is active.
pub(super) fn takes_printed(text: &str) -> bool {
    TAKEN.try_with(|taken| taken.borrow_mut().printed.push_str(text)).is_ok()
}

/// Captures the message, if a capture is active.
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

//! Captures the output of a command, for callers that decide later whether to show it. Output of
//! another task is not captured.

use std::cell::RefCell;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Captured {
    pub(crate) printed: String,
    pub(crate) told: Vec<String>,
}

tokio::task_local! {
    static TAKEN: RefCell<Captured>;
}

pub(crate) async fn captured<T>(work: impl Future<Output = T>) -> (T, Captured) {
    let work = async {
        let done = work.await;
        (done, TAKEN.with(RefCell::take))
    };
    TAKEN.scope(RefCell::default(), work).await
}

/// Returns false without an active capture.
pub(super) fn takes_printed(text: &str) -> bool {
    TAKEN.try_with(|taken| taken.borrow_mut().printed.push_str(text)).is_ok()
}

/// Returns false without an active capture.
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

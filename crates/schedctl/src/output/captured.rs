//! Captures the output of a command, for callers that decide later whether to show it. Output of
//! another task is not captured.

use std::cell::RefCell;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CommandOutput {
    pub(crate) printed: String,
    pub(crate) notices: Vec<String>,
}

type PrintNotice = Box<dyn Fn(&str) + Send + Sync>;

tokio::task_local! {
    static CAPTURE: RefCell<CommandOutput>;
    static NOTICES: PrintNotice;
}

/// Runs `work`, whose notices go to `print`.
pub(crate) async fn with_notices<T>(
    print: impl Fn(&str) + Send + Sync + 'static,
    work: impl Future<Output = T>,
) -> T {
    NOTICES.scope(Box::new(print), work).await
}

pub(crate) async fn captured<T>(work: impl Future<Output = T>) -> (T, CommandOutput) {
    let work = async {
        let done = work.await;
        (done, CAPTURE.with(RefCell::take))
    };
    CAPTURE.scope(RefCell::default(), work).await
}

/// Returns false without an active capture.
pub(super) fn capture_printed(text: &str) -> bool {
    CAPTURE.try_with(|capture| capture.borrow_mut().printed.push_str(text)).is_ok()
}

/// Returns false without an active capture.
pub(super) fn capture_notice(text: &str) -> bool {
    CAPTURE.try_with(|capture| capture.borrow_mut().notices.push(text.to_owned())).is_ok()
        || NOTICES.try_with(|print| print(text)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Format, Output, print_notice};

    #[tokio::test]
    async fn what_is_said_meanwhile_is_taken_in_its_order() {
        let (done, output) = captured(async {
            print_notice("one");
            Output::new(Format::Table).print("a\n").unwrap();
            tokio::task::yield_now().await;
            Output::new(Format::Table).print("b\n").unwrap();
            print_notice("two");
            7
        })
        .await;
        assert_eq!((done, output.printed.as_str()), (7, "a\nb\n"));
        assert_eq!(output.notices, ["one", "two"]);
        assert!(!capture_notice("the capture has ended"));
    }

    #[tokio::test]
    async fn notices_go_to_the_printer_of_the_work() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let print = move |text: &str| sender.send(text.to_owned()).unwrap();
        with_notices(print, async { print_notice("one") }).await;
        assert_eq!(receiver.iter().collect::<Vec<_>>(), ["one"]);
    }
}

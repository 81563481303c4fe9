//! The trait of all handlers, and the map from handler types to handlers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all, ready};
use sched_model::domain::function::HandlerType;
use sched_runtime::exit::describe;
use sched_runtime::tasks::spawn_owned;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{ErrorClass, Execution, Report};

pub trait Handler: fmt::Debug + Send + Sync {
    /// Runs one attempt to its end. Every failure is a report.
    ///
    /// `cancel` stops the attempt softly, with its grace. Dropping the future kills the attempt at
    /// once.
    fn run<'a>(&'a self, execution: Execution, cancel: &'a CancellationToken) -> BoxFuture<'a, Report>;

    /// [`Handler::run`] runs the function in its own task and reports its panics. The worker runs
    /// all other handlers in a task, so that a panic fails the attempt only.
    fn owns_task(&self) -> bool {
        false
    }

    /// Removes leftovers of dropped attempts. The worker calls it every 2 s, within the runtime.
    fn clean_up(&self) {}

    /// Removes leftovers of killed workers of the same installation on this machine, several times
    /// per lease: before another worker repeats their runs.
    fn clean_up_dead_workers(&self) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }

    /// Waits until no attempt runs inside this process; returns `false` after `limit`. Programs do
    /// not count, because the kernel kills them.
    fn ended_within(&self, _limit: Duration) -> BoxFuture<'_, bool> {
        ready(true).boxed()
    }
}

#[derive(Debug, Clone, Default)]
pub struct Handlers(BTreeMap<HandlerType, Arc<dyn Handler>>);

impl Handlers {
    /// Replaces one of the same type.
    #[must_use]
    pub fn with(mut self, handler_type: HandlerType, handler: impl Into<Arc<dyn Handler>>) -> Self {
        self.0.insert(handler_type, handler.into());
        self
    }

    pub fn clean_up(&self) {
        self.0.values().for_each(|handler| handler.clean_up());
    }

    pub async fn clean_up_dead_workers(&self) {
        join_all(self.0.values().map(|handler| handler.clean_up_dead_workers())).await;
    }

    /// All at the same time.
    pub async fn ended_within(&self, limit: Duration) -> bool {
        let ended = join_all(self.0.values().map(|handler| handler.ended_within(limit))).await;
        ended.into_iter().all(|has_ended| has_ended)
    }

    /// Contains a panic of the handler in a task.
    ///
    /// `cancel` stops the attempt softly. Dropping the future kills it.
    pub async fn run(
        &self,
        handler_type: HandlerType,
        execution: Execution,
        cancel: CancellationToken,
    ) -> Report {
        let Some(handler) = self.0.get(&handler_type).cloned() else {
            let message = format!("this worker has no handler for functions of type {handler_type}");
            return Report::failed(ErrorClass::UnsupportedHandler, &message);
        };
        if handler.owns_task() {
            return handler.run(execution, &cancel).await;
        }
        let running = async move { handler.run(execution, &cancel).await }.in_current_span();
        spawn_owned("handler", running).await.unwrap_or_else(|error| {
            Report::failed(ErrorClass::Worker, &format!("the handler failed: {}", describe(&error)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::execution;

    #[derive(Debug)]
    struct Panics;

    impl Handler for Panics {
        fn run<'a>(&'a self, _: Execution, _: &'a CancellationToken) -> BoxFuture<'a, Report> {
            async { panic!("a defect of the handler") }.boxed()
        }
    }

    #[tokio::test]
    async fn panic_of_a_handler_fails_its_attempt_only() {
        let handlers = Handlers::default().with(HandlerType::Http, Arc::new(Panics) as Arc<dyn Handler>);
        let report = handlers.run(HandlerType::Http, execution(), CancellationToken::new()).await;
        assert_eq!(report.error_class, Some(ErrorClass::Worker));
        assert!(report.error_message.unwrap().starts_with("the handler failed: "));
    }

    #[tokio::test]
    async fn handler_type_without_handler_is_unsupported() {
        for handler_type in HandlerType::ALL {
            let report = Handlers::default().run(*handler_type, execution(), CancellationToken::new()).await;
            assert_eq!(report.error_class, Some(ErrorClass::UnsupportedHandler), "{handler_type}");
            let message = report.error_message.unwrap();
            assert!(message.contains(handler_type.as_str()), "{message}");
        }
    }
}

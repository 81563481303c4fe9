use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;

use super::*;

const SOON: Duration = Duration::from_secs(5);

async fn wait_for_token(token: CancellationToken) -> Result<(), BoxError> {
    token.cancelled().await;
    Ok(())
}

async fn unasked_end(task: impl Future<Output = Result<(), BoxError>> + Send + 'static) -> String {
    let mut group = TaskGroup::new();
    group.spawn("steady", wait_for_token(group.token()));
    group.spawn("odd", task);
    let error = group.run_until(&CancellationToken::new()).await.unwrap_err();
    crate::exit::describe(&error)
}

#[tokio::test]
async fn a_task_that_ends_unasked_ends_the_group_with_its_name() {
    assert_eq!(unasked_end(async { Ok(()) }).await, "task odd ended unexpectedly");
    assert_eq!(unasked_end(async { Err("no luck".into()) }).await, "task odd failed: no luck");
    assert_eq!(unasked_end(async { panic!("oh {}", "no") }).await, "task odd panicked: oh no");
}

#[tokio::test]
async fn a_group_that_is_asked_to_stop_stops_all_its_tasks() {
    let mut group = TaskGroup::new();
    let done = Arc::new(AtomicBool::new(false));
    let (token, flag) = (group.token(), done.clone());
    group.spawn("one", async move {
        token.cancelled().await;
        flag.store(true, Ordering::SeqCst);
        Ok(())
    });
    let stop = CancellationToken::new();
    stop.cancel();
    group.run_until(&stop).await.unwrap();
    assert!(!done.load(Ordering::SeqCst));
    group.stop(SOON).await.unwrap();
    assert!(done.load(Ordering::SeqCst));
}

#[tokio::test]
async fn failures_while_stopping_are_all_told() {
    let mut group = TaskGroup::new();
    let token = group.token();
    group.spawn("sour", async move {
        token.cancelled().await;
        Err("too late".into())
    });
    group.spawn("well", wait_for_token(group.token()));
    group.spawn("bad", {
        let token = group.token();
        async move {
            token.cancelled().await;
            panic!("no")
        }
    });
    let error = group.stop(SOON).await.unwrap_err();
    let mut texts: Vec<_> = error.failures.iter().map(|error| crate::exit::describe(error)).collect();
    texts.sort();
    assert_eq!(texts, ["task bad panicked: no", "task sour failed: too late"]);
    assert!(texts.iter().all(|text| error.to_string().contains(text)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ignores_the_token_is_aborted_at_the_deadline_and_named() {
    let mut group = TaskGroup::new();
    group.spawn("deaf", std::future::pending());
    let error = group.stop(SOON).await.unwrap_err();
    assert!(matches!(error.failures.as_slice(), [TaskError::Aborted { name }] if name == "deaf"), "{error}");
}

#[tokio::test]
async fn groups_stop_one_after_the_other() {
    let (mut first, mut second) = (TaskGroup::new(), TaskGroup::new());
    let second_stopping = second.token();
    let token = first.token();
    first.spawn("work", async move {
        token.cancelled().await;
        tokio::task::yield_now().await;
        if second_stopping.is_cancelled() { Err("stopped too early".into()) } else { Ok(()) }
    });
    second.spawn("guard", wait_for_token(second.token()));
    stop_in_order([first, second], SOON).await.unwrap();
}

#[tokio::test]
async fn an_owned_task_gives_its_value_or_its_panic() {
    assert_eq!(spawn_owned("sum", async { 40 + 2 }).await.unwrap(), 42);
    let error = spawn_owned("bad", async { panic!("no") }).await.unwrap_err();
    assert_eq!(error.to_string(), "task bad panicked: no");
}

#[tokio::test]
async fn dropping_the_handle_ends_the_task() {
    let (sender, receiver) = oneshot::channel::<()>();
    let task = spawn_owned("child", async move {
        std::future::pending::<()>().await;
        drop(sender);
    });
    drop(task);
    assert!(receiver.await.is_err());
}

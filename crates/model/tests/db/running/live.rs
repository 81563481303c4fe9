//! Live output: fenced, bounded, isolated, and deleted after the end.

use sched_model::dispatching::dispatches;
use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::ids::{ClaimToken, TenantId, execution_id};
use sched_model::domain::run_state::DispatchStatus;
use sched_model::retention::retain;
use sched_model::running::claims::Claimed;
use sched_model::running::live_output::{self, LiveUpdate, Piece};
use test_support::fixture::{Fixture, TENANT, ended};
use uuid::Uuid;

fn update(claimed: &Claimed, first: i64, texts: &[&str]) -> LiveUpdate {
    let mut starts_at = 0;
    let piece = |(seq, text): (i64, &&str)| {
        let piece = Piece { seq, stream: "stdout", starts_at, content: (*text).to_owned() };
        starts_at += i64::try_from(text.len()).unwrap();
        piece
    };
    LiveUpdate {
        dispatch_id: claimed.dispatch_id,
        token: claimed.token,
        pieces: (first..).zip(texts).map(piece).collect(),
        keep_from: 0,
        progress: None,
    }
}

async fn write(world: &Fixture, told: &[LiveUpdate]) -> Vec<ClaimToken> {
    live_output::write(&mut world.conn().await, told).await.unwrap()
}

const ROWS: &str = "SELECT (SELECT count(*) FROM live_output) + (SELECT count(*) FROM live_progress)";

#[tokio::test(flavor = "multi_thread")]
async fn live_output_is_visible_during_the_attempt() {
    let world = Fixture::new().await;
    let claimed = world.running("talks").await;
    let mut first = update(&claimed, 1, &["one\n", "two\n"]);
    first.progress = Some((Some(12.5), "reading".into()));
    assert_eq!(write(&world, std::slice::from_ref(&first)).await, [claimed.token]);
    assert_eq!(write(&world, &[first]).await, [claimed.token], "the answer may have been lost");

    let mut conn = world.conn().await;
    let watched = live_output::followed_run(&mut conn, TENANT, claimed.dispatch_id).await.unwrap().unwrap();
    let execution = execution_id(claimed.claimed_at, claimed.dispatch_id, claimed.token);
    assert_eq!(
        (watched.status, watched.running),
        (DispatchStatus::InProgress, Some((execution, claimed.token)))
    );
    let progress = watched.progress.unwrap();
    assert_eq!((progress.percent, progress.message.as_str()), (Some(12.5), "reading"));
    let claim = (claimed.dispatch_id, claimed.token);
    let all = live_output::pieces(&mut conn, TENANT, claim, 0).await.unwrap();
    assert_eq!(all.iter().map(|piece| piece.content.as_str()).collect::<Vec<_>>(), ["one\n", "two\n"]);
    let rest = live_output::pieces(&mut conn, TENANT, claim, 1).await.unwrap();
    assert_eq!((rest.len(), rest[0].starts_at), (1, 4));
    let shown = dispatches::by_id(&mut conn, TENANT, claimed.dispatch_id).await.unwrap().unwrap();
    assert_eq!(shown.progress, Some(progress));

    let stranger = TenantId(Uuid::from_u128(99));
    assert!(live_output::followed_run(&mut conn, stranger, claimed.dispatch_id).await.unwrap().is_none());
    assert!(live_output::pieces(&mut conn, stranger, claim, 0).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_claim_writes_no_live_output() {
    let world = Fixture::new().await;
    let (kept, lost) = (world.running("kept").await, world.running("lost").await);
    let mut forged = update(&lost, 1, &["x"]);
    forged.token = ClaimToken(lost.token.0 + 1000);
    forged.progress = Some((None, "x".into()));
    assert_eq!(write(&world, &[forged, update(&kept, 1, &["y"])]).await, [kept.token]);
    assert_eq!(world.number(ROWS).await, 1);
    assert_eq!(world.end(&[ended(&kept, AttemptOutcome::Completed).build()], &[]).await.len(), 1);
    assert!(write(&world, &[update(&kept, 2, &["late"])]).await.is_empty());
    assert_eq!(world.number(ROWS).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_latest_pieces_are_kept() {
    let world = Fixture::new().await;
    let claimed = world.running("talks").await;
    write(&world, &[update(&claimed, 1, &["a", "b", "c"])]).await;
    write(&world, &[LiveUpdate { keep_from: 3, ..update(&claimed, 4, &["d"]) }]).await;
    assert_eq!(world.rows("SELECT content FROM live_output ORDER BY seq").await, [["c"], ["d"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn live_output_is_deleted_after_the_end() {
    let world = Fixture::new().await;
    let (over, runs) = (world.running("over").await, world.running("runs").await);
    let progress = Some((None, "busy".to_owned()));
    for claimed in [&over, &runs] {
        write(&world, &[LiveUpdate { progress: progress.clone(), ..update(claimed, 1, &["x"]) }]).await;
    }
    let both = [(over.dispatch_id, over.token), (runs.dispatch_id, runs.token)];
    assert!(live_output::forget(&mut world.conn().await, &both).await.unwrap().is_empty());
    world.end(&[ended(&over, AttemptOutcome::Completed).build()], &[]).await;
    assert_eq!(live_output::forget(&mut world.conn().await, &both).await.unwrap(), [over.token]);
    assert_eq!(world.number(ROWS).await, 2);
    world.finish(&runs, AttemptOutcome::Failed).await;
    assert_eq!(
        retain::live(&mut world.conn().await, 10).await.unwrap(),
        1,
        "its worker did not report the end"
    );
    assert_eq!(world.number(ROWS).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_attempts_are_listed_from_any_attempt() {
    let world = Fixture::new().await;
    let claimed = world.running("tries").await;
    let mut failed = ended(&claimed, AttemptOutcome::Failed).build();
    failed.record.execution_id = execution_id(claimed.claimed_at, claimed.dispatch_id, claimed.token);
    let id = failed.record.execution_id;
    world.end(&[failed], &[]).await;
    let mut conn = world.conn().await;
    let watched = live_output::followed_run(&mut conn, TENANT, claimed.dispatch_id).await.unwrap().unwrap();
    assert_eq!((watched.status, watched.running), (DispatchStatus::Pending, None));
    for (from, expected) in
        [(None, 1), (Some(id), 1), (Some(sched_model::domain::ids::ExecutionId(Uuid::max())), 0)]
    {
        let found = live_output::finished(&mut conn, TENANT, &watched, from).await.unwrap();
        assert_eq!(found.len(), expected, "{from:?}");
        assert!(found.iter().all(|one| one.id == id && one.status == AttemptOutcome::Failed));
    }
}

//! Notifications arrive, and a listener that lost its connection reports it.

use std::sync::Mutex;

use diesel::QueryableByName;
use diesel::sql_types::Text;
use diesel_async::SimpleAsyncConnection as _;
use sched_model::Conn;
use sched_model::connection::notify::{self, DISPATCH_CHANNEL, Hint, JOBS_CHANNEL, LEADER_CHANNEL};
use test_support::fixture::{Fixture, PATIENCE, settings};
use test_support::wait_for;

async fn while_listening(world: &Fixture, act: impl AsyncFnOnce(&Mutex<Vec<Hint>>)) {
    let heard = Mutex::new(Vec::new());
    let channels = [DISPATCH_CHANNEL, JOBS_CHANNEL, LEADER_CHANNEL];
    tokio::select! {
        () = notify::listen(&world.database, &channels, |hint| heard.lock().unwrap().push(hint)) => {
            panic!("listening ended");
        }
        () = async {
            wait_for_hint(&heard, &Hint::Reconnected).await;
            act(&heard).await;
        } => {}
    }
}

async fn wait_for_hint(heard: &Mutex<Vec<Hint>>, wanted: &Hint) {
    wait_for("a hint", PATIENCE, async || {
        let mut heard = heard.lock().unwrap();
        match heard.iter().position(|hint| hint == wanted) {
            Some(position) => {
                heard.drain(..=position);
                Ok(())
            }
            None => Err(format!("heard {heard:?}, not {wanted:?}")),
        }
    })
    .await;
}

fn notified(channel: &str, payload: &str) -> Hint {
    Hint::Notified { channel: channel.into(), payload: payload.into() }
}

async fn durability(conn: &mut Conn) -> String {
    use diesel_async::RunQueryDsl as _;

    #[derive(QueryableByName)]
    struct Setting {
        #[diesel(sql_type = Text)]
        synchronous_commit: String,
    }
    let shown: Setting = diesel::sql_query("SHOW synchronous_commit").get_result(conn).await.unwrap();
    shown.synchronous_commit
}

#[tokio::test(flavor = "multi_thread")]
async fn notification_does_not_wait_for_the_disk() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    conn.batch_execute("SET synchronous_commit = on; BEGIN").await.unwrap();
    notify::dispatches_waiting(&mut conn, &["one".into(), "two".into()]).await.unwrap();
    assert_eq!(durability(&mut conn).await, "off");
    conn.batch_execute("COMMIT").await.unwrap();
    assert_eq!(durability(&mut conn).await, "on", "of that transaction alone");
    conn.batch_execute("BEGIN; UPDATE queues SET description = 'written'").await.unwrap();
    notify::dispatches_waiting(&mut conn, &["one".into()]).await.unwrap();
    assert_eq!(durability(&mut conn).await, "on");
    conn.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_arrive() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    while_listening(&world, async |heard| {
        notify::dispatches_waiting(&mut conn, &["one".into(), "two".into()]).await.unwrap();
        wait_for_hint(heard, &notified(DISPATCH_CHANNEL, "one")).await;
        wait_for_hint(heard, &notified(DISPATCH_CHANNEL, "two")).await;
        notify::dispatches_wait_again(&mut conn).await.unwrap();
        wait_for_hint(heard, &notified(DISPATCH_CHANNEL, "")).await;
        notify::leader_resigned(&mut conn).await.unwrap();
        wait_for_hint(heard, &notified(LEADER_CHANNEL, "")).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn job_changes_notify_and_cursor_moves_do_not() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    while_listening(&world, async |heard| {
        world.job("hourly").save().await;
        wait_for_hint(heard, &notified(JOBS_CHANNEL, "")).await;
        let mut changed = settings("hourly");
        changed.description = "changed".into();
        world.save(&changed).await;
        wait_for_hint(heard, &notified(JOBS_CHANNEL, "")).await;

        world
            .sql("UPDATE scheduled_jobs SET next_run_at = now(), total_run_count = 1, active_dispatches = 1")
            .await;
        // Hints arrive in commit order, so an overtaken hint was never sent.
        notify::leader_resigned(&mut conn).await.unwrap();
        let first = wait_for("a hint", PATIENCE, async || {
            heard.lock().unwrap().first().cloned().ok_or_else(|| "nothing heard".to_owned())
        })
        .await;
        assert_eq!(first, notified(LEADER_CHANNEL, ""));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_listener_reconnects_and_reports_it() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    while_listening(&world, async |heard| {
        let listening = "datname = current_database() AND query LIKE 'LISTEN%'";
        let kill = format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {listening}");
        assert_eq!(world.number(&kill).await, 1);
        wait_for_hint(heard, &Hint::Reconnected).await;
        notify::dispatches_waiting(&mut conn, &["one".into()]).await.unwrap();
        wait_for_hint(heard, &notified(DISPATCH_CHANNEL, "one")).await;
    })
    .await;
}

//! The lower bound of the start time on this machine: a notification to another connection, which
//! then commits one change.
//!
//! No code of sched takes part: bare connections and one prepared update. The system is idle before
//! each repetition, so the receiver is asleep.

use std::future::poll_fn;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::sql::Db;

/// Milliseconds from a notification to the answer of the commit that follows it.
pub(super) async fn measure(db: &Db, count: usize, apart: Duration) -> anyhow::Result<Vec<f64>> {
    db.run("CREATE TABLE bench.floor (n bigint NOT NULL); INSERT INTO bench.floor VALUES (0)").await?;
    let (sender, mut notifications) = mpsc::unbounded_channel();
    let (listener, sender, writer) =
        (connect(db, Some(sender)).await?, connect(db, None).await?, connect(db, None).await?);
    listener.batch_execute("LISTEN bench_floor").await?;
    let change = writer.prepare("UPDATE bench.floor SET n = n + 1").await?;
    let notify = sender.prepare("NOTIFY bench_floor").await?;
    let mut waits = Vec::new();
    for position in 0..=count {
        tokio::time::sleep(apart).await;
        let begun = sched_runtime::monotonic_clock::monotonic();
        sender.execute(&notify, &[]).await?;
        notifications.recv().await.context("the listening connection has ended")?;
        writer.execute(&change, &[]).await?;
        // Position 0 is a warm-up.
        if position > 0 {
            waits.push(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
    db.run("DROP TABLE bench.floor").await?;
    Ok(waits)
}

async fn connect(db: &Db, sender: Option<mpsc::UnboundedSender<()>>) -> anyhow::Result<Client> {
    let (client, mut connection) = tokio_postgres::connect(db.url(), NoTls).await?;
    #[expect(
        clippy::disallowed_methods,
        reason = "ends with its client; a failure shows in the client's next call"
    )]
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let (AsyncMessage::Notification(_), Some(sender)) = (message, &sender)
                && sender.send(()).is_err()
            {
                return;
            }
        }
    });
    Ok(client)
}

#![expect(clippy::unwrap_used, reason = "clippy does not see that everything in this file is test code")]

use std::time::Duration;

use test_support::{Client, Proxy, TestDatabase};
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

/// Longer than a query takes on a slow machine.
const WHILE: Duration = Duration::from_millis(300);

async fn connect(proxy: &Proxy, driving: &mut JoinSet<()>) -> Client {
    let (client, connection) = tokio_postgres::connect(proxy.url(), NoTls).await.unwrap();
    // The client's next call returns the errors of the connection.
    driving.spawn(async move { drop(connection.await) });
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_comes_later_and_what_is_cut_never() {
    let (db, mut driving) = (TestDatabase::new().await, JoinSet::new());
    let proxy = Proxy::before(db.url()).await;
    let client = connect(&proxy, &mut driving).await;
    assert_eq!(client.query_one("SELECT 1", &[]).await.unwrap().get::<_, i32>(0), 1);

    proxy.hold();
    {
        let query = client.query_one("SELECT 2", &[]);
        tokio::pin!(query);
        assert!(tokio::time::timeout(WHILE, &mut query).await.is_err(), "nothing should pass");
        proxy.clear();
        assert_eq!(query.await.unwrap().get::<_, i32>(0), 2);
    }
    proxy.delay_requests(WHILE);
    let early = tokio::time::timeout(WHILE / 2, client.query_one("SELECT 3", &[])).await;
    assert!(early.is_err(), "the answer came before its request could");
    proxy.clear();

    proxy.cut();
    assert!(client.query_one("SELECT 4", &[]).await.is_err());
    let again = connect(&proxy, &mut driving).await;
    assert_eq!(again.query_one("SELECT 5", &[]).await.unwrap().get::<_, i32>(0), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_cut_before_and_after_what_is_said() {
    let (db, mut driving) = (TestDatabase::new().await, JoinSet::new());
    let direct = db.client().await;
    direct.batch_execute("CREATE TABLE said (word text)").await.unwrap();
    let proxy = Proxy::cutting_around(db.url(), "INSERT", 1).await;
    for (word, is_done) in [("before", 0), ("after", 1)] {
        let client = connect(&proxy, &mut driving).await;
        client.batch_execute("SELECT 'passes'").await.unwrap();
        let said = client.batch_execute(&format!("INSERT INTO said VALUES ('{word}')")).await;
        assert!(said.is_err(), "{word}: an answer arrived");
        let done = format!("SELECT count(*) FROM said WHERE word = '{word}'");
        test_support::wait_for(word, Duration::from_secs(30), async || {
            match direct.query_one(&done, &[]).await.unwrap().get::<_, i64>(0) {
                count if count == is_done => Ok(()),
                count => Err(format!("{count}")),
            }
        })
        .await;
    }
    assert_eq!(proxy.cut_so_far(), 2);
}

use test_support::TestDatabase;

async fn exists(db: &TestDatabase, name: &str) -> bool {
    let found = db.client().await.query_opt("SELECT FROM pg_database WHERE datname = $1", &[&name]).await;
    found.is_ok_and(|row| row.is_some())
}

#[tokio::test]
async fn two_databases_have_the_schema_and_nothing_else_in_common() {
    let (one, two) = tokio::join!(TestDatabase::new(), TestDatabase::new());
    assert_ne!(one.name(), two.name());
    let (client, other) = (one.client().await, two.client().await);
    let before: i64 = other.query_one("SELECT count(*) FROM tenants", &[]).await.unwrap().get(0);
    assert!(before > 0, "the schema comes with its seed rows");
    client.batch_execute("DELETE FROM tenants").await.unwrap();
    let after: i64 = other.query_one("SELECT count(*) FROM tenants", &[]).await.unwrap().get(0);
    assert_eq!(before, after);
}

#[tokio::test]
async fn an_empty_database_has_no_tables() {
    let db = TestDatabase::empty().await;
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(db.client().await.query_one(tables, &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test]
async fn the_daemons_own_way_reaches_the_database() {
    let db = TestDatabase::new().await;
    let mut conn = db.database().conn().await.unwrap();
    sched_model::connection::migrations::check(&mut conn).await.unwrap();
}

#[tokio::test]
async fn a_database_is_dropped_with_its_handle_although_someone_is_connected() {
    let witness = TestDatabase::empty().await;
    let db = TestDatabase::empty().await;
    let name = db.name().to_owned();
    let _connected = db.client().await;
    assert!(exists(&witness, &name).await);
    drop(db);
    assert!(!exists(&witness, &name).await);
}

#[tokio::test]
async fn a_database_is_dropped_when_its_test_panics() {
    let witness = TestDatabase::empty().await;
    let (send, name) = tokio::sync::oneshot::channel();
    let test = async move {
        let db = TestDatabase::empty().await;
        send.send(db.name().to_owned()).unwrap();
        panic!("as a failing test does");
    };
    #[expect(clippy::disallowed_methods, reason = "the panic must end another task than this test")]
    let ended = tokio::spawn(test).await;
    assert!(ended.is_err_and(|error| error.is_panic()));
    assert!(!exists(&witness, &name.await.unwrap()).await);
}

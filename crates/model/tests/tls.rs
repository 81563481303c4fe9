//! TLS to the database: only if the URL requires it, with a trusted issuer's certificate.

#![expect(clippy::unwrap_used, reason = "a test that cannot get what it needs fails, and says where")]

use std::time::Duration;

use devdb::{Cluster, OpenOptions};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use sched_model::{Database, DatabaseSettings, DbError, connection::database_clock};
use test_support::wait_for;

async fn server() -> (Cluster, String, String) {
    let cluster = tokio::task::spawn_blocking(|| {
        Cluster::open(OpenOptions { loopback_port: Some(0), ..OpenOptions::throw_away(std::env::temp_dir()) })
            .unwrap()
    })
    .await
    .unwrap();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    // The server's own files belong to its user.
    let sql = format!(
        "COPY (SELECT unnest(string_to_array('{key}', E'\n'))) TO PROGRAM 'umask 077; cat > server.key';
         COPY (SELECT unnest(string_to_array('{cert}', E'\n'))) TO PROGRAM 'cat > server.crt'",
        key = signing_key.serialize_pem().trim_end(),
        cert = cert.pem().trim_end(),
    );
    plain_sql(&cluster, &sql).await;
    for sql in ["ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()"] {
        plain_sql(&cluster, sql).await;
    }
    let url = cluster.loopback_url("postgres").unwrap().unwrap();
    (cluster, url, cert.pem())
}

async fn plain_sql(cluster: &Cluster, sql: &str) {
    let (client, connection) =
        tokio_postgres::connect(&cluster.url("postgres"), tokio_postgres::NoTls).await.unwrap();
    let talking = async { drop(connection.await) };
    let asking = async { client.batch_execute(sql).await.map(|()| drop(client)) };
    let (asked, ()) = tokio::join!(asking, talking);
    asked.unwrap();
}

fn settings(url: &str, mode: &str) -> DatabaseSettings {
    let separator = if url.contains('?') { '&' } else { '?' };
    DatabaseSettings {
        connect_timeout: Duration::from_secs(20),
        ..DatabaseSettings::new(format!("{url}{separator}sslmode={mode}"), "tls test")
    }
}

async fn connect(settings: &DatabaseSettings) -> Result<(), DbError> {
    let database = Database::new(settings).unwrap();
    let conn = database.conn().await?;
    database_clock::now(&conn).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_requires_a_trusted_certificate() {
    let (cluster, url, certificate) = server().await;
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, certificate).unwrap();

    for mode in ["require", "verify-full", "verify-ca"] {
        let trusted = DatabaseSettings { ca_file: Some(ca_file.clone()), ..settings(&url, mode) };
        wait_for("a TLS connection", Duration::from_secs(30), async || {
            connect(&trusted).await.map_err(|error| error.with_causes())
        })
        .await;
        let error = connect(&settings(&url, mode)).await.unwrap_err();
        assert!(
            error.is_outage() && error.with_causes().contains("certificate"),
            "{mode}: {}",
            error.with_causes()
        );
    }

    connect(&settings(&url, "disable")).await.unwrap();
    drop(cluster);
}

#[test]
fn certificate_file_without_certificate_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "nothing").unwrap();
    for path in [empty, folder.path().join("missing.pem")] {
        let settings = DatabaseSettings {
            ca_file: Some(path.clone()),
            ..DatabaseSettings::new("postgresql://h/d", "test")
        };
        let error = Database::new(&settings).unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}

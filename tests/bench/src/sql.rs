//! Plain SQL on one database, to prepare and to read measurements.
//!
//! It is independent of the code under test. Instants are microseconds since 1970 by the database
//! clock ([`Micros`]); they are never compared with a clock of this process.

use std::time::Duration;

use anyhow::{Context, ensure};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage, Statement};

pub(crate) type Micros = i64;

pub(crate) const SECOND: Micros = 1_000_000;

pub(crate) struct Db {
    client: Client,
    url: String,
}

impl Db {
    pub(crate) async fn connect(url: &str) -> anyhow::Result<Self> {
        let (client, connection) =
            tokio_postgres::connect(url, NoTls).await.context("failed to connect to the database")?;
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with its client; a failure shows in the client's next call"
        )]
        tokio::spawn(connection);
        Ok(Self { client, url: url.to_owned() })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) async fn run(&self, statements: &str) -> anyhow::Result<()> {
        self.client
            .batch_execute(statements)
            .await
            .with_context(|| format!("failed to run: {}", beginning(statements)))
    }

    pub(crate) async fn install_key(&self) -> anyhow::Result<()> {
        test_support::identity::install(&self.client).await;
        Ok(())
    }

    pub(crate) async fn prepare(&self, statement: &str) -> anyhow::Result<Prepared<'_>> {
        let prepared = self.client.prepare(statement).await;
        let statement = prepared.with_context(|| format!("failed to prepare: {}", beginning(statement)))?;
        Ok(Prepared { client: &self.client, statement })
    }

    /// The rows of a query as text; NULL is empty.
    pub(crate) async fn rows(&self, query: &str) -> anyhow::Result<Vec<Vec<String>>> {
        let messages = self
            .client
            .simple_query(query)
            .await
            .with_context(|| format!("failed to query: {}", beginning(query)))?;
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|column| row.get(column).unwrap_or_default().to_owned()).collect())
            }
            _ => None,
        };
        Ok(messages.into_iter().filter_map(row).collect())
    }

    pub(crate) async fn text(&self, query: &str) -> anyhow::Result<String> {
        let rows = self.rows(query).await?;
        rows.into_iter()
            .next()
            .and_then(|row| row.into_iter().next())
            .with_context(|| format!("no row from: {}", beginning(query)))
    }

    pub(crate) async fn number(&self, query: &str) -> anyhow::Result<f64> {
        let text = self.text(query).await?;
        text.parse().with_context(|| format!("{text:?} is not a number, from: {}", beginning(query)))
    }

    pub(crate) async fn numbers(&self, query: &str) -> anyhow::Result<Vec<f64>> {
        let rows = self.rows(query).await?;
        let parsed: Result<Vec<f64>, _> =
            rows.iter().filter_map(|row| row.first()).map(|text| text.parse()).collect();
        parsed.with_context(|| format!("not all numbers, from: {}", beginning(query)))
    }

    pub(crate) async fn count(&self, query: &str) -> anyhow::Result<i64> {
        let text = self.text(query).await?;
        text.parse().with_context(|| format!("{text:?} is not a whole number, from: {}", beginning(query)))
    }

    pub(crate) async fn now(&self) -> anyhow::Result<Micros> {
        self.count(&format!("SELECT {}", micros("clock_timestamp()"))).await
    }

    pub(crate) async fn wait_until(&self, instant: Micros) -> anyhow::Result<()> {
        let left = instant - self.now().await?;
        // A past instant needs no wait.
        tokio::time::sleep(Duration::from_micros(u64::try_from(left).unwrap_or(0))).await;
        Ok(())
    }

    pub(crate) async fn wait_count(&self, query: &str, least: i64, polling: Polling) -> anyhow::Result<()> {
        let Polling { step, limit } = polling;
        let mut seen = 0;
        let found = tokio::time::timeout(limit, async {
            loop {
                seen = self.count(query).await?;
                if seen >= least {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(step).await;
            }
        });
        match found.await {
            Ok(found) => found,
            Err(_elapsed) => {
                ensure!(seen >= least, "{seen} of {least} after {limit:?}: {}", beginning(query));
                Ok(())
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Polling {
    pub(crate) step: Duration,
    pub(crate) limit: Duration,
}

pub(crate) struct Prepared<'a> {
    client: &'a Client,
    statement: Statement,
}

impl Prepared<'_> {
    pub(crate) async fn rows(&self, parameter: &str) -> anyhow::Result<usize> {
        Ok(self.client.query(&self.statement, &[&parameter]).await?.len())
    }
}

pub(crate) fn instant(at: Micros) -> String {
    format!("(timestamptz 'epoch' + {at} * interval '1 microsecond')")
}

pub(crate) fn micros(expression: &str) -> String {
    format!("(extract(epoch FROM {expression}) * 1000000)::bigint")
}

pub(crate) fn fill(statement: &str, values: &[(&str, &str)]) -> String {
    values
        .iter()
        .fold(statement.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

fn beginning(statement: &str) -> String {
    statement.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(160).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_placeholder_is_filled_and_other_braces_stay() {
        let filled = fill("SELECT {a}, {b}, {a}, '{\"k\": 1}'", &[("a", "1"), ("b", "'x'")]);
        assert_eq!(filled, "SELECT 1, 'x', 1, '{\"k\": 1}'");
    }
}

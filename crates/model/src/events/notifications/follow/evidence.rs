//! The members of a message that its event does not have: the last output of the failed attempt and
//! the URL of the run.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::Match;
use crate::running::executions;
use crate::{Conn, DbResult};
use sched_domain::ids::{ExecutionId, TenantId};
use sched_domain::notification::{MessageKind, run_url};

pub(super) struct Evidence<'a> {
    tails: HashMap<ExecutionId, String>,
    public_url: Option<&'a str>,
}

impl<'a> Evidence<'a> {
    /// Reads the output of the failed attempts, if there are any.
    pub(super) async fn read(
        conn: &mut Conn,
        matches: impl Iterator<Item = &Match>,
        public_url: Option<&'a str>,
    ) -> DbResult<Self> {
        let is_failure =
            |found: &&Match| matches!(found.kind, MessageKind::Failure | MessageKind::DeadLetter);
        let mut attempts: Vec<(TenantId, ExecutionId)> = matches
            .filter(is_failure)
            .filter_map(|found| Some((found.tenant, attempt_of(found.body.as_object()?)?)))
            .collect();
        // Several rules may match one event.
        attempts.sort_unstable();
        attempts.dedup();
        let tails = match attempts.as_slice() {
            [] => HashMap::new(),
            attempts => executions::output_tails(conn, attempts).await?,
        };
        Ok(Self { tails, public_url })
    }

    pub(super) fn add(&self, fields: &mut Map<String, Value>) {
        let tail = attempt_of(fields).and_then(|attempt| self.tails.get(&attempt));
        let run = fields.get("run_id").and_then(Value::as_str);
        let url = self.public_url.zip(run).map(|(url, run)| run_url(url, run));
        for (name, value) in [("output_tail", tail.cloned()), ("url", url)] {
            if let Some(value) = value {
                fields.insert(name.to_owned(), value.into());
            }
        }
    }
}

fn attempt_of(fields: &Map<String, Value>) -> Option<ExecutionId> {
    Some(ExecutionId(fields.get("attempt_id")?.as_str()?.parse().ok()?))
}

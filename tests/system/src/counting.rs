//! Checks that ends of attempts were counted in time, whichever process died in between.
//!
//! A leader counts, and workers count beside it. So a delay is excused only if the database or
//! every scheduler had a fault, as for fire times ([`lateness`]).

use test_support::Client;

use crate::lateness::{self, Outage};
use crate::verdict::Verdict;

/// Seconds between two polls of an idle leader.
const IDLE_POLL: f64 = 5.0;

const LATE: &str = "
    SELECT batch_id, extract(epoch FROM created_at)::double precision, extract(epoch FROM at)::double precision
    FROM witness.counts WHERE at > created_at + $1::double precision * interval '1 second'";

/// Times are seconds since the epoch.
#[derive(Debug, Clone, Copy)]
struct CountedBatch {
    id: i64,
    ended: f64,
    counted: f64,
}

pub(crate) async fn in_time(sql: &Client, outages: &[Outage], schedulers: &[String]) -> Verdict {
    let count = sql.query_one("SELECT count(*) FROM witness.counts", &[]).await;
    let count: i64 = count.expect("the counts can be read").get(0);
    let rows = sql.query(LATE, &[&(IDLE_POLL + lateness::STRETCH)]).await.expect("the counts can be read");
    let late: Vec<CountedBatch> = rows
        .iter()
        .map(|row| CountedBatch { id: row.get(0), ended: row.get(1), counted: row.get(2) })
        .collect();
    let (rows, excused) = without_excuse(&late, outages, schedulers);
    let rule = "5: ends are counted in time (20 s), if the database and a scheduler had no fault for so long";
    Verdict::new(rule, usize::try_from(count).unwrap_or(0), rows).with_excused(excused)
}

/// The batches that no fault excuses, and the number of excused ones.
fn without_excuse(late: &[CountedBatch], outages: &[Outage], schedulers: &[String]) -> (Vec<String>, usize) {
    let is_excused = |batch: &&CountedBatch| {
        lateness::is_excused(batch.ended + IDLE_POLL, batch.counted, outages, schedulers)
    };
    let (excused, broken): (Vec<&CountedBatch>, Vec<&CountedBatch>) = late.iter().partition(is_excused);
    let rows = broken.iter().map(|batch| {
        format!("batch {}, counted {:.1} s after its end", batch.id, batch.counted - batch.ended)
    });
    (rows.collect(), excused.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lateness::Fault;

    #[test]
    fn late_count_needs_an_excuse() {
        let schedulers = ["scheduler-0".to_owned()];
        let found = |counted: f64, outages: &[Outage]| {
            let late = [CountedBatch { id: 1, ended: 100.0, counted }];
            let (rows, excused) = without_excuse(&late, outages, &schedulers);
            (rows.len(), excused)
        };
        assert_eq!(found(121.0, &[]), (1, 0));
        let outage = |kind, target| Outage::of(Fault { kind, target, began: 110.0, ended: 112.0 }, "");
        let of_leader = [outage("kill", "scheduler-0").unwrap()];
        assert_eq!(found(121.0, &of_leader), (0, 1));
        assert_eq!(found(130.0, &of_leader), (1, 0), "the scheduler ran for eighteen seconds");
        for (kind, target) in [("kill-uncounted", "worker-0"), ("count", "counters"), ("revoke", "worker-0")]
        {
            assert!(outage(kind, target).is_none(), "{kind} excuses no delay");
        }
    }
}

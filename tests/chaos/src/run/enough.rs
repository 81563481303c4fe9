//! Checks that a run had enough faults for its length: a history without faults proves nothing.
//! Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use system_tests::Verdict;

use crate::plan::{Fault, Intensity};
use crate::timeline::{EXIT, LEFT_OUT, RENEW, START};

/// A run of at least this length has its full number of faults of every kind.
const LONG: Duration = Duration::from_secs(300);
/// A kind planned only once may have met a daemon or server that was down.
const OFTEN: usize = 2;
/// With fewer responses, a kind of request may have met only faults or occasions with nothing to
/// do.
const ANSWERED: usize = 5;
/// Texts in the timeline for faults that are impossible on this machine.
const IMPOSSIBLE: [&str; 2] = ["is not allowed here", "is not installed here"];

#[derive(Debug, Clone, Copy)]
pub(crate) struct RunPlan<'a> {
    pub(crate) planned: &'a [Fault],
    pub(crate) length: Duration,
    pub(crate) intensity: Intensity,
    pub(crate) has_other_build: bool,
}

/// Minimum faults a minute, in a long run and in a short one, which begins and ends without faults.
const fn least_per_minute(intensity: Intensity) -> (f64, f64) {
    match intensity {
        Intensity::Low => (7.0, 5.0),
        Intensity::Normal => (20.0, 15.0),
        Intensity::High => (40.0, 30.0),
    }
}

/// Compares the timeline with the plan, and requests with their responses.
pub(crate) fn verdicts(run_plan: &RunPlan<'_>, timeline: &[Value], answers: &[Value]) -> Vec<Verdict> {
    let mut took = BTreeMap::<&str, usize>::new();
    for kind in timeline.iter().filter_map(|line| line["kind"].as_str()) {
        if ![LEFT_OUT, EXIT, RENEW, START].contains(&kind) {
            *took.entry(kind).or_default() += 1;
        }
    }
    let total: usize = took.values().sum();
    let is_long = run_plan.length >= LONG;
    let (long, short) = least_per_minute(run_plan.intensity);
    let least = if is_long { long } else { short } * run_plan.length.as_secs_f64() / 60.0;
    let too_few = ((total as f64) < least)
        .then(|| format!("{total} of {} planned, where {least:.0} are the least", run_plan.planned.len()));
    let mut verdicts = vec![
        Verdict::new(
            "faults: as many took place as the length asks for",
            total,
            too_few.into_iter().collect(),
        ),
        of_each_request(answers),
    ];
    if is_long {
        verdicts.push(of_each_kind(run_plan, timeline, &took));
    }
    verdicts
}

/// A kind of request with enough responses must be accepted at least once: a request that is always
/// rejected tests nothing.
fn of_each_request(answers: &[Value]) -> Verdict {
    let mut kinds = BTreeMap::<String, (usize, usize)>::new();
    for answer in answers.iter().filter(|answer| answer["action"] != "roles") {
        let Some(status) = answer["status"].as_u64() else { continue };
        let how = if ["change", "switch"].iter().any(|kind| answer["action"] == *kind) {
            answer["state"].as_str().unwrap_or_default()
        } else {
            ""
        };
        let kind = format!("{} {how}", answer["action"].as_str().unwrap_or_default());
        let (answered, accepted) = kinds.entry(kind.trim_end().to_owned()).or_default();
        *answered += 1;
        *accepted += usize::from((200..300).contains(&status));
    }
    kinds.retain(|_, (answered, _)| *answered >= ANSWERED);
    let refused = kinds.iter().filter(|(_, (_, accepted))| *accepted == 0);
    let rows = refused.map(|(kind, (answered, _))| format!("{kind}: refused {answered} times")).collect();
    Verdict::new("clients: each kind of request that was answered was accepted at times", kinds.len(), rows)
}

fn of_each_kind(run_plan: &RunPlan<'_>, timeline: &[Value], took: &BTreeMap<&str, usize>) -> Verdict {
    let mut planned = BTreeMap::<&str, usize>::new();
    for fault in run_plan.planned {
        *planned.entry(fault.kind.name(run_plan.has_other_build)).or_default() += 1;
    }
    planned.retain(|_, count| *count >= OFTEN);
    let is_impossible = |kind: &str| {
        timeline.iter().filter(|line| line["kind"] == LEFT_OUT).any(|line| {
            let why = line["detail"].as_str().unwrap_or_default();
            why.strip_prefix(kind).is_some_and(|why| why.starts_with(": "))
                && IMPOSSIBLE.iter().any(|end| why.ends_with(end))
        })
    };
    let missing: Vec<_> = planned.iter().filter(|(kind, _)| !took.contains_key(*kind)).collect();
    let (impossible, missing): (Vec<_>, Vec<_>) =
        missing.into_iter().partition(|(kind, _)| is_impossible(kind));
    let rows = missing.iter().map(|(kind, count)| format!("{kind}: none of {count} that were planned"));
    let rule = "faults: each kind that was planned more than once took place";
    Verdict::new(rule, planned.len(), rows.collect()).with_excused(impossible.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::{self, FaultKind};

    fn results(minutes: u64, timeline: &[Value]) -> Vec<(bool, i64)> {
        let length = Duration::from_secs(minutes * 60);
        let planned = plan::draw::faults(1, length, Intensity::Normal);
        let run_plan =
            RunPlan { planned: &planned, length, intensity: Intensity::Normal, has_other_build: false };
        let answers = vec![json!({"action": "trigger", "status": 202}); ANSWERED];
        let verdicts = verdicts(&run_plan, timeline, &answers);
        let of_faults = verdicts.iter().filter(|verdict| verdict.invariant.starts_with("faults"));
        of_faults.map(|verdict| (verdict.holds(), verdict.excused)).collect()
    }

    fn all_of(minutes: u64, but: &str) -> Vec<Value> {
        let planned = plan::draw::faults(1, Duration::from_secs(minutes * 60), Intensity::Normal);
        let words = planned.iter().map(|fault| fault.kind.name(false)).filter(|word| *word != but);
        words.map(|word| json!({"kind": word, "detail": ""})).collect()
    }

    #[test]
    fn run_without_the_planned_faults_fails() {
        assert_eq!(results(2, &all_of(2, "")), [(true, 0)]);
        assert_eq!(results(2, &[]), [(false, 0)]);
        let few: Vec<Value> = all_of(2, "").into_iter().take(29).collect();
        assert_eq!(results(2, &few), [(false, 0)]);
        let mut none = few;
        none.extend([LEFT_OUT, EXIT, RENEW, START].map(|kind| json!({"kind": kind, "detail": ""})));
        assert_eq!(results(2, &none), [(false, 0)], "these lines are not faults");
    }

    #[test]
    fn long_run_has_every_possible_kind_of_fault() {
        assert_eq!(results(10, &all_of(10, "")), [(true, 0), (true, 0)]);
        assert_eq!(results(10, &all_of(10, "drain")), [(true, 0), (false, 0)]);
        let mut left_out = all_of(10, "clock");
        left_out.push(json!({"kind": LEFT_OUT, "detail": "clock: libfaketime is not installed here"}));
        assert_eq!(results(10, &left_out), [(true, 0), (true, 1)]);
        left_out.push(json!({"kind": LEFT_OUT, "detail": "drain: no API does it"}));
        left_out.retain(|line| line["kind"] != "drain");
        assert_eq!(results(10, &left_out), [(true, 0), (false, 1)], "this reason does not excuse");
    }

    #[test]
    fn request_that_always_fails_is_reported() {
        let answer = |action: &str, state: &str, status: u16| json!({"action": action, "state": state, "status": status});
        let paused = vec![answer("change", "pause", 200); ANSWERED];
        assert!(of_each_request(&paused).holds());
        let mut resumed = paused.clone();
        resumed.extend(vec![answer("change", "resume", 400); ANSWERED]);
        let verdict = of_each_request(&resumed);
        assert_eq!((verdict.checked, verdict.rows), (2, vec!["change resume: refused 5 times".to_owned()]));
        resumed.push(answer("change", "resume", 200));
        assert!(of_each_request(&resumed).holds());
        let mut seldom = paused;
        seldom.extend(vec![answer("step-down", "", 503); ANSWERED - 1]);
        assert!(of_each_request(&seldom).holds());
        assert!(!of_each_request(&[]).holds(), "there were no requests");
    }

    #[test]
    fn every_plan_of_ten_minutes_has_enough_faults() {
        for (intensity, least) in [(Intensity::Low, 70), (Intensity::Normal, 200), (Intensity::High, 400)] {
            for seed in 0..20 {
                let planned = plan::draw::faults(seed, Duration::from_secs(600), intensity);
                assert!(planned.len() > least, "{} of seed {seed}", planned.len());
                assert!(planned.iter().any(|fault| matches!(fault.kind, FaultKind::Freeze(..))));
            }
        }
    }
}

//! Checks that daemons exited in order when a run stopped them during the faults.
//!
//! A failed stop is excused by a fault of that daemon or of the database that was not over well
//! before the stop. It is also excused if the process had just started and cannot handle the signal
//! yet. Pure.

use serde_json::Value;

use crate::verdict::Verdict;

/// Seconds after a fault in which a wait for a broken connection, or a busy machine, may delay a
/// stop.
const AFTERMATH: f64 = 5.0;

/// Seconds from the start of a process until it handles SIGTERM. Before that, the signal kills it.
const DEAF: f64 = 2.0;

const ENDS: [&str; 2] = ["term", "renew"];
/// Lines that excuse nothing: no fault took place, it had no victim, or each daemon has a separate
/// line.
const HARMLESS: [&str; 7] =
    ["left-out", "start", "exit", "snapshot", "clock", "rolling-same-build", "rolling-other-build"];

/// Checks the daemons that were stopped; `pooled` reach the database through the pooler.
pub(crate) fn ended_on_request(faults: &[Value], pooled: &[String]) -> Verdict {
    let told: Vec<&Value> = faults.iter().filter(|fault| is_one_of(fault, &ENDS)).collect();
    let (mut rows, mut excused) = (Vec::new(), 0);
    for end in told.iter().filter(|end| end["status"] != 0) {
        if faults.iter().any(|fault| excuses(fault, end, pooled) || is_start_of(fault, end)) {
            excused += 1;
        } else {
            rows.push(format!("{} at {}: {}", end["target"], end["began"], end["detail"]));
        }
    }
    let rule = "stop: every daemon that was stopped during the faults exited with status 0";
    Verdict::new(rule, told.len(), rows).with_excused(excused)
}

fn is_one_of(fault: &Value, kinds: &[&str]) -> bool {
    fault["kind"].as_str().is_some_and(|kind| kinds.contains(&kind))
}

/// Whether the signal killed a process shortly after this start.
fn is_start_of(line: &Value, end: &Value) -> bool {
    let was_killed = end["detail"].as_str().is_some_and(|detail| detail.starts_with("signal: 15 "));
    let is_same = line["kind"] == "start" && line["process"] == end["process"];
    was_killed && is_same && instant(line, "began") + DEAF >= instant(end, "began")
}

fn instant(line: &Value, name: &str) -> f64 {
    line[name].as_f64().unwrap_or(f64::NAN)
}

fn excuses(fault: &Value, end: &Value, pooled: &[String]) -> bool {
    // A daemon gets one order after the other, so another stop excuses nothing.
    if is_one_of(fault, &HARMLESS) || is_one_of(fault, &ENDS) {
        return false;
    }
    let target = fault["target"].as_str().unwrap_or_default();
    let strikes = match target {
        "postgres" | "database" => true,
        "pgbouncer" => pooled.iter().any(|name| end["target"] == **name),
        target => end["target"] == *target,
    };
    strikes
        && instant(fault, "began") <= instant(end, "ended")
        && instant(fault, "ended") + AFTERMATH >= instant(end, "began")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decided(status: Value, fault: Option<(&str, &str, f64, f64)>) -> (usize, i64, i64) {
        let mut lines = vec![
            json!({"kind": "term", "target": "worker-0", "began": 100.0, "ended": 104.0, "detail": "", "status": status}),
            json!({"kind": "kill", "target": "worker-0", "began": 200.0, "ended": 201.0, "detail": ""}),
        ];
        lines.extend(fault.map(|(kind, target, began, ended)| {
            json!({"kind": kind, "target": target, "began": began, "ended": ended, "detail": "", "status": 0})
        }));
        let verdict = ended_on_request(&lines, &["worker-5".to_owned()]);
        (usize::try_from(verdict.checked).unwrap(), verdict.excused, verdict.violations)
    }

    #[test]
    fn only_a_fault_during_a_stop_or_shortly_before_it_excuses_a_failure() {
        assert_eq!(decided(json!(0), None), (1, 0, 0));
        assert_eq!(decided(json!(1), None), (1, 0, 1));
        assert_eq!(decided(Value::Null, None), (1, 0, 1), "the daemon was killed");
        for (kind, target) in [("hold", "worker-0"), ("crash", "postgres"), ("fail-over", "database")] {
            assert_eq!(
                decided(json!(1), Some((kind, target, 102.0, 109.0))),
                (1, 1, 0),
                "{kind} of {target}"
            );
        }
        assert_eq!(decided(json!(1), Some(("freeze", "worker-0", 90.0, 97.0))), (1, 1, 0), "a moment ago");
        assert_eq!(decided(json!(1), Some(("freeze", "worker-0", 80.0, 90.0))), (1, 0, 1), "long ago");
        assert_eq!(decided(json!(1), Some(("hold", "worker-0", 105.0, 109.0))), (1, 0, 1), "afterwards");
        for (kind, target) in
            [("hold", "worker-1"), ("pooler", "pgbouncer"), ("snapshot", "postgres"), ("start", "worker-0")]
        {
            assert_eq!(
                decided(json!(1), Some((kind, target, 102.0, 109.0))),
                (1, 0, 1),
                "{kind} of {target}"
            );
        }
    }

    #[test]
    fn stop_right_after_the_start_of_a_process_is_excused() {
        let decided = |started: f64, detail: &str| {
            let lines = [
                json!({"kind": "start", "target": "api-0", "process": 7, "began": started, "ended": started}),
                json!({"kind": "start", "target": "api-1", "process": 8, "began": 100.0, "ended": 100.0}),
                json!({"kind": "term", "target": "api-0", "process": 7, "began": 100.0, "ended": 101.0, "detail": detail, "status": null}),
            ];
            let verdict = ended_on_request(&lines, &[]);
            (verdict.excused, verdict.violations)
        };
        assert_eq!(decided(99.5, "signal: 15 (SIGTERM), 1s"), (1, 0));
        assert_eq!(
            decided(97.0, "signal: 15 (SIGTERM), 1s"),
            (0, 1),
            "the process had enough time to handle the signal"
        );
        assert_eq!(decided(99.5, "signal: 11 (SIGSEGV), 1s"), (0, 1), "another signal is not excused");
    }
}

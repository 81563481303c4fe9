//! The sentences of runs and skips.

use super::*;

fn sentence(dispatched: DispatchRecord) -> String {
    let evidence = Evidence { dispatches: vec![dispatched], ..evidence() };
    explained(&evidence, "12:00", "12:30").lines[0].sentence()
}

#[test]
fn waiting_run_lists_its_blockers_in_order() {
    let pending = DispatchRecord {
        status: DispatchStatus::Pending,
        claimed_at: None,
        completed_at: None,
        attempt: 0,
        attempts: Vec::new(),
        ..dispatch("12:00")
    };
    let begin = "waiting: dispatched 12ms after its time by host-a (term 3); waits in queue default since 2026-03-02T12:00:00.012Z";
    assert_eq!(sentence(pending.clone()), begin);
    let one = DispatchRecord { waits: vec![Wait::TenantPaused], ..pending.clone() };
    assert_eq!(sentence(one), format!("{begin}: the tenant is paused"));
    let queue = Wait::QueuePaused { queue: "default".into(), reason: None };
    let two = DispatchRecord { waits: vec![Wait::TenantPaused, queue], ..pending };
    assert_eq!(sentence(two), format!("{begin}: (1) the tenant is paused, (2) the queue default is paused"));
}

#[test]
fn recovered_attempt_is_reported() {
    let mut lost = dispatch("12:00");
    lost.attempt = 2;
    let second = lost.attempts[0].clone();
    lost.attempts[0].outcome = AttemptOutcome::Lost;
    lost.attempts[0].error = Some("its worker was given up".into());
    lost.attempts.push(Attempt { number: 2, ..second });
    let text = sentence(lost);
    assert!(text.contains("attempt 1 lost on host-b after 1.2s: its worker was given up"), "{text}");
    assert!(
        text.ends_with("attempt 2 succeeded on host-b after 1.2s; the lost attempt has been recovered"),
        "{text}"
    );
}

#[test]
fn cancelled_run_names_user_and_replacement() {
    let cancelled = DispatchRecord {
        status: DispatchStatus::Cancelled,
        attempts: Vec::new(),
        error: Some(
            "cancelled: a later fire of the job took its place (overlap policy cancel_oldest)".into(),
        ),
        cancel_requested_at: Some(at("12:10")),
        successor: Some(Successor { id: DispatchId(Uuid::from_u128(8)), scheduled_for: at("12:05") }),
        ..dispatch("12:00")
    };
    let why = "cancelled at 2026-03-02T12:10:00.000Z: a later fire of the job took its place (overlap policy cancel_oldest): \
               run 00000000-0000-0000-0000-000000000008 of 2026-03-02T12:05:00Z";
    assert!(sentence(cancelled.clone()).ends_with(why), "{}", sentence(cancelled));
    let running = DispatchRecord {
        status: DispatchStatus::InProgress,
        successor: None,
        error: Some("cancelled by ada".into()),
        ..cancelled.clone()
    };
    let text = sentence(running);
    assert!(text.ends_with("cancellation requested at 2026-03-02T12:10:00.000Z: cancelled by ada"), "{text}");
    let late =
        DispatchRecord { status: DispatchStatus::Completed, error: None, successor: None, ..cancelled };
    assert!(sentence(late).ends_with("cancellation requested at 2026-03-02T12:10:00.000Z, too late"));
}

#[test]
fn dependent_run_names_its_cause() {
    let cause = Cause { dispatch: DispatchId(Uuid::from_u128(9)), job: Some("load".into()) };
    let text = DispatchRecord { triggered_by: Trigger::Dependency, cause: Some(cause), ..dispatch("12:00") }
        .sentence();
    let because =
        "by host-a (term 3), because run 00000000-0000-0000-0000-000000000009 of job load had ended;";
    assert!(text.contains(because), "{text}");
}

#[test]
fn skip_names_conflicting_runs_and_leader() {
    let skipped = |skip: Skip| {
        let evidence = Evidence { skips: vec![skip], ..evidence() };
        explain(&evidence, at("10:00"), at("10:30")).unwrap().lines[0].sentence()
    };
    let open = |fire: &str, completed_at| BlockingDispatch {
        id: DispatchId(Uuid::from_u128(7)),
        scheduled_for: at(fire),
        completed_at,
    };
    let one = Skip {
        in_the_way: vec![open("08:00", Some(at("10:05"))), open("09:00", None)],
        ..skip("10:00", "10:00", 1, SkipReason::Overlap)
    };
    let told = skipped(one.clone());
    let id = DispatchId(Uuid::from_u128(7));
    let expected = format!(
        "overlap: max_instances runs of the job were open: run {id} of 2026-03-02T08:00:00Z, until \
         2026-03-02T10:05:00.000Z, run {id} of 2026-03-02T09:00:00Z, which still is; recorded at 2026-03-02T10:00:00.020Z"
    );
    assert_eq!(told, expected);
    let several = Skip { last: at("12:00"), count: 3, ..one };
    assert!(skipped(several).contains("of the job were open, when the first came: run "));

    let misfire = |next: &str, former_end| Skip {
        lead: Some(LeadershipGap { next_at: at(next), former_end, lease_expired_at: None }),
        ..skip("10:00", "10:00", 1, SkipReason::Misfire)
    };
    let silent = |expired: &str| Skip {
        lead: Some(LeadershipGap {
            next_at: at("10:20"),
            former_end: Some((at("10:20"), TermEnd::Resigned)),
            lease_expired_at: Some(at(expired)),
        }),
        ..skip("10:00", "10:00", 1, SkipReason::Misfire)
    };
    for (skip, told) in [
        (misfire("10:20", None), Some("no leader is known before 2026-03-02T10:20:00.000Z")),
        (
            misfire("10:20", Some((at("09:50"), TermEnd::Resigned))),
            Some("no scheduler led from 2026-03-02T09:50:00.000Z to 2026-03-02T10:20:00.000Z"),
        ),
        (
            misfire("10:20", Some((at("10:20"), TermEnd::Expired))),
            Some(
                "the leader of that time stopped renewing its lease, and was replaced at 2026-03-02T10:20:00.000Z",
            ),
        ),
        (
            misfire("10:20", Some((at("10:10"), TermEnd::SteppedDown))),
            Some(
                "the leader of that time stepped down at 2026-03-02T10:10:00.000Z, and the next began at 2026-03-02T10:20:00.000Z",
            ),
        ),
        (silent("09:50"), Some("no scheduler led from 2026-03-02T09:50:00.000Z to 2026-03-02T10:20:00.000Z")),
        (
            silent("10:01"),
            Some(
                "its lease expired at 2026-03-02T10:01:00.000Z, and no scheduler led until 2026-03-02T10:20:00.000Z",
            ),
        ),
        (skip("10:00", "10:00", 1, SkipReason::Misfire), None),
    ] {
        let said = skipped(skip);
        match told {
            Some(told) => assert!(said.contains(told), "{said}"),
            None => assert!(!said.contains("led from") && !said.contains("leader"), "{said}"),
        }
    }
}

#[test]
fn misfire_names_the_rule_that_dropped_it() {
    let sentence = |policy, grace: Option<i32>, seconds: i64| {
        let mut evidence = evidence();
        let settings = evidence.versions[0].settings.as_mut().unwrap();
        (settings.misfire_policy, settings.misfire_grace_seconds) = (policy, grace);
        let skip = skip("10:00", "10:00", 1, SkipReason::Misfire);
        evidence.skips = vec![Skip { recorded_at: skip.last + TimeDelta::seconds(seconds), ..skip }];
        explain(&evidence, at("10:00"), at("10:30")).unwrap().lines[0].sentence()
    };
    for (policy, grace, seconds, expected) in [
        (MisfireKind::Skip, None, 78, "decided 1m18s after its time, and misfire_policy skip catches up no"),
        (MisfireKind::Skip, Some(10), 11, "decided 11.0s after its time, and misfire_policy skip"),
        (MisfireKind::FireOnce, None, 300, "misfire_policy fire_once catches up the latest missed fire only"),
        (MisfireKind::FireAll, None, 300, "fire_all catches up the latest 100 missed fires (misfire_cap)"),
        (MisfireKind::Skip, None, 60, "more fires were due at once than max_instances (1) allows"),
    ] {
        let said = sentence(policy, grace, seconds);
        assert!(said.contains(expected), "{said}");
    }
}

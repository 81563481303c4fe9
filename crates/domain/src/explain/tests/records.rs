//! Records of skips and runs: removed by retention, without a schedule, and their sentences.

use super::*;

#[test]
fn records_removed_by_retention_are_not_missing() {
    let evidence = Evidence {
        ledger_starts_at: Some(at("10:00")),
        dispatches: vec![dispatch("11:00"), dispatch("12:00")],
        ..evidence()
    };
    let explanation = explained(&evidence, "09:00", "12:30");
    assert_eq!(
        shown(&explanation),
        ["09:00-10:00 2 pruned", "11:00-11:00 1 dispatched", "12:00-12:00 1 dispatched"]
    );
}

#[test]
fn pause_skip_names_user_and_reason() {
    let pause = Version {
        pause_reason: Some("disk is full".into()),
        paused_until: Some(at("14:00")),
        ..version(2, "paused", "09:30", hourly())
    };
    let evidence = Evidence {
        is_paused: true,
        paused_until: Some(at("14:00")),
        versions: vec![version(1, "created", "00:00", hourly()), pause],
        skips: vec![skip("10:00", "12:00", 3, SkipReason::PausedJob)],
        ..evidence()
    };
    let explanation = explained(&evidence, "11:00", "16:00");
    assert_eq!(
        shown(&explanation),
        ["11:00-12:00 2 skipped paused_job", "13:00-13:00 1 to_come", "14:00-15:00 2 to_come"]
    );
    assert_eq!(
        explanation.lines[0].sentence(),
        "paused_job: the job was paused, by ada since 2026-03-02T09:30:00.000Z until 2026-03-02T14:00:00.000Z: disk is full; \
         one of 3 from 2026-03-02T10:00:00Z to 2026-03-02T12:00:00Z; recorded at 2026-03-02T12:00:00.020Z"
    );
    assert!(explanation.lines[1].sentence().contains("will be paused"));
    assert_eq!(explanation.lines[2].sentence(), "to come");
}

#[test]
fn record_without_a_schedule_is_shown() {
    let evidence =
        Evidence { dispatches: vec![dispatch("11:00"), dispatch("11:20"), dispatch("12:00")], ..evidence() };
    let explanation = explained(&evidence, "11:00", "12:30");
    assert_eq!(explanation.lines[1].version, None);
    assert!(explanation.lines[1].sentence().contains("names no such fire time"));
    assert_eq!(explanation.summary.dispatched, 3);
}

#[test]
fn lost_and_failed_attempts_name_their_worker() {
    let fire = dispatch("11:00");
    let first = Attempt {
        outcome: AttemptOutcome::Lost,
        error: Some("its worker was given up\nafter 3s".into()),
        ..fire.attempts[0].clone()
    };
    let second = Attempt {
        number: 2,
        outcome: AttemptOutcome::Failed,
        exit_code: Some(3),
        ..fire.attempts[0].clone()
    };
    let lost = DispatchRecord {
        status: DispatchStatus::Pending,
        attempt: 2,
        is_catch_up: true,
        attempts: vec![first, second],
        ..fire
    };
    assert_eq!(
        lost.sentence(),
        "waiting: dispatched 12ms after its time, catching it up, by host-a (term 3); \
         attempt 1 lost on host-b after 1.2s: its worker was given up; attempt 2 failed on host-b after 1.2s, exit code 3; \
         waits in queue default since 2026-03-02T11:00:00.012Z"
    );
}

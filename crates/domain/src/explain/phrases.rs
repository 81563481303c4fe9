//! Fates in words: one sentence each.
//!
//! The fate has all the data of a sentence too. Pure.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use super::{
    Attempt, BlockingDispatch, DispatchRecord, Fate, LeadershipGap, MisfireRule, PauseInForce, Skip,
    TimelineEntry,
};
use crate::attempt::AttemptOutcome;
use crate::instance::TermEnd;
use crate::job::{MisfireKind, seconds};
use crate::run_state::DispatchStatus;
use sched_timetable::SkipReason;
use sched_timetable::misfire::DEFAULT_GRACE;

/// In seconds if it is whole.
pub(super) fn instant(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// In milliseconds.
pub(super) fn moment(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// With its significant digits.
fn length(time: TimeDelta) -> String {
    let milliseconds = time.num_milliseconds().max(0);
    let seconds = milliseconds / 1000;
    match milliseconds {
        ..1000 => format!("{milliseconds}ms"),
        1000..60_000 => format!("{seconds}.{}s", milliseconds % 1000 / 100),
        60_000..3_600_000 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

impl TimelineEntry {
    #[must_use]
    pub fn sentence(&self) -> String {
        let mut text = self.fate.sentence();
        if let Some(nominal) = self.moved_from {
            text.push_str(&format!("; moved here by a calendar from {}", instant(nominal)));
        }
        if self.version.is_none() && matches!(self.fate, Fate::Dispatched(_) | Fate::Skipped { .. }) {
            text.push_str(
                "; the schedule, as far as it is known now, names no such fire time (a calendar or zone may have changed since)",
            );
        }
        text
    }
}

impl Fate {
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Dispatched(_) => "dispatched",
            Self::Skipped { .. } | Self::Suppressed | Self::Excluded => "skipped",
            Self::Moved { .. } => "moved",
            Self::Upcoming { .. } => "to_come",
            Self::Undecided { .. } => "undecided",
            Self::NotCreated => "not_created",
            Self::Disabled { .. } => "disabled",
            Self::Ended => "ended",
            Self::Pruned => "pruned",
            Self::Unclear { .. } => "unclear",
            Self::TwoFates { .. } => "two_fates",
            Self::Unaccounted => "unaccounted",
        }
    }

    fn sentence(&self) -> String {
        match self {
            Self::Dispatched(dispatch) => dispatch.sentence(),
            Self::Skipped { skip, pause, misfire } => {
                let because = match misfire {
                    Some(rule) => rule.phrase(skip),
                    None => reason(skip.reason).to_owned(),
                };
                skipped(skip, &because, pause.as_ref())
            }
            Self::Suppressed => reason(SkipReason::DstSuppressed).to_owned(),
            Self::Excluded => format!(
                "{}: {}; to be recorded when the next fire comes",
                SkipReason::Calendar,
                reason(SkipReason::Calendar)
            ),
            Self::Moved { to } => format!("moved by a calendar to {}", instant(*to)),
            Self::Upcoming { is_paused: true, .. } => "to come; the job will be paused then".to_owned(),
            Self::Upcoming { is_excluded: true, .. } => "to be skipped: a calendar excludes it".to_owned(),
            Self::Upcoming { .. } => "to come".to_owned(),
            Self::Undecided { since, held_until: Some(until) } => format!(
                "due since {}; held back until {}, by the quota of the tenant or by an operator",
                instant(*since),
                moment(*until)
            ),
            Self::Undecided { since, held_until: None } => format!(
                "due since {}; no scheduler has decided about it yet: is one leading?",
                instant(*since)
            ),
            Self::NotCreated => "the job did not exist yet".to_owned(),
            Self::Disabled { since: Some(since), by: Some(by) } => {
                format!("no fire time: the job was disabled by {by} at {}", moment(*since))
            }
            Self::Disabled { since: Some(since), by: None } => {
                format!("no fire time: the scheduler disabled the job at {}", moment(*since))
            }
            Self::Disabled { since: None, .. } => {
                "no fire time: the job is disabled, and the time is not recorded".to_owned()
            }
            Self::Ended => "no fire time: the job had ended".to_owned(),
            Self::Pruned => "too long ago: its record may have been removed by retention".to_owned(),
            Self::Unclear { why } => format!("unknown: {why}"),
            Self::TwoFates { dispatch, skip } => format!(
                "TWO FATES: run {} and a skip for {} recorded at {}; this is a defect",
                dispatch.id,
                skip.reason,
                moment(skip.recorded_at)
            ),
            Self::Unaccounted => {
                "UNACCOUNTED: neither dispatched nor recorded as skipped; a record is missing".to_owned()
            }
        }
    }
}

fn skipped(skip: &Skip, because: &str, pause: Option<&PauseInForce>) -> String {
    let mut text = format!("{}: {because}", skip.reason);
    if let Some(pause) = pause {
        text.push_str(&format!(", by {} since {}", pause.by, moment(pause.since)));
        if let Some(until) = pause.until {
            text.push_str(&format!(" until {}", moment(until)));
        }
        if let Some(why) = &pause.reason {
            text.push_str(&format!(": {why}"));
        }
    }
    if !skip.in_the_way.is_empty() {
        let list = skip.in_the_way.iter().map(BlockingDispatch::phrase).collect::<Vec<_>>().join(", ");
        let when = if skip.count > 1 { ", when the first came" } else { "" };
        text.push_str(&format!("{when}: {list}"));
    }
    if let Some(lead) = &skip.lead {
        text.push_str(&format!("; {}", lead.phrase(skip.first)));
    }
    if let Some(detail) = &skip.detail {
        text.push_str(&format!("; {detail}"));
    }
    if skip.count > 1 {
        let at_least = if skip.is_count_exact { "" } else { "at least " };
        text.push_str(&format!(
            "; one of {at_least}{} from {} to {}",
            skip.count,
            instant(skip.first),
            instant(skip.last)
        ));
    }
    text.push_str(&format!("; recorded at {}", moment(skip.recorded_at)));
    text
}

const fn reason(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Misfire => {
            "it passed without a dispatch, and the settings of that time do not catch it up"
        }
        SkipReason::Overlap => "max_instances runs of the job were open",
        SkipReason::PausedJob => "the job was paused",
        SkipReason::PausedProject => "the project of the job was paused",
        SkipReason::PausedQueue => "the queue of the job was paused",
        SkipReason::PausedFunction => "the task function of the job was paused",
        SkipReason::PausedTenant => "the tenant was paused",
        SkipReason::Calendar => "a calendar excludes it",
        SkipReason::Quota => "the quota of the tenant was used up",
        SkipReason::DstSuppressed => "clocks skipped the time of the schedule, and dst_gap is skip",
        SkipReason::Disabled => "the job was disabled",
        SkipReason::Ended => "the job had ended",
    }
}

impl MisfireRule {
    fn phrase(&self, skip: &Skip) -> String {
        let late = skip.recorded_at - skip.last;
        let grace = self.grace_seconds.map_or(DEFAULT_GRACE, seconds);
        if late.to_std().unwrap_or_default() <= grace {
            let runs = self.max_instances;
            return format!("more fires were due at once than max_instances ({runs}) allows");
        }
        let what = if skip.count > 1 { "the last one" } else { "its time" };
        let rule = match self.policy {
            MisfireKind::Skip => "misfire_policy skip catches up no missed fire".to_owned(),
            MisfireKind::FireOnce => {
                "misfire_policy fire_once catches up the latest missed fire only".to_owned()
            }
            MisfireKind::FireAll => format!(
                "misfire_policy fire_all catches up the latest {} missed fires (misfire_cap), as far as max_instances \
                 ({}) allows",
                self.cap, self.max_instances
            ),
        };
        format!("decided {} after {what}, and {rule}", length(late))
    }
}

impl BlockingDispatch {
    fn phrase(&self) -> String {
        let until = self
            .completed_at
            .map_or_else(|| "which still is".to_owned(), |at| format!("until {}", moment(at)));
        format!("run {} of {}, {until}", self.id, instant(self.scheduled_for))
    }
}

impl LeadershipGap {
    fn phrase(&self, at: DateTime<Utc>) -> String {
        let next = moment(self.next_at);
        if let Some(expired) = self.lease_expired_at {
            let expired_at = moment(expired);
            return if expired <= at {
                format!("no scheduler led from {expired_at} to {next}")
            } else {
                format!(
                    "the leader of that time did not decide about it; its lease expired at {expired_at}, and no \
                     scheduler led until {next}"
                )
            };
        }
        match self.former_end {
            None => format!("no leader is known before {next}"),
            Some((ended, _)) if ended <= at => format!("no scheduler led from {} to {next}", moment(ended)),
            // Its lease had expired before; the exact time of its death is unknown.
            Some((ended, TermEnd::Expired)) => {
                format!(
                    "the leader of that time stopped renewing its lease, and was replaced at {}",
                    moment(ended)
                )
            }
            Some((ended, _)) => {
                format!(
                    "the leader of that time stepped down at {}, and the next began at {next}",
                    moment(ended)
                )
            }
        }
    }
}

impl DispatchRecord {
    #[must_use]
    pub fn sentence(&self) -> String {
        let mut parts = vec![format!("{}: {}", self.status.public_name(), self.origin())];
        parts.extend(self.waited());
        parts.extend(self.attempts.iter().map(Attempt::sentence));
        match self.status {
            DispatchStatus::Pending => parts.push(self.waits()),
            DispatchStatus::InProgress => {
                let worker = self.worker.as_deref().unwrap_or("a worker");
                let since = self.claimed_at.map_or_else(String::new, |at| format!(" since {}", moment(at)));
                parts.push(format!("attempt {} runs on {worker}{since}", self.attempt));
            }
            DispatchStatus::Completed
                if self.attempts.iter().any(|it| it.outcome == AttemptOutcome::Lost) =>
            {
                parts.push("the lost attempt has been recovered".to_owned());
            }
            // The sentence of the last attempt already contains the error.
            _ if self.attempts.is_empty() && self.cancel_requested_at.is_none() => {
                parts.extend(self.error.clone())
            }
            _ => {}
        }
        parts.extend(self.cancelled());
        parts.join("; ")
    }

    fn origin(&self) -> String {
        let Some(term) = self.term else {
            let user = self.triggered_by_user.as_deref().unwrap_or("an unknown user");
            return format!("triggered by {user} ({})", self.triggered_by);
        };
        let scheduler = self.scheduler.as_deref().unwrap_or("a scheduler");
        let catch_up = if self.is_catch_up { ", catching it up," } else { "" };
        let lateness = length(self.created_at - self.scheduled_for);
        let cause = self.cause.as_ref();
        let cause = cause.map_or_else(String::new, |cause| {
            let job = cause.job.as_ref().map_or_else(String::new, |job| format!(" of job {job}"));
            format!(", because run {}{job} had ended", cause.dispatch)
        });
        format!("dispatched {lateness} after its time{catch_up} by {scheduler} (term {}){cause}", term.0)
    }

    /// The wait for its first claim. After a retry, `available_at` is a later instant.
    fn waited(&self) -> Option<String> {
        let claimed =
            self.claimed_at.filter(|_| self.attempt <= 1 && self.status != DispatchStatus::Pending)?;
        let waited = length(claimed - self.available_at.max(self.created_at));
        Some(format!("waited {waited} in queue {}", self.queue))
    }

    fn waits(&self) -> String {
        let place =
            format!("waits in queue {} since {}", self.queue, moment(self.available_at.max(self.created_at)));
        match self.waits.as_slice() {
            [] if self.is_in_line => "is queued behind other runs of the job".to_owned(),
            [] => place,
            [one] => format!("{place}: {}", one.sentence()),
            several => {
                let numbered = several.iter().enumerate();
                let numbered = numbered.map(|(index, wait)| format!("({}) {}", index + 1, wait.sentence()));
                format!("{place}: {}", numbered.collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn cancelled(&self) -> Option<String> {
        let at = moment(self.cancel_requested_at?);
        let mut text = match self.status {
            DispatchStatus::Cancelled => format!("cancelled at {at}"),
            DispatchStatus::InProgress => format!("cancellation requested at {at}"),
            _ => return Some(format!("cancellation requested at {at}, too late")),
        };
        if let Some(why) = &self.error {
            text.push_str(&format!(": {}", why.strip_prefix("cancelled: ").unwrap_or(why)));
        }
        if let Some(successor) = &self.successor {
            text.push_str(&format!(": run {} of {}", successor.id, instant(successor.scheduled_for)));
        }
        Some(text)
    }
}

impl Attempt {
    fn sentence(&self) -> String {
        let worker = self.worker.as_deref().unwrap_or("a worker");
        let took = length(self.completed_at - self.started_at);
        let mut text =
            format!("attempt {} {} on {worker} after {took}", self.number, self.outcome.public_name());
        if let Some(code) = self.exit_code.filter(|code| *code != 0) {
            text.push_str(&format!(", exit code {code}"));
        }
        if let Some(error) = &self.error {
            // The attempt has the whole error.
            let first: String = error.lines().next().unwrap_or_default().chars().take(200).collect();
            text.push_str(&format!(": {first}"));
        }
        text
    }
}

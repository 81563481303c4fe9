//! `jobs explain`: why a job did, or did not, run. Fails with exit code 1 if a fire time has no
//! outcome or two.

use sched_runtime::exit;
use sched_wire::{ExplainQuery, ExplainSummary, ExplainedFires, ExplainedRun, Explanation};

use super::super::{Session, runs};
use crate::failure::CommandResult;
use crate::output::{Column, neutral, or_dash, print_notice, time};

const FIRES: &[Column<ExplainedFires>] = &[
    Column::new("FIRE TIME", fire_time),
    Column::new("COUNT", count),
    Column::new("FATE", |fires| fires.fate.clone()),
    Column::new("OUTCOME", |fires| or_dash(fires.outcome.as_deref())),
    Column::wide("VERSION", |fires| or_dash(fires.version)),
    Column::wide("RUN", |fires| or_dash(fires.run.as_ref().map(|run| run.id))),
    Column::new("WHAT HAPPENED", |fires| fires.text.clone()),
];

const TRIGGERS: &[Column<ExplainedRun>] = &[
    Column::new("TRIGGERED AT", |trigger| time(trigger.scheduled_for)),
    Column::new("BY", |trigger| trigger.triggered_by.clone()),
    Column::new("OUTCOME", |trigger| trigger.status.to_string()),
    Column::wide("RUN", |trigger| trigger.id.to_string()),
    Column::new("WHAT HAPPENED", |trigger| trigger.text.clone()),
];

pub(super) async fn run(name: &str, query: &ExplainQuery, session: &Session) -> CommandResult {
    let explanation: Explanation = session.api()?.get(&["jobs", name, "explain"], query).await?;
    if session.output.is_table() {
        let nearest = explanation.nearest.as_ref().map(|nearest| neutral::line(&nearest.text));
        let nothing = nearest.as_deref().unwrap_or("the job has no fire time in this window");
        session.output.list(&explanation.fires, FIRES, nothing)?;
        if !explanation.fires.is_empty()
            && let Some(nearest) = &nearest
        {
            session.output.print(&format!("\n{nearest}\n"))?;
        }
        if !explanation.triggers.is_empty() {
            session.output.print("\n")?;
            session.output.list(&explanation.triggers, TRIGGERS, "")?;
        }
        if !explanation.waits_for.is_empty() {
            session.output.print("\n")?;
            session.output.list(&explanation.waits_for, runs::WAITS_FOR, "")?;
        }
        let (from, to) = (time(explanation.from), time(explanation.to));
        let numbers = neutral::line(&explanation.summary.text);
        session.output.print(&format!("\n{from} to {to}, {numbers}\n"))?;
    } else {
        session.output.record(&explanation, &[])?;
    }
    if is_sound(&explanation.summary) {
        return Ok(exit::OK);
    }
    print_notice(
        "some fire times are unaccounted for: a record was lost, or this is a defect; `SELECT * FROM ledger_gaps` has details",
    );
    Ok(exit::FAILURE)
}

const fn is_sound(summary: &ExplainSummary) -> bool {
    summary.unaccounted == 0 && summary.two_fates == 0
}

fn fire_time(fires: &ExplainedFires) -> String {
    let first = time(fires.first_fire_at);
    if fires.first_fire_at == fires.last_fire_at {
        return first;
    }
    format!("{first} … {}", time(fires.last_fire_at))
}

fn count(fires: &ExplainedFires) -> String {
    match (fires.fire_count, fires.is_count_exact) {
        (0, _) => "-".to_owned(),
        (count, true) => count.to_string(),
        (count, false) => format!("{count}+"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fires(last: &str, fire_count: u64) -> ExplainedFires {
        ExplainedFires {
            first_fire_at: "2026-11-21T10:00:00Z".parse().unwrap(),
            last_fire_at: last.parse().unwrap(),
            fire_count,
            is_count_exact: fire_count < 10,
            fate: "skipped".into(),
            outcome: Some("overlap".into()),
            text: String::new(),
            version: Some(1),
            moved_from: None,
            moved_to: None,
            run: None,
            skip: None,
        }
    }

    #[test]
    fn a_range_shows_its_ends_and_its_count() {
        let one = fires("2026-11-21T10:00:00Z", 1);
        assert_eq!((fire_time(&one).as_str(), count(&one).as_str()), ("2026-11-21T10:00:00Z", "1"));
        let several = fires("2026-11-21T11:00:00Z", 250);
        assert_eq!(fire_time(&several), "2026-11-21T10:00:00Z … 2026-11-21T11:00:00Z");
        assert_eq!(
            (count(&several).as_str(), count(&fires("2026-11-21T11:00:00Z", 0)).as_str()),
            ("250+", "-")
        );
    }

    #[test]
    fn only_fire_times_with_one_fate_are_sound() {
        let sound = ExplainSummary { fire_times: 3, unclear: 1, ..ExplainSummary::default() };
        assert!(is_sound(&sound));
        assert!(!is_sound(&ExplainSummary { unaccounted: 1, ..sound.clone() }));
        assert!(!is_sound(&ExplainSummary { two_fates: 1, ..sound }));
    }
}

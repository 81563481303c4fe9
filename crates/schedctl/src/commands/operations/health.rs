//! `health` and `metrics`.

use std::collections::BTreeMap;

use sched_runtime::exit;
use sched_wire::{Health, HealthComponent, HealthState, Metrics, MetricsQuery};
use serde_json::Value;

use crate::commands::Session;
use crate::failure::CommandResult;
use crate::output::{Column, neutral, or_dash, print_notice, time};

const PARTS: &[Column<HealthComponent>] = &[
    Column::new("PART", |part| part.name.clone()),
    Column::new("STATUS", |part| part.status.to_string()),
    Column::new("DETAILS", details),
];

const METRICS: &[Column<Metrics>] = &[
    Column::new("Jobs", |metrics| by_status(&metrics.jobs)),
    Column::new("Runs", |metrics| {
        format!("{} waiting, {} running", metrics.runs_waiting, metrics.runs_running)
    }),
    Column::new("Runs since", |metrics| time(metrics.since)),
    Column::new("Runs", |metrics| by_status(&metrics.runs)),
    Column::new("Successful", |metrics| {
        or_dash(metrics.success_rate.map(|rate| format!("{:.2} %", rate * 100.0)))
    }),
    Column::new("Average duration", |metrics| {
        or_dash(metrics.average_duration_ms.map(|milliseconds| format!("{:.3} s", milliseconds / 1000.0)))
    }),
];

pub(crate) async fn run(session: &Session) -> CommandResult {
    let health: Health = session.api()?.health().await?;
    if session.output.is_table() {
        session.output.list(&health.components, PARTS, "")?;
    } else {
        session.output.record(&health, &[])?;
    }
    for part in &health.components {
        if let Some(reason) = &part.reason {
            print_notice(&format!("{}: {}", neutral::line(&part.name), neutral::line(reason)));
        }
    }
    Ok(match health.status {
        HealthState::Ok | HealthState::Degraded => exit::OK,
        HealthState::Unavailable => exit::FAILURE,
    })
}

pub(crate) async fn metrics(hours: Option<u32>, session: &Session) -> CommandResult {
    let metrics: Metrics = session.api()?.get(&["metrics"], &MetricsQuery { hours }).await?;
    session.output.record(&metrics, METRICS)?;
    Ok(exit::OK)
}

fn details(part: &HealthComponent) -> String {
    let shown = part.details.iter().filter_map(|(name, value)| match value {
        Value::Null => None,
        Value::String(text) => Some(format!("{name}={}", neutral::line(text))),
        Value::Number(number) if number.is_f64() => {
            Some(format!("{name}={:.3}", number.as_f64().unwrap_or_default()))
        }
        value => Some(format!("{name}={value}")),
    });
    or_dash(Some(shown.collect::<Vec<_>>().join(" ")).filter(|text| !text.is_empty()))
}

fn by_status(counts: &BTreeMap<String, i64>) -> String {
    let shown = counts.iter().map(|(status, count)| format!("{count} {}", neutral::line(status)));
    or_dash(Some(shown.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn details_are_one_line_without_what_is_not_known() {
        let part = HealthComponent {
            name: "leader".into(),
            status: HealthState::Ok,
            reason: None,
            details:
                json!({"lease_age_seconds": 0.123_456, "term": null, "schedulers": 2, "version": "a\nb"})
                    .as_object()
                    .cloned()
                    .unwrap(),
        };
        let line = details(&part);
        assert!(line.contains("lease_age_seconds=0.123 ") && line.contains("schedulers=2"), "{line}");
        assert!(!line.contains("term") && !line.contains('\n'), "{line}");
        assert_eq!(
            details(&HealthComponent { details: serde_json::Map::new(), ..part }),
            or_dash::<String>(None)
        );
    }
}

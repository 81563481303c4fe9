//! The words of the Rust enums equal those of the database.

use std::collections::BTreeMap;

use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::dependency::{AfterCondition, AfterMode};
use sched_model::domain::function::HandlerType;
use sched_model::domain::identity::Role;
use sched_model::domain::instance::{TermEnd, WorkerStatus};
use sched_model::domain::job::{MisfireKind, OverlapPolicy, Scope};
use sched_model::domain::notification::{ChannelKind, DeliveryStatus, MessageKind, Occasion};
use sched_model::domain::run_state::{DispatchStatus, Settlement, Trigger};
use sched_model::domain::timetable::{CalendarRoll, DstGap, DstOverlap, JobType, SkipReason};
use test_support::TestDatabase;
use test_support::fixture::rows;

struct Stored {
    name: &'static str,
    words: Vec<&'static str>,
    columns: &'static [&'static str],
}

macro_rules! stored {
    ($($name:ident in $columns:expr),+ $(,)?) => {
        vec![$(Stored {
            name: stringify!($name),
            words: $name::ALL.iter().map(|value| {
                assert_eq!(value.as_str().parse::<$name>().unwrap(), *value);
                value.as_str()
            }).collect(),
            columns: &$columns,
        }),+]
    };
}

fn stored() -> Vec<Stored> {
    stored! {
        AfterCondition in ["public.job_dependencies.condition"],
        AfterMode in ["public.scheduled_jobs.after_mode"],
        AttemptOutcome in [
            "public.job_execution_log.status",
            "maintenance.job_execution_log.status",
            "public.attempt_minutes.status",
        ],
        CalendarRoll in ["public.scheduled_jobs.calendar_roll"],
        ChannelKind in ["public.notification_channels.kind"],
        DeliveryStatus in ["public.notification_deliveries.status"],
        DispatchStatus in ["public.job_dispatch.status"],
        DstGap in ["public.scheduled_jobs.dst_gap"],
        DstOverlap in ["public.scheduled_jobs.dst_overlap"],
        HandlerType in ["public.task_functions.handler_type"],
        // `scheduled_jobs.job_type` is a foreign key to these rows.
        JobType in ["public.scheduler_job_types.name"],
        MessageKind in ["public.notification_deliveries.kind"],
        MisfireKind in ["public.scheduled_jobs.misfire_policy"],
        Occasion in ["public.notification_rules.kinds"],
        OverlapPolicy in ["public.scheduled_jobs.overlap_policy"],
        Role in ["public.memberships.role"],
        Scope in ["public.scheduled_jobs.scope"],
        Settlement in ["public.dead_letters.settled_as"],
        SkipReason in ["public.skipped_fires.reason"],
        TermEnd in ["public.leader_terms.end_reason"],
        Trigger in ["public.job_dispatch.triggered_by"],
        WorkerStatus in ["public.worker_registration.status"],
    }
}

/// Other columns with a word list, each with the reason.
const OTHERS: &[(&str, &str)] = &[
    ("maintenance.job_execution_output.stream", "written as text by the worker"),
    ("public.housekeeping.history_expiry", "written as text by db::housekeeping"),
    ("public.job_ends.status", "the final states that may meet a condition"),
    ("public.job_execution_output.stream", "written as text by the worker"),
    ("public.live_output.stream", "written as text by the worker"),
    ("public.scheduled_job_versions.change", "written as text by db::jobs"),
    ("public.scheduled_jobs.last_status", "the final states only"),
];

/// Word lists by column, sorted: every CHECK of the form `column IN (words)` or `column <@ words`,
/// and the words in the trigger that replaces the checks of jobs. Partitions inherit theirs.
async fn word_lists(db: &TestDatabase) -> BTreeMap<String, Vec<String>> {
    let query = r"
        SELECT n.nspname || '.' || c.relname || '.' || m.parts[1],
               (SELECT string_agg(w[1], ' ')
                FROM regexp_matches(m.parts[2], '''([^'']*)''::text', 'g') AS w)
        FROM pg_constraint x
        JOIN pg_class c ON c.oid = x.conrelid AND NOT c.relispartition
        JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname IN ('public', 'maintenance')
        CROSS JOIN LATERAL regexp_match(pg_get_constraintdef(x.oid),
                                        '^CHECK \(\((\w+) = ANY \(ARRAY\[(.+)\]\)\)\)$') AS m (parts)
        WHERE x.contype = 'c' AND m.parts IS NOT NULL
        UNION ALL
        SELECT n.nspname || '.' || c.relname || '.' || m.parts[1], translate(m.parts[2], ',', ' ')
        FROM pg_constraint x
        JOIN pg_class c ON c.oid = x.conrelid AND NOT c.relispartition
        JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname IN ('public', 'maintenance')
        CROSS JOIN LATERAL regexp_match(pg_get_constraintdef(x.oid), '\((\w+) <@ ''\{([a-z_,]+)\}''::text\[\]\)') AS m (parts)
        WHERE x.contype = 'c' AND m.parts IS NOT NULL
        UNION ALL
        SELECT n.nspname || '.' || c.relname || '.' || m.parts[1], replace(m.parts[2], ''', ''', ' ')
        FROM pg_trigger x
        JOIN pg_class c ON c.oid = x.tgrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_proc f ON f.oid = x.tgfoid
        CROSS JOIN LATERAL regexp_matches(f.prosrc, 'NEW\.(\w+) IN \(''([a-z_'', ]+)''\)', 'g') AS m (parts)
        WHERE x.tgname = 'scheduled_jobs_settings_checked'";
    let found = rows(&db.client().await, query).await;
    let lists: BTreeMap<String, Vec<String>> =
        found.into_iter().map(|row| (row[0].clone(), sorted(row[1].split(' ')))).collect();
    assert!(lists.len() >= 13, "the catalogue shows {lists:?} only");
    lists
}

fn sorted<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    words.sort();
    words
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_enums_match_their_columns() {
    let lists = word_lists(&TestDatabase::new().await).await;
    for Stored { name, words, columns } in stored() {
        assert!(!words.is_empty() && !columns.is_empty(), "{name}");
        for column in columns {
            let check = lists.get(*column).unwrap_or_else(|| panic!("{column} has no CHECK of words"));
            assert_eq!(&sorted(words.iter().copied()), check, "{name} and {column}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn word_list_columns_are_enums_or_listed() {
    let lists = word_lists(&TestDatabase::new().await).await;
    let enums = stored().into_iter().flat_map(|stored| stored.columns.iter().copied());
    let known = sorted(enums.chain(OTHERS.iter().map(|(column, _)| *column)));
    assert_eq!(lists.into_keys().collect::<Vec<_>>(), known);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_status_of_a_job_is_a_final_state() {
    let lists = word_lists(&TestDatabase::new().await).await;
    let is_open =
        |status: &DispatchStatus| matches!(status, DispatchStatus::Pending | DispatchStatus::InProgress);
    let is_final = DispatchStatus::ALL.iter().filter(|status| !is_open(status)).map(|status| status.as_str());
    assert_eq!(lists["public.scheduled_jobs.last_status"], sorted(is_final));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_schedule_has_its_row() {
    let db = TestDatabase::new().await;
    let found = rows(&db.client().await, "SELECT name FROM scheduler_job_types").await;
    let found = sorted(found.iter().map(|row| row[0].as_str()));
    assert_eq!(found, sorted(JobType::ALL.iter().map(|kind| kind.as_str())));
}

#[test]
fn every_enum_that_columns_rs_stores_is_compared_here() {
    let source = include_str!("../../../../vocabulary/src/columns.rs");
    let (_, list) = source.split_once("\nwords!(").unwrap();
    let (list, _) = list.split_once(");").unwrap();
    let declared = sorted(list.split(',').map(str::trim).filter(|name| !name.is_empty()));
    assert!(declared.len() > 5, "{declared:?}");
    assert_eq!(declared, sorted(stored().iter().map(|stored| stored.name)));
}

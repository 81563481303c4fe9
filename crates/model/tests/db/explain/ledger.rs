//! The occurrence ledger: its views show every gap.

use std::borrow::Cow;

use chrono::{DateTime, DurationRound as _, TimeDelta, Utc};
use sched_model::dispatching::insert::{NewDispatch, Origin};
use sched_model::dispatching::tick::{self, Batch, CursorMove, NewSkip};
use sched_model::domain::explain::{Evidence, explain};
use sched_model::domain::ids::DispatchId;
use sched_model::domain::instance::TermEnd;
use sched_model::domain::job::JobSettings;
use sched_model::domain::timetable::SkipReason;
use sched_model::explain::history::{self, EvidenceRequest};
use sched_model::{Conn, connection::database_clock, jobs, transact};
use serde_json::json;
use test_support::fixture::{Fixture, Leader, QUEUE, TENANT, settings};
use uuid::Uuid;

#[derive(Clone, Copy)]
pub(crate) enum Fate {
    Dispatched(i64),
    Skipped(i64, i64, SkipReason),
}

pub(crate) struct Books {
    pub(crate) world: Fixture,
    pub(crate) job: jobs::Job,
    leader: Leader,
    start: DateTime<Utc>,
}

impl Books {
    pub(crate) async fn new() -> Self {
        let world = Fixture::new().await;
        let conn = world.conn().await;
        let leader = world.lead().await;
        world.job("hourly").save().await;
        let now = database_clock::now(&conn).await.unwrap();
        let start = now.duration_trunc(TimeDelta::seconds(1)).unwrap() - TimeDelta::minutes(630);
        world
            .sql(&format!(
                "UPDATE scheduled_jobs SET created_at = '{start}', settled_until = '{start}';
                 UPDATE scheduled_job_versions SET changed_at = '{start}'"
            ))
            .await;
        let job = jobs::by_name(&conn, TENANT, "hourly").await.unwrap().unwrap();
        Self { world, job, leader, start }
    }

    pub(crate) fn at(&self, hour: i64) -> DateTime<Utc> {
        self.start + TimeDelta::hours(hour)
    }

    async fn stored(&self) -> jobs::Job {
        jobs::by_id(&self.world.conn().await, TENANT, self.job.id).await.unwrap().unwrap()
    }

    /// As the scheduler: each record names the previous one.
    pub(crate) async fn record(&self, fates: &[Fate]) {
        let state = self.stored().await.state;
        let (mut batch, mut follows, mut settled) = (Batch::default(), state.last_fire_at, None);
        for fate in fates {
            let (key, last) = match *fate {
                Fate::Dispatched(hour) => {
                    batch.dispatches.push(self.dispatch(hour, follows));
                    (self.at(hour), self.at(hour))
                }
                Fate::Skipped(first, last, reason) => {
                    batch.skips.push(NewSkip {
                        tenant_id: TENANT,
                        job_id: self.job.id,
                        first_fire_at: self.at(first),
                        last_fire_at: self.at(last),
                        fire_count: last - first + 1,
                        is_count_exact: true,
                        reason,
                        follows,
                    });
                    (self.at(first), self.at(last))
                }
            };
            (follows, settled) = (Some(key), Some(last));
        }
        batch.cursors.push(CursorMove {
            tenant_id: TENANT,
            job_id: self.job.id,
            from: state.next_run_at.unwrap(),
            to: state.next_run_at,
            disable: None,
            tzdata_version: None,
            settled_until: settled,
            last_fire_at: follows,
        });
        let Leader { instance, term } = self.leader;
        let mut conn = self.world.conn().await;
        transact(&mut conn, "test_tick", async |conn: &mut Conn| {
            tick::fence(conn, instance, term).await?;
            tick::write(conn, instance, term, &batch).await
        })
        .await
        .unwrap();
    }

    fn dispatch(&self, hour: i64, follows: Option<DateTime<Utc>>) -> NewDispatch<'static> {
        NewDispatch {
            id: DispatchId(Uuid::now_v7()),
            tenant_id: TENANT,
            job_id: self.job.id,
            scheduled_for: self.at(hour),
            available_at: self.at(hour),
            queue: QUEUE.into(),
            priority: 50,
            job_version: self.job.state.version,
            args: Some(Cow::Owned(json!({}))),
            is_catch_up: false,
            is_queued: false,
            origin: Origin::FIRE,
            expires_at: None,
            follows,
        }
    }

    pub(crate) async fn gaps(&self) -> Vec<String> {
        let query = format!(
            "SELECT kind, round(extract(epoch FROM at - '{}') / 3600)::integer FROM ledger_gaps ORDER BY 1, 2",
            self.start
        );
        self.world.rows(&query).await.into_iter().map(|row| row.join(" ")).collect()
    }

    pub(crate) async fn skips(&self) -> Vec<String> {
        let query = format!(
            "SELECT round(extract(epoch FROM first_fire_at - '{0}') / 3600)::integer,
                    round(extract(epoch FROM last_fire_at - '{0}') / 3600)::integer, fire_count, reason
             FROM skipped_fires ORDER BY first_fire_at",
            self.start
        );
        self.world.rows(&query).await.into_iter().map(|row| row.join(" ")).collect()
    }

    async fn explained(&self) -> String {
        explain(&self.evidence().await, self.at(0), self.at(10)).unwrap().summary.sentence()
    }

    async fn evidence(&self) -> Evidence {
        let mut conn = self.world.conn().await;
        let (job, now) = (self.stored().await, database_clock::now(&conn).await.unwrap());
        let request = EvidenceRequest { job: &job, now, from: self.at(0), to: self.at(10) };
        history::evidence(&mut conn, TENANT, request).await.unwrap()
    }
}

use Fate::{Dispatched, Skipped};

async fn sound() -> Books {
    let books = Books::new().await;
    books.record(&[Dispatched(1)]).await;
    books.record(&[Skipped(2, 3, SkipReason::Overlap), Dispatched(4)]).await;
    books.record(&[Skipped(5, 7, SkipReason::Misfire), Dispatched(8)]).await;
    books.record(&[Skipped(9, 9, SkipReason::Overlap)]).await;
    books.record(&[Dispatched(10)]).await;
    assert_eq!(books.gaps().await, [] as [&str; 0]);
    books
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_shows_every_decision_once() {
    let books = sound().await;
    let shown = "SELECT fate, outcome, fire_count, dispatch_id IS NOT NULL, term, job_name FROM occurrence_ledger ORDER BY first_fire_at";
    let term = books.leader.term.0.to_string();
    let row = |fate: &str, outcome: &str, count: &str, has_dispatch: &str| {
        [fate, outcome, count, has_dispatch, &term, "hourly"].map(str::to_owned).to_vec()
    };
    assert_eq!(
        books.world.rows(shown).await,
        [
            row("dispatched", "PENDING", "1", "t"),
            row("skipped", "overlap", "2", "f"),
            row("dispatched", "PENDING", "1", "t"),
            row("skipped", "misfire", "3", "f"),
            row("dispatched", "PENDING", "1", "t"),
            row("skipped", "overlap", "1", "f"),
            row("dispatched", "PENDING", "1", "t"),
        ]
    );
    assert_eq!(
        books.explained().await,
        "9 fire times: 3 dispatched, 6 skipped (3 misfire, 3 overlap), 0 unaccounted"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_names_blockers_and_leaders() {
    let books = sound().await;
    let world = &books.world;
    // The run of the fourth hour ended before the ninth was decided; those of the first and the
    // eighth did not.
    world
        .sql(&format!(
            "UPDATE job_dispatch SET status = 'CANCELLED', claimable_at = NULL, completed_at = created_at + interval '1 microsecond'
             WHERE scheduled_for = '{}'",
            books.at(4)
        ))
        .await;
    let evidence = books.evidence().await;
    let of = |hour| evidence.skips.iter().find(|skip| skip.first == books.at(hour)).unwrap();
    let in_the_way = |hour| of(hour).in_the_way.iter().map(|open| open.scheduled_for).collect::<Vec<_>>();
    assert_eq!(in_the_way(2), [books.at(1)], "what was made in the same tick was not in the way");
    assert_eq!(in_the_way(9), [books.at(1), books.at(8)]);
    assert!(in_the_way(5).is_empty(), "misfires have no blocking run");
    let lead = of(5).lead.as_ref().unwrap();
    assert!(lead.next_at > of(5).last && lead.former_end.is_none(), "{lead:?}");
    assert_eq!(of(2).lead, None);

    let ended = books.at(3);
    world
        .sql(&format!(
            "INSERT INTO leader_terms (term, instance_id, hostname, pid, started_at, ended_at, end_reason)
             VALUES (0, gen_random_uuid(), 'before', 1, '{}', '{ended}', 'resigned')",
            books.at(0)
        ))
        .await;
    let evidence = books.evidence().await;
    let skip = evidence.skips.iter().find(|skip| skip.first == books.at(5)).unwrap();
    assert_eq!(skip.lead.as_ref().unwrap().former_end, Some((ended, TermEnd::Resigned)));
    assert_eq!(skip.lead.as_ref().unwrap().lease_expired_at, None);

    // Its leader was silent for two hours before it gave up the term.
    let expired = books.at(1);
    world.sql(&format!("UPDATE leader_terms SET lease_expired_at = '{expired}' WHERE term = 0")).await;
    let evidence = books.evidence().await;
    let skip = evidence.skips.iter().find(|skip| skip.first == books.at(5)).unwrap();
    assert_eq!(skip.lead.as_ref().unwrap().lease_expired_at, Some(expired));
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_gaps_find_every_lost_record() {
    for (lost, gap, unaccounted) in [
        ("DELETE FROM job_dispatch WHERE scheduled_for = $at1", "lost_record 1", 1),
        ("DELETE FROM skipped_fires WHERE first_fire_at = $at2", "lost_record 2", 2),
        ("DELETE FROM job_dispatch WHERE scheduled_for = $at4", "lost_record 4", 1),
        ("DELETE FROM skipped_fires WHERE first_fire_at = $at5", "lost_record 5", 3),
        ("DELETE FROM job_dispatch WHERE scheduled_for = $at8", "lost_record 8", 1),
        ("DELETE FROM skipped_fires WHERE first_fire_at = $at9", "lost_record 9", 1),
    ] {
        let books = sound().await;
        let mut lost = lost.to_owned();
        for hour in (1..10).rev() {
            lost = lost.replace(&format!("$at{hour}"), &format!("'{}'", books.at(hour)));
        }
        books.world.sql(&lost).await;
        assert_eq!(books.gaps().await, [gap], "{lost}");
        let told = format!("{unaccounted} UNACCOUNTED");
        assert!(books.explained().await.contains(&told), "{lost}: {}", books.explained().await);
        books.world.sql("UPDATE scheduled_jobs SET ledger_starts_at = now()").await;
        assert_eq!(books.gaps().await, [] as [&str; 0], "{lost}");
        assert!(books.explained().await.contains("0 unaccounted"), "{lost}: {}", books.explained().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_gaps_find_a_lost_last_record() {
    let books = sound().await;
    books.world.sql(&format!("DELETE FROM job_dispatch WHERE scheduled_for = '{}'", books.at(10))).await;
    assert_eq!(books.gaps().await, ["lost_last_record 10"]);
    let detail = books.world.text("SELECT job_name || ': ' || detail FROM ledger_gaps").await;
    assert_eq!(detail, "hourly: the job names a record of this fire time as its last, and there is none");
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_gaps_find_fire_times_decided_twice() {
    let books = sound().await;
    let (overlapping, at_dispatch) = (books.at(6), books.at(8));
    let skip = |from: DateTime<Utc>, to: DateTime<Utc>| {
        format!(
            "INSERT INTO skipped_fires (tenant_id, job_id, first_fire_at, last_fire_at, fire_count, reason)
             SELECT tenant_id, id, '{from}', '{to}', 1, 'calendar' FROM scheduled_jobs"
        )
    };
    books.world.sql(&skip(at_dispatch, at_dispatch)).await;
    assert_eq!(books.gaps().await, ["two_fates 8"], "a skip at the fire time of a dispatch");
    books.world.sql("DELETE FROM skipped_fires WHERE reason = 'calendar'").await;
    books.world.sql(&skip(overlapping, books.at(7) + TimeDelta::minutes(30))).await;
    assert_eq!(books.gaps().await, ["two_fates 6"], "a range that begins inside another");
    books.world.sql("DELETE FROM skipped_fires WHERE reason = 'calendar'").await;
    books
        .world
        .sql(&format!(
            "UPDATE skipped_fires SET last_fire_at = '{}' WHERE first_fire_at = '{}'",
            books.at(8),
            books.at(5)
        ))
        .await;
    assert_eq!(books.gaps().await, ["two_fates 8"], "a range that reaches over a dispatch");
    books
        .world
        .sql(&format!(
            "UPDATE skipped_fires SET last_fire_at = '{}' WHERE first_fire_at = '{}'",
            books.at(7),
            books.at(5)
        ))
        .await;
    books.world.runs(books.job.id).insert().await;
    books
        .world
        .sql(&format!(
            "UPDATE job_dispatch SET scheduled_for = '{}' WHERE trigger_id IS NOT NULL",
            books.at(6)
        ))
        .await;
    assert_eq!(books.gaps().await, [] as [&str; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_gaps_find_inconsistent_cursors() {
    let books = sound().await;
    let gaps = async |change: &str| {
        books.world.sql(&format!("UPDATE scheduled_jobs SET {change}")).await;
        let rows = books.world.rows("SELECT kind FROM ledger_gaps").await;
        rows.concat().join(" ")
    };
    assert_eq!(gaps("next_run_at = now() - interval '50 seconds'").await, "", "a tick may take a while");
    assert_eq!(gaps("next_run_at = now() - interval '70 seconds'").await, "overdue");
    assert_eq!(gaps("dispatch_lock_until = now() + interval '1 hour'").await, "", "held back");
    assert_eq!(gaps("dispatch_lock_until = now() - interval '2 minutes'").await, "overdue");
    assert_eq!(gaps("is_enabled = false").await, "");
    assert_eq!(gaps("is_enabled = true, next_run_at = NULL").await, "no_cursor");
    assert_eq!(gaps("max_runs = 4").await, "", "it has had its runs");
    assert_eq!(gaps("max_runs = NULL, next_run_at = now() + interval '1 hour'").await, "");
    assert_eq!(gaps("settled_until = now() + interval '1 minute'").await, "books_ahead");
    assert_eq!(gaps(&format!("settled_until = '{}'", books.at(9))).await, "books_ahead");
    assert_eq!(gaps(&format!("settled_until = '{}'", books.at(10))).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_extends_a_range_in_one_row() {
    let books = Books::new().await;
    books.record(&[Dispatched(1)]).await;
    for hour in 2..=5 {
        books.record(&[Skipped(hour, hour, SkipReason::PausedJob)]).await;
    }
    assert_eq!(books.skips().await, ["2 5 4 paused_job"]);
    assert_eq!(books.gaps().await, [] as [&str; 0], "the job names a fire time inside the range as its last");
    books.record(&[Skipped(6, 6, SkipReason::Overlap)]).await;
    books.record(&[Skipped(7, 7, SkipReason::PausedJob), Dispatched(8)]).await;
    books.record(&[Skipped(9, 9, SkipReason::PausedJob)]).await;
    let apart = ["2 5 4 paused_job", "6 6 1 overlap", "7 7 1 paused_job", "9 9 1 paused_job"];
    assert_eq!(books.skips().await, apart, "neither over another reason nor over a dispatch");
    assert_eq!(books.gaps().await, [] as [&str; 0]);
    let told = "9 fire times: 2 dispatched, 7 skipped (6 paused_job, 1 overlap), 0 unaccounted";
    books.record(&[Dispatched(10)]).await;
    assert_eq!(books.explained().await, told);
    // A fire time inside a range is not its end: the range is missing.
    books.world.sql(&format!("DELETE FROM skipped_fires WHERE first_fire_at = '{}'", books.at(2))).await;
    assert_eq!(books.gaps().await, ["lost_record 5"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_fires_exclude_deliberate_skips() {
    let books = Books::new().await;
    books.record(&[Dispatched(1), Skipped(2, 4, SkipReason::Misfire)]).await;
    books.record(&[Skipped(5, 5, SkipReason::Misfire)]).await;
    books.record(&[Skipped(6, 6, SkipReason::Overlap), Skipped(7, 7, SkipReason::PausedJob)]).await;
    assert_eq!(books.skips().await, ["2 5 4 misfire", "6 6 1 overlap", "7 7 1 paused_job"]);
    let told = "SELECT e.payload ->> 'job_name', e.payload ->> 'fire_count', e.job_id = j.id, e.project_id IS NOT DISTINCT FROM j.project_id
                FROM events e, scheduled_jobs j WHERE e.event_type = 'run_missed' ORDER BY e.id";
    assert_eq!(books.world.rows(told).await, [["hourly", "3", "t", "t"], ["hourly", "1", "t", "t"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_continues_across_a_settings_change() {
    let books = Books::new().await;
    books.record(&[Dispatched(1), Dispatched(2)]).await;
    books
        .world
        .sql(&format!(
            "UPDATE scheduled_jobs SET next_run_at = '{}', settled_until = '{}'",
            books.at(3),
            books.at(2)
        ))
        .await;
    let later = JobSettings {
        schedule_config: json!({"hours": 1, "anchor": "2026-01-01T00:30:00Z"}),
        ..settings("hourly")
    };
    books.world.save(&later).await;
    assert_eq!(books.skips().await, ["3 9 7 misfire"], "the latest that is due stays due");
    assert_eq!(books.gaps().await, ["overdue 10"]);
    let state = books.stored().await.state;
    assert_eq!((state.last_fire_at, state.next_run_at), (Some(books.at(3)), Some(books.at(10))));
    books.record(&[Dispatched(10)]).await;
    books.world.sql("UPDATE scheduled_jobs SET next_run_at = now() + interval '1 hour'").await;
    assert_eq!(books.gaps().await, [] as [&str; 0]);
    assert_eq!(books.explained().await, "9 fire times: 2 dispatched, 7 skipped (7 misfire), 0 unaccounted");
    books.world.sql("DELETE FROM skipped_fires").await;
    assert_eq!(books.gaps().await, ["lost_record 3"]);
}

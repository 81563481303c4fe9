//! Triggers of several jobs at once, by the rules of one.

use diesel_async::RunQueryDsl as _;
use sched_model::Conn;
use sched_model::dispatching::trigger::{self, Fate, Order};
use sched_model::domain::ids::TenantId;
use sched_model::domain::job::{JobSettings, OverlapPolicy};
use sched_model::domain::run_state::Trigger;
use serde_json::json;
use test_support::fixture::{BEGIN, Fixture, QUEUE, TENANT, settings};
use uuid::Uuid;

pub(crate) fn order(job: &str) -> Order<'_> {
    Order {
        job,
        may_run_built_in: false,
        triggered_by: Trigger::Api,
        user: "tests",
        args: None,
        traceparent: Some("00-a-b-01"),
        actor: "tests via key",
        request: "r-1",
        address: Some("192.0.2.1"),
    }
}

/// Two databases, without and with a quota of dispatches: the rules are the same.
async fn worlds() -> [Fixture; 2] {
    let worlds = [Fixture::new().await, Fixture::new().await];
    let quota =
        format!("UPDATE tenants SET quotas = '{{\"dispatches_per_minute\": 1000000}}' WHERE id = '{TENANT}'");
    worlds[1].sql(&quota).await;
    worlds
}

async fn all(conn: &mut Conn, orders: &[Order<'_>]) -> Vec<Option<Fate>> {
    trigger::trigger_batch(conn, TENANT, orders, || false).await.unwrap().fates
}

pub(crate) async fn trigger(world: &Fixture, jobs: &[&str]) -> Vec<Option<Fate>> {
    let orders: Vec<Order<'_>> = jobs.iter().map(|job| order(job)).collect();
    all(&mut world.conn().await, &orders).await
}

pub(crate) fn count_created(fates: &[Option<Fate>]) -> usize {
    fates.iter().filter(|fate| matches!(fate, Some(Fate::Created(_)))).count()
}

async fn counters(world: &Fixture) -> (Vec<String>, Vec<String>) {
    world.count_ends().await;
    let counted =
        "SELECT sum(total_run_count), sum(active_dispatches), sum(queued_dispatches) FROM scheduled_jobs";
    let there = "SELECT count(*), count(*) FILTER (WHERE completed_at IS NULL), count(*) FILTER (WHERE claimable_at = 'infinity')
                 FROM job_dispatch";
    (world.rows(counted).await.remove(0), world.rows(there).await.remove(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_has_its_own_fate_and_what_one_is_refused_for_stops_no_other() {
    for world in worlds().await {
        for name in ["off", "built-in"] {
            world.function(name).save().await;
            world.job(name).function(name).save().await;
        }
        world
            .sql(
                "UPDATE task_functions SET is_active = false WHERE name = 'off';
                 UPDATE task_functions SET is_system = true WHERE name = 'built-in'",
            )
            .await;
        let by_id = world.job("by-id").save().await.id;
        world.job("by-name").save().await;
        world.job("gone").save().await;
        world
            .sql("UPDATE scheduled_jobs SET deleted_at = now(), next_run_at = NULL WHERE name = 'gone'")
            .await;
        let (id, nobodys) = (by_id.to_string(), Uuid::new_v4().to_string());
        let fates =
            trigger(&world, &["missing", &id, "off", "by-name", "built-in", "gone", "a\0b", &nobodys, &id])
                .await;
        let created = |fate: &Option<Fate>| match fate {
            Some(Fate::Created(created)) => created.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(fates[0], Some(Fate::NoSuchJob));
        assert_eq!((created(&fates[1]).job, created(&fates[1]).queue.as_str()), (by_id, QUEUE));
        assert_eq!(fates[2], Some(Fate::FunctionInactive("off".to_owned())));
        assert_eq!(created(&fates[8]).job, by_id);
        assert_ne!(created(&fates[1]).dispatch, created(&fates[8]).dispatch);
        assert_eq!(fates[4], Some(Fate::BuiltIn));
        assert_eq!(fates[5..8], [const { Some(Fate::NoSuchJob) }; 3]);
        assert_eq!(count_created(&fates), 3);
        let (counted, there) = counters(&world).await;
        assert_eq!((&counted, &there[0]), (&there, &"3".to_owned()));
        let whose =
            "SELECT string_agg(DISTINCT d.id::text || ' ' || j.name, ',' ORDER BY d.id::text || ' ' || j.name)
                     FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id";
        let told = [1, 8, 3].map(|place| {
            format!("{} {}", created(&fates[place]).dispatch, if place == 3 { "by-name" } else { "by-id" })
        });
        let mut told = told.to_vec();
        told.sort();
        assert_eq!(world.text(whose).await, told.join(","));

        let allowed = Order { may_run_built_in: true, ..order("built-in") };
        assert_eq!(count_created(&all(&mut world.conn().await, &[allowed]).await), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_among_others_writes_what_it_writes_alone() {
    for world in worlds().await {
        world.queue("slow").await;
        world.sql("UPDATE queues SET default_priority = 7 WHERE name = 'slow'").await;
        let narrow = JobSettings { max_instances: 1, overlap_policy: OverlapPolicy::Skip, ..settings("x") };
        let of = |name: &str, settings: JobSettings| JobSettings { name: name.into(), ..settings };
        let jobs = [
            of("plain", settings("x")),
            of("urgent", JobSettings { start_within_seconds: Some(90), priority: Some(3), ..settings("x") }),
            of("elsewhere", JobSettings { queue: Some("slow".into()), ..settings("x") }),
            of("narrow", narrow),
            of("argued", JobSettings { task_args: json!({"of": "the job"}), ..settings("x") }),
        ];
        let own = json!({"of": "the trigger"});
        let mut orders = Vec::new();
        let mut conn = world.conn().await;
        for job in &jobs {
            let saved = world.save(job).await.job;
            for args in [None, Some(&own)] {
                assert!(matches!(world.trigger(saved.id, args).await, Fate::Created(_)));
                orders.push(Order { args, ..order(&job.name) });
            }
        }
        let rows = "SELECT j.name, d.args, d.queue, d.priority, d.status, d.triggered_by, d.triggered_by_user, d.trigger_id = d.id, d.traceparent,
                           d.expires_at - d.scheduled_for, d.available_at = d.scheduled_for, d.claimable_at = d.available_at,
                           d.claimable_at = 'infinity', d.attempt, d.idempotency_key, d.term, j.last_dispatched_at >= d.scheduled_for
                    FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id ORDER BY j.name, d.args::text, 13";
        let counted_alone = counters(&world).await;
        let alone = world.rows(rows).await;
        world
            .sql(
                "DELETE FROM job_dispatch;
                 UPDATE scheduled_jobs SET active_dispatches = 0, queued_dispatches = 0, total_run_count = 0, last_dispatched_at = NULL",
            )
            .await;
        assert_eq!(count_created(&all(&mut conn, &orders).await), orders.len());
        assert_eq!(counters(&world).await, counted_alone);
        assert_eq!(world.rows(rows).await, alone);
        assert_eq!(alone.len(), 10);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn those_of_one_job_take_its_room_and_the_others_wait_in_line() {
    for world in worlds().await {
        world.job("narrow").max_instances(3).overlap(OverlapPolicy::Queue).save().await;
        world.job("wide").save().await;
        assert_eq!(count_created(&trigger(&world, &["narrow"]).await), 1);
        let fates = trigger(&world, &["narrow", "wide", "narrow", "narrow", "narrow"]).await;
        assert_eq!(count_created(&fates), 5);
        let in_line = "SELECT count(*) FILTER (WHERE claimable_at = 'infinity'), count(*) FROM job_dispatch d
                       JOIN scheduled_jobs j ON j.id = d.job_id AND j.name = 'narrow'";
        assert_eq!(world.rows(in_line).await, [["2", "5"]]);
        let (counted, there) = counters(&world).await;
        assert_eq!(counted, there);
        let Some(Fate::Created(last)) = &fates[4] else { panic!("{fates:?}") };
        let last = format!("SELECT claimable_at::text FROM job_dispatch WHERE id = '{}'", last.dispatch);
        assert_eq!(world.text(&last).await, "infinity", "the first triggers use the room");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_waits_for_no_lock_on_a_job() {
    for world in worlds().await {
        world.job("held").overlap(OverlapPolicy::Skip).save().await;
        world.job("free").save().await;
        let other = world.db.client().await;
        let hold = format!("{BEGIN}; SELECT 1 FROM scheduled_jobs WHERE name = 'held' FOR NO KEY UPDATE");
        other.batch_execute(&hold).await.unwrap();
        let fates = trigger(&world, &["held", "free", "held"]).await;
        assert_eq!((&fates[0], count_created(&fates[1..2]), &fates[2]), (&None, 1, &None));
        other.batch_execute("COMMIT").await.unwrap();
        assert_eq!(count_created(&trigger(&world, &["held"]).await), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_triggered_as_it_is_when_it_is_locked() {
    for world in worlds().await {
        world.job("narrow").max_instances(1).overlap(OverlapPolicy::Skip).save().await;
        world.job("other").save().await;
        for _ in 0..20 {
            let batch = async || trigger(&world, &["narrow", "other", "narrow"]).await;
            let (one, two) = tokio::join!(batch(), batch());
            for fate in one.iter().chain(&two) {
                assert!(matches!(fate, Some(Fate::Created(_)) | None), "{fate:?}");
            }
        }
        let (counted, there) = counters(&world).await;
        assert_eq!(counted, there);
        let room = "SELECT count(*) FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id
                    WHERE j.name = 'narrow' AND d.claimable_at <> 'infinity'";
        assert_eq!(world.number(room).await, 1, "one run has the room, all others are queued");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_used_up_by_those_who_come_first() {
    let world = Fixture::new().await;
    for name in ["a", "b"] {
        world.job(name).save().await;
    }
    // The quota counts in the row's window.
    world
        .sql(&format!(
            "UPDATE tenants SET quotas = '{{\"dispatches_per_minute\": 3}}' WHERE id = '{TENANT}';
             INSERT INTO tenant_usage (tenant_id, minute, dispatched) VALUES ('{TENANT}', now() + interval '1 hour', 1)"
        ))
        .await;
    let fates = trigger(&world, &["a", "missing", "b", "a", "b"]).await;
    assert_eq!((count_created(&fates[..3]), &fates[1]), (2, &Some(Fate::NoSuchJob)));
    for fate in &fates[3..] {
        let Some(Fate::QuotaUsedUp(used_up)) = fate else { panic!("{fate:?}") };
        assert!(used_up.limit == 3 && (1..=60).contains(&used_up.after_seconds), "{used_up:?}");
    }
    assert_eq!(count_created(&trigger(&world, &["a"]).await), 0);
    assert_eq!(world.number("SELECT dispatched FROM tenant_usage").await, 3);
    let (counted, there) = counters(&world).await;
    assert_eq!((&counted, &there[0]), (&there, &"2".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_asked_for_is_nothing_done() {
    let world = Fixture::new().await;
    assert_eq!(trigger(&world, &[]).await, []);
    assert_eq!(trigger(&world, &["missing"]).await, [Some(Fate::NoSuchJob)]);
    assert_eq!(world.number("SELECT count(*) FROM tenant_usage").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_trigger_has_its_entry_in_the_audit_log_and_sees_one_tenant() {
    let world = Fixture::new().await;
    world.job("a").save().await;
    let mut conn = world.conn().await;
    let own = json!({"n": 1});
    let fates =
        all(&mut conn, &[Order { args: Some(&own), ..order("a") }, order("missing"), order("a")]).await;
    assert_eq!(count_created(&fates), 2);
    let entries = "SELECT a.actor, a.action, a.target_type, a.target_id = d.job_id::text, a.after ->> 'has_own_args', a.request_id,
                          a.before IS NULL, a.tenant_id = d.tenant_id
                   FROM audit_log a JOIN job_dispatch d ON d.id::text = a.after ->> 'dispatch_id' ORDER BY a.id";
    let entry = |has_own_args| ["tests via key", "trigger_job", "job", "t", has_own_args, "r-1", "t", "t"];
    assert_eq!(world.rows(entries).await, [entry("true"), entry("false")]);
    // Version and time of the ids, as in those of the programs.
    let ids = "SELECT count(*) FROM job_dispatch WHERE substr(id::text, 15, 1) = '7' AND substr(id::text, 20, 1) IN ('8', '9', 'a', 'b')
               AND ('x' || translate(left(id::text, 13), '-', ''))::bit(48)::bigint
                   BETWEEN extract(epoch FROM scheduled_for - interval '1 second') * 1000 AND extract(epoch FROM scheduled_for + interval '1 second') * 1000";
    assert_eq!(world.number(ids).await, 2);

    // The API in that tenant, and afterwards the previous state.
    let unknown = TenantId(Uuid::new_v4());
    let batch = trigger::trigger_batch(&mut conn, unknown, &[order("a")], || true).await.unwrap();
    assert_eq!((batch.fates, batch.is_notified), (vec![Some(Fate::NoSuchJob)], false));
    let role = diesel::select(diesel::dsl::sql::<diesel::sql_types::Text>("current_setting('role')"));
    assert_eq!(role.get_result::<String>(&mut conn).await.unwrap(), "none");
}

use scripted_http::{Response, Server};
use tracing_subscriber::layer::SubscriberExt as _;

use super::*;
use crate::config::{MapSource, load};
use crate::delivery::Sending;

const PROGRAM: Program = Program::new("sched-worker", "1.2.3", "Runs jobs");

fn settings(variables: &[(&str, &str)]) -> Result<Option<TrackerSettings>, String> {
    let source: MapSource = variables.iter().copied().collect();
    let mut values = load(&PROGRAM, &[TRACKER], ["sched-worker"], &source).unwrap();
    let settings = TrackerSettings::read(&mut values);
    values.finish().map(|()| settings).map_err(|error| error.to_string())
}

fn tracker(dsn: &str) -> (Tracker, Reporter) {
    let settings = settings(&[("ERROR_TRACKER_DSN", dsn), ("ERROR_TRACKER_ENVIRONMENT", "test")]);
    Reporter::new(&PROGRAM, settings.unwrap().unwrap()).unwrap()
}

fn nowhere() -> (Tracker, Reporter) {
    tracker("http://key@127.0.0.1:1/7")
}

fn events(reporter: &Reporter) -> Vec<Value> {
    std::iter::from_fn(|| reporter.next()).map(|(_, event)| event).collect()
}

fn titled(title: &str) -> Report {
    Report { title: title.into(), ..Report::default() }
}

#[test]
fn an_address_is_taken_apart_and_what_is_none_is_refused_without_being_shown() {
    for (dsn, url) in [
        ("https://s3cret@errors.example.com/42", "https://errors.example.com/api/42/envelope/"),
        ("http://s3cret:old@127.0.0.1:9000/sentry/p/1", "http://127.0.0.1:9000/sentry/p/api/1/envelope/"),
    ] {
        let settings = settings(&[("ERROR_TRACKER_DSN", dsn)]).unwrap().unwrap();
        assert_eq!(settings.url.as_str(), url);
        assert!(settings.auth.to_str().unwrap().ends_with(", sentry_key=s3cret"));
        assert!(!format!("{settings:?}").contains("s3cret"));
    }
    assert!(settings(&[]).unwrap().is_none());
    for bad in [
        "s3cret",
        "https://errors.example.com/s3cret",
        "https://s3cret@x/",
        "ftp://s3cret@x/1",
        "https://s3%20cret@x/1",
    ] {
        let error = settings(&[("ERROR_TRACKER_DSN", bad)]).expect_err(bad);
        assert!(error.contains("ERROR_TRACKER_DSN") && error.contains("https://KEY@"), "{error}");
        assert!(!error.contains("cret"), "{error}");
    }
}

#[test]
fn errors_of_the_log_are_reported_with_what_the_spans_around_them_say() {
    let (tracker, reporter) = nowhere();
    let subscriber = tracing_subscriber::registry().with(tracker.layer());
    tracing::subscriber::with_default(subscriber, || {
        let request = tracing::info_span!(
            "request",
            trace_id = "0af7651916cd43dd8448eb211c80319c",
            span_id = "b7ad6b7169203331",
            tenant.id = tracing::field::Empty,
        );
        let _entered = request.enter();
        request.record("tenant.id", "t");
        let _inner = tracing::info_span!("inner", span_id = "1111111111111111").entered();
        tracing::warn!("Not this.");
        tracing::error!(error = "postgres://me:s3cret@db/x failed", count = 3, "A request failed.");
    });
    let [event] = &events(&reporter)[..] else { panic!("one report") };
    assert_eq!(event["logentry"]["formatted"], "A request failed.");
    assert_eq!((&event["level"], &event["release"]), (&json!("error"), &json!("sched-worker@1.2.3")));
    assert_eq!((&event["environment"], &event["tags"]["daemon"]), (&json!("test"), &json!("worker")));
    assert_eq!((&event["tags"]["tenant.id"], &event["extra"]["count"]), (&json!("t"), &json!("3")));
    assert_eq!(event["extra"]["error"], "postgres://me:***@db/x failed");
    let trace = json!({"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "1111111111111111"});
    assert_eq!(event["contexts"]["trace"], trace, "of the innermost span");
}

#[test]
fn a_flood_is_reported_in_part_and_the_rest_is_counted() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let (tracker, reporter) = nowhere();
    let outbox = tracker.0.unwrap();
    metrics::with_local_recorder(&recorder, || {
        let now = monotonic();
        for _ in 0..PER_MINUTE + 5 {
            outbox.put(Level::Error, || titled("again"), now);
        }
        for _ in 0..FATAL_BESIDES + 1 {
            outbox.put(Level::Fatal, || titled("fatal"), now);
        }
        assert_eq!(events(&reporter).len(), PER_MINUTE + FATAL_BESIDES);
        outbox.put(Level::Error, || titled("later"), now + Duration::from_secs(60));
        assert_eq!(events(&reporter).len(), 1);
        for minute in 2..12 {
            for _ in 0..PER_MINUTE {
                outbox.put(Level::Error, || titled("many"), now + Duration::from_secs(60 * minute));
            }
        }
        outbox.put(Level::Fatal, || titled("fatal"), now + Duration::from_secs(60 * 12));
        let kept = events(&reporter);
        assert_eq!((kept.len(), &kept[QUEUE - 1]["level"]), (QUEUE, &json!("fatal")));
    });
    let text = recorder.handle().render();
    assert!(text.contains("sched_error_reports_dropped_total{reason=\"rate\"} 6"), "{text}");
    assert!(text.contains("sched_error_reports_dropped_total{reason=\"queue_full\"} 201"), "{text}");
}

#[test]
fn what_happens_while_a_report_is_made_makes_no_other() {
    let (tracker, reporter) = nowhere();
    let again = tracker.clone();
    tracker.report(|| {
        again.report(|| titled("inner"));
        titled("outer")
    });
    let subscriber = tracing_subscriber::registry().with(tracker.layer());
    tracing::subscriber::with_default(subscriber, || {
        tracing::error!(target: "rustls::common_state", "It could not be sent.");
    });
    let titles: Vec<_> =
        events(&reporter).iter().map(|event| event["logentry"]["formatted"].clone()).collect();
    assert_eq!(titles, ["outer"]);
    tracker.report(|| titled("later"));
    assert_eq!(events(&reporter).len(), 1);
}

#[test]
fn a_panic_is_reported_with_its_place() {
    let (tracker, reporter) = nowhere();
    tracker.watch_panics();
    let thread = std::thread::Builder::new().name("odd".into()).spawn(|| panic!("it broke"));
    thread.unwrap().join().unwrap_err();
    let all = events(&reporter);
    let event = all.iter().find(|event| event["logentry"]["formatted"] == "panic: it broke").unwrap();
    assert_eq!((&event["level"], &event["extra"]["thread"]), (&json!("fatal"), &json!("odd")));
    assert!(event["extra"]["place"].as_str().unwrap().contains("tracker/tests.rs"), "{event}");
}

#[tokio::test]
async fn a_report_is_sent_as_an_envelope_and_what_is_left_at_the_end() {
    let server = Server::start(Response::new(200));
    let (tracker, reporter) = tracker(&format!("http://key@{}/7", server.address()));
    let sending = Sending::start("report_errors", |stop| reporter.run(stop));
    let facts = vec![("job.name".to_owned(), "nightly".to_owned())];
    tracker.report(|| Report { facts, group: vec!["a".into()], ..titled("A dispatch failed.") });
    sending.finish(&CancellationToken::new()).await;
    let request = server.requests().remove(0);
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/api/7/envelope/"));
    let auth = request.header("x-sentry-auth").unwrap();
    assert!(auth.starts_with("Sentry sentry_version=7,") && auth.contains("sentry_key=key"), "{auth}");
    let text = request.text();
    let [envelope, item, event] = &text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    assert_eq!(parse(envelope)["event_id"], parse(event)["event_id"]);
    assert_eq!(parse(item), json!({"type": "event", "length": event.len()}));
    assert_eq!(
        (&parse(event)["tags"]["job.name"], &parse(event)["fingerprint"]),
        (&json!("nightly"), &json!(["a"]))
    );
}

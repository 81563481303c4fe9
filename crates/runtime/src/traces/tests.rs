use metrics_exporter_prometheus::PrometheusBuilder;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Told;
use opentelemetry_proto::tonic::trace::v1::{Span as Sent, span::SpanKind, status::StatusCode};
use prost::Message as _;
use scripted_http::{Request, Response, Server, Step, sequence};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::config::{MapSource, Program, load};
use crate::delivery::{FLUSH_WITHIN, Sending};
use crate::monotonic_clock::monotonic;

const PROGRAM: Program = Program::new("sched-worker", "1.2.3", "Runs jobs");
const PLACE: SpanContext = SpanContext {
    trace: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c,
    span: 0xb7ad_6b71_6920_3331,
    is_sampled: true,
};

fn spans(collector: &Server) -> Vec<Vec<Sent>> {
    let of = |request: Request| {
        decode(&request)
            .resource_spans
            .into_iter()
            .flat_map(|r| r.scope_spans)
            .flat_map(|s| s.spans)
            .collect()
    };
    collector.requests().into_iter().map(of).collect()
}

fn decode(request: &Request) -> ExportTraceServiceRequest {
    ExportTraceServiceRequest::decode(&request.body[..]).unwrap()
}

fn settings(variables: &[(&str, &str)]) -> Result<Option<TracesSettings>, String> {
    let source: MapSource = variables.iter().copied().collect();
    let mut values = load(&PROGRAM, &[TRACES], ["sched-worker"], &source).unwrap();
    let settings = TracesSettings::read(&mut values);
    values.finish().map(|()| settings).map_err(|error| error.to_string())
}

fn exporting(address: &str) -> (Traces, Sending) {
    let settings = settings(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", address),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cret,x-tenant=a"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test%2C1,service.version=9"),
    ]);
    let (traces, exporter) = Exporter::new(&PROGRAM, settings.unwrap().unwrap()).unwrap();
    (traces, Sending::start("export_traces", |stop| exporter.run(stop)))
}

fn span(name: &str) -> Span {
    Span { parent: None, name: name.into(), kind: Kind::Consumer, attributes: Vec::new(), failure: None }
}

fn texts(attributes: &[KeyValue]) -> Vec<(&str, String)> {
    let text = |attribute: &KeyValue| match attribute.value.as_ref().unwrap().value.as_ref().unwrap() {
        Told::StringValue(text) => text.clone(),
        Told::IntValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(|attribute| (attribute.key.as_str(), text(attribute))).collect()
}

async fn finish(exporting: Sending) {
    exporting.finish(&CancellationToken::new()).await;
}

#[tokio::test]
async fn a_span_is_sent_with_the_ids_the_times_and_the_facts_that_it_was_given() {
    let collector = Server::start(Response::new(200));
    let (traces, exporting) = exporting(&collector.url("/otlp/"));
    let (took, before) = (Duration::from_millis(1500), monotonic_clock::wall());
    traces.ended(PLACE, took, || Span {
        parent: Some(7),
        attributes: vec![("job.name", "a".into()), ("attempt", 3.into())],
        failure: Some("exit code 7".into()),
        ..span("attempt a")
    });
    traces.ended(SpanContext { span: 1, ..PLACE }, took, || Span { kind: Kind::Server, ..span("GET") });
    traces
        .ended(SpanContext { span: 2, ..PLACE }, took, || Span { kind: Kind::Producer, ..span("dispatch") });
    finish(exporting).await;

    let request = collector.requests().remove(0);
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/otlp/v1/traces"));
    assert_eq!(request.version, "HTTP/1.1");
    for (name, value) in
        [("content-type", "application/x-protobuf"), ("authorization", "Bearer s3cret"), ("x-tenant", "a")]
    {
        assert_eq!(request.header(name), Some(value), "{name}: {request:?}");
    }
    let sent = decode(&request);
    let process = texts(&sent.resource_spans[0].resource.as_ref().unwrap().attributes);
    for told in [
        ("service.name", "sched-worker"),
        ("service.version", "9"),
        ("deployment.environment.name", "test,1"),
    ] {
        assert_eq!(process.iter().filter(|(name, _)| *name == told.0).count(), 1, "{process:?}");
        assert!(process.contains(&(told.0, told.1.to_owned())), "{process:?}");
    }
    let [first, second, third] = &spans(&collector)[0][..] else { panic!("{:?}", spans(&collector)) };
    assert_eq!(first.trace_id, PLACE.trace.to_be_bytes());
    assert_eq!(first.span_id, PLACE.span.to_be_bytes());
    assert_eq!(first.parent_span_id, 7_u64.to_be_bytes());
    assert!(second.parent_span_id.is_empty() && second.status.is_none(), "{second:?}");
    assert_eq!((first.name.as_str(), first.flags), ("attempt a", 1));
    let kinds = [first, second, third].map(Sent::kind);
    assert_eq!(kinds, [SpanKind::Consumer, SpanKind::Server, SpanKind::Producer]);
    assert_eq!(texts(&first.attributes), [("job.name", "a".to_owned()), ("attempt", "3".to_owned())]);
    let status = first.status.as_ref().unwrap();
    assert_eq!((status.code(), status.message.as_str()), (StatusCode::Error, "exit code 7"));
    assert_eq!(first.end_time_unix_nano - first.start_time_unix_nano, 1_500_000_000);
    let ended = SystemTime::UNIX_EPOCH + Duration::from_nanos(first.end_time_unix_nano);
    assert!((before..=monotonic_clock::wall()).contains(&ended), "{ended:?}");
}

#[tokio::test]
async fn spans_are_sent_while_the_daemon_runs_and_in_batches() {
    let collector = Server::start(Response::new(200));
    let (traces, exporting) = exporting(&collector.url(""));
    for _ in 0..=2 * BATCH {
        traces.ended(PLACE, Duration::ZERO, || span("many"));
    }
    while spans(&collector).concat().len() <= 2 * BATCH {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let sizes: Vec<usize> = spans(&collector).iter().map(Vec::len).collect();
    assert_eq!(sizes, [BATCH, BATCH, 1]);
    finish(exporting).await;
}

#[tokio::test]
async fn nothing_is_made_that_is_not_sent() {
    let collector = Server::start(Response::new(200));
    let (on, exporting) = exporting(&collector.url(""));
    on.ended(SpanContext { is_sampled: false, ..PLACE }, Duration::ZERO, || panic!("it is not sampled"));
    Traces::default().ended(PLACE, Duration::ZERO, || panic!("there is no collector"));
    on.ended(PLACE, Duration::ZERO, || span("sampled"));
    finish(exporting).await;
    let names: Vec<String> = spans(&collector).concat().into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["sampled"]);
}

#[test]
fn a_full_queue_drops_what_comes_and_counts_it() {
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        let queue = Arc::new(Queue::new(2));
        let traces = Traces(Some(queue.clone()));
        for name in ["a", "b", "c", "d"] {
            traces.ended(PLACE, Duration::ZERO, || span(name));
        }
        assert!(queue.take(3).is_none(), "there are two alone");
        let kept: Vec<String> = queue.take(1).unwrap().into_iter().map(|ended| ended.span.name).collect();
        assert_eq!(kept, ["a", "b"]);
    });
    let text = recorder.handle().render();
    assert!(text.contains("sched_spans_dropped_total{reason=\"queue_full\"} 2"), "{text}");
}

#[tokio::test]
async fn what_a_collector_was_away_for_is_sent_again_and_what_it_refuses_is_not() {
    let collector = Server::start(sequence([503, 400, 200].map(Response::new)));
    let (traces, exporting) = exporting(&collector.url(""));
    traces.ended(PLACE, Duration::ZERO, || span("refused"));
    while spans(&collector).len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    traces.ended(PLACE, Duration::ZERO, || span("taken"));
    finish(exporting).await;
    let names: Vec<String> = spans(&collector).concat().into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["refused", "refused", "taken"]);
}

#[test]
fn spans_that_a_collector_rejects_in_part_are_told() {
    let answer = |rejected_spans| {
        let partial = ExportTracePartialSuccess { rejected_spans, error_message: "too old".into() };
        ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec()
    };
    assert_eq!(otlp::rejected(&answer(3)), Some((3, "too old".into())));
    for nothing in [answer(0), answer(-1), Vec::new(), b"<html>".to_vec()] {
        assert_eq!(otlp::rejected(&nothing), None, "{nothing:?}");
    }
}

#[tokio::test]
async fn what_is_rejected_in_part_is_counted_and_logged_once() {
    let partial = ExportTracePartialSuccess { rejected_spans: 1, error_message: "x".repeat(10_000) };
    let answer = ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec();
    let collector = Server::start(Response::new(200).body(answer));
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).finish();
    let _here = tracing::subscriber::set_default(subscriber);
    let (traces, exporting) = exporting(&collector.url(""));
    for number in 1..=3 {
        traces.ended(PLACE, Duration::ZERO, || span("rejected"));
        while spans(&collector).len() < number {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    finish(exporting).await;
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.matches("refuses what it is sent").count(), 1, "{text}");
    assert!(!text.contains("again") && text.len() < 1_000, "{text}");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl tracing_subscriber::fmt::MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[test]
fn long_texts_are_cut() {
    let queue = Arc::new(Queue::new(2));
    let long = "\u{e9}".repeat(LONGEST);
    Traces(Some(queue.clone())).ended(PLACE, Duration::ZERO, || Span {
        attributes: vec![("url.path", long.clone().into()), ("attempt", 3.into())],
        failure: Some(long.clone()),
        ..span(&long)
    });
    let ended = queue.take(1).unwrap().remove(0).span;
    let cut = "\u{e9}".repeat(LONGEST / 2);
    assert_eq!((&ended.name, ended.failure.as_ref()), (&cut, Some(&cut)));
    assert_eq!(ended.attributes, [("url.path", Value::Text(cut)), ("attempt", 3.into())]);
}

#[tokio::test]
async fn a_collector_that_hangs_holds_up_the_end_for_a_bounded_time_only() {
    let collector = Server::start([Step::Hang]);
    for (is_hard, longest) in [(false, FLUSH_WITHIN + Duration::from_secs(2)), (true, Duration::from_secs(1))]
    {
        let (traces, exporting) = exporting(&collector.url(""));
        traces.ended(PLACE, Duration::ZERO, || span("lost"));
        let (began, hard) = (monotonic(), CancellationToken::new());
        if is_hard {
            hard.cancel();
        }
        exporting.finish(&hard).await;
        assert!(began.elapsed() < longest, "{is_hard} {:?}", began.elapsed());
    }
}

#[test]
fn settings_are_off_without_an_address_and_each_mistake_is_told() {
    let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://me:pw@otel.example.com/x?api_key=k");
    let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4318/v1/traces");
    let url =
        |variables: &[(&str, &str)]| settings(variables).unwrap().map(|settings| settings.url.to_string());
    assert_eq!(url(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_EXPORTER_OTLP_HEADERS", "x")]), None);
    assert_eq!(url(&[base]).unwrap(), "https://me:pw@otel.example.com/x/v1/traces?api_key=k");
    assert_eq!(url(&[base, own]).unwrap(), own.1);
    for off in [("OTEL_TRACES_EXPORTER", "none"), ("OTEL_SDK_DISABLED", "TRUE")] {
        assert_eq!(url(&[base, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), off]), None);
    }
    let stronger = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf");
    assert!(url(&[base, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), stronger]).is_some());
    for (name, value, says) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "must be http/protobuf"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "otel:4317", "must be an http:// or https:// address"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "grpc://s3cret@x", "must be an http:// or https:// address"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization", "must be name=value"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", "OTEL_TRACES_EXPORTER=none"),
        ("OTEL_TRACES_EXPORTER", "console", "must be otlp or none"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=%0As3cret", "in the value of item 1"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=b,Authorization: Basic s3cret==", "before the first = of item 2"),
        (
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            "Authorization: Basic s3cret==",
            "before the first = of item 1",
        ),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=%ffs3cret", "must be name=value"),
        ("OTEL_RESOURCE_ATTRIBUTES", "=x", "must be name=value"),
    ] {
        let error = settings(&[own, (name, value)]).expect_err(value);
        assert!(error.contains(name) && error.contains(says), "{value}: {error}");
        assert!(!error.contains("s3cret") || name.ends_with("TRACES_ENDPOINT"), "{error}");
    }
    let shown = format!("{:?}", settings(&[base, ("OTEL_EXPORTER_OTLP_HEADERS", "a=s3cret")]).unwrap());
    assert!(!shown.contains("s3cret") && !shown.contains("pw"), "{shown}");
}

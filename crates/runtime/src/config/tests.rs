use std::io::Write;
use std::time::Duration;

use secrecy::ExposeSecret;
use tempfile::NamedTempFile;

use super::*;
use crate::exit::ExitStatus;
use crate::telemetry::{LogFormat, LogSettings};

const OWN: &[Setting] = &[
    Setting::new("worker-concurrency", "WORKER_CONCURRENCY", "COUNT", "Slots").default("10"),
    Setting::new("worker-queues", "WORKER_QUEUES", "LIST", "Queues").default("default"),
    Setting::new("worker-poll-interval", "WORKER_POLL_INTERVAL", "DURATION", "Poll").default("1s"),
    Setting::new("worker-verbose", "WORKER_VERBOSE", "BOOL", "Talk").switch(),
    Setting::new("worker-token", "WORKER_TOKEN", "TOKEN", "Secret").secret(),
    Setting::new("worker-note", "WORKER_NOTE", "TEXT", "Optional"),
];
const PROGRAM: Program =
    Program::new("sched-worker", "1.2.3", "Runs jobs").defaults(&[("database-pool-size", "12")]);
const GROUPS: &[&[Setting]] = &[OWN, DATABASE, LOGGING, HEALTH, PROCESS];
const URL: (&str, &str) = ("DATABASE_URL", "postgresql://app:s3cret@db/sched");

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn try_load(args: &[&str], variables: &[(&str, &str)]) -> Result<Values, LoadError> {
    let source: MapSource = variables.iter().copied().collect();
    load(&PROGRAM, GROUPS, ["sched-worker"].iter().chain(args), &source)
}

fn with_file(text: &str, args: &[&str], variables: &[(&str, &str)]) -> (Values, String) {
    let file = file(text);
    let path = file.path().to_str().unwrap().to_owned();
    let args: Vec<&str> = ["--config", &path].into_iter().chain(args.iter().copied()).collect();
    (try_load(&args, variables).unwrap(), path.clone())
}

fn texts(values: Values) -> Vec<String> {
    values.finish().map_or_else(|e| e.mistakes.iter().map(ToString::to_string).collect(), |()| vec![])
}

/// The one mistake that `read` records for this flag.
fn refusal<T>(name: &str, value: &str, read: impl FnOnce(&mut Values, &str) -> T) -> String {
    let mut values = try_load(&[&format!("--{name}={value}")], &[]).unwrap();
    read(&mut values, name);
    let texts = texts(values);
    assert_eq!(texts.len(), 1, "{name}={value}: {texts:?}");
    texts[0].clone()
}

#[test]
fn settings_of_earlier_systems_are_refused_with_a_reason() {
    for (args, variables) in
        [(&["--dispatch-lock-duration=5min"][..], &[][..]), (&[], &[("DISPATCH_LOCK_DURATION", "5min")])]
    {
        let source: MapSource = variables.iter().copied().collect();
        let args = ["sched-worker"].iter().chain(args);
        let values = load(&PROGRAM, &[OWN, DATABASE, REFUSED], args, &source).unwrap();
        assert!(!values.effective().contains("dispatch-lock-duration"));
        let texts = texts(values);
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(
            texts[0].starts_with("dispatch-lock-duration (") && texts[0].ends_with("; remove it"),
            "{texts:?}"
        );
    }
    let file = file("worker-job-timeout = \"600s\"\n");
    let args = ["sched-worker", "--config", file.path().to_str().unwrap()];
    let texts = texts(load(&PROGRAM, &[OWN, DATABASE, REFUSED], args, &MapSource::default()).unwrap());
    assert!(texts.len() == 1 && texts[0].contains("default_timeout_seconds"), "{texts:?}");
}

#[test]
fn optional_health_listener_needs_its_port() {
    let read = |variables: &[(&str, &str)]| {
        let source: MapSource = variables.iter().copied().collect();
        let mut values =
            load(&PROGRAM, &[OWN, DATABASE, OPTIONAL_HEALTH], ["sched-worker"], &source).unwrap();
        let settings = HealthSettings::read_optional(&mut values);
        (settings.map(|settings| settings.socket_addr().to_string()), texts(values))
    };
    assert_eq!(read(&[]), (None, vec![]));
    assert_eq!(read(&[("HEALTH_PORT", "9100")]), (Some("127.0.0.1:9100".to_owned()), vec![]));
    let both = [("HEALTH_PORT", "9100"), ("HEALTH_HOST", "0.0.0.0")];
    assert_eq!(read(&both), (Some("0.0.0.0:9100".to_owned()), vec![]));
    let (settings, texts) = read(&[("HEALTH_HOST", "0.0.0.0")]);
    assert!(settings.is_none() && texts[0].contains("without health-port"), "{texts:?}");
}

#[test]
fn flags_are_stronger_than_variables_than_the_file_than_defaults() {
    const FLAT: &str = "worker-concurrency = 3\n";
    const BOTH: &str = "[worker]\nworker-concurrency = 4\n[scheduler]\nanything = 1\n";
    for (text, args, variables, expected) in [
        ("", &[][..], &[][..], 10),
        (FLAT, &[], &[], 3),
        (&format!("{FLAT}{BOTH}"), &[], &[], 4),
        (FLAT, &[], &[("WORKER_CONCURRENCY", "5")], 5),
        (FLAT, &["--worker-concurrency", "6"], &[("WORKER_CONCURRENCY", "5")], 6),
        // Set but empty is not set.
        (FLAT, &[], &[("WORKER_CONCURRENCY", " ")], 3),
        ("worker_concurrency = 7", &[], &[], 7),
    ] {
        let (mut values, _) = with_file(text, args, variables);
        assert_eq!(
            values.integer("worker-concurrency", 1..=100),
            expected,
            "{text:?} {args:?} {variables:?}"
        );
        values.finish().unwrap();
    }
}

#[test]
fn the_file_can_be_named_by_a_variable() {
    let file = file("worker-queues = [\"a\", \"b\"]\nlog-level = 'debug'");
    let mut values = try_load(&[], &[("SCHED_CONFIG", file.path().to_str().unwrap())]).unwrap();
    assert_eq!(values.list("worker-queues"), ["a", "b"]);
    assert_eq!(LogSettings::read(&mut values).directives, "debug");
    values.finish().unwrap();
}

#[test]
fn every_kind_of_value_is_read() {
    let args = [
        "--worker-poll-interval=1min 30s",
        "--worker-queues= a,, b ,",
        "--worker-verbose",
        "--worker-token=t0ken",
        "--log-format=json",
        "--log-level=warn, hyper=off",
        "--health-host=::1",
    ];
    let mut values = try_load(&args, &[URL]).unwrap();
    assert_eq!(values.duration("worker-poll-interval"), Duration::from_secs(90));
    assert_eq!(values.list("worker-queues"), ["a", "b"]);
    assert!(values.boolean("worker-verbose"));
    assert_eq!(values.secret("worker-token").expose_secret(), "t0ken");
    assert_eq!(values.optional_string("worker-note"), None);
    let logging = LogSettings { directives: "warn,hyper=off".to_owned(), format: LogFormat::Json };
    assert_eq!(LogSettings::read(&mut values), logging);
    assert!(HealthSettings::read(&mut values).host.is_ipv6());
    let database = DatabaseSettings::read(&mut values);
    assert_eq!((database.pool_size, database.lock_timeout), (12, Duration::from_secs(3)));
    assert_eq!(database.url.expose_secret(), URL.1);
    assert_eq!(ProcessSettings::read(&mut values).exit_with_parent, None);
    values.finish().unwrap();
}

#[test]
fn a_refused_value_is_shown_with_its_origin_and_what_is_allowed() {
    let poll = |text: &str| refusal("worker-poll-interval", text, |v, name| v.duration(name));
    let slots = |text: &str| refusal("worker-concurrency", text, |v, name| v.integer(name, 1_u16..=1000));
    assert_eq!(
        slots("many"),
        r#"worker-concurrency = "many" (flag --worker-concurrency) must be a whole number from 1 to 1000"#
    );
    for (found, part) in [
        (slots("0"), "from 1 to 1000"),
        (slots("-3"), "from 1 to 1000"),
        (slots("99999999"), "from 1 to 1000"),
        (poll("10"), "needs a unit, for example 500ms, 10s"),
        (poll("1.5"), "needs a unit"),
        (poll("soon"), "must be a duration with a unit"),
        (poll("0s"), "must be longer than 0s"),
        (poll("1000years"), "at most"),
        (refusal("worker-queues", " , ", |v, name| v.list(name)), "at least one item"),
        (refusal("worker-verbose", "maybe", |v, name| v.boolean(name)), "must be true or false"),
        (refusal("worker-note", "", |v, name| v.optional_string(name)), "must not be empty"),
        (
            refusal("log-format", "xml", |v, name| v.choice::<LogFormat>(name, &["text", "json"])),
            "one of text, json",
        ),
        (refusal("log-level", "inof", |v, _| LogSettings::read(v)), "info, debug or trace"),
        (refusal("health-host", "db.example", |v, name| v.ip(name)), "must be an IP address"),
        (refusal("worker-note", "http://x:1", |v, name| v.host(name)), "without scheme and port"),
        (refusal("health-port", "70000", |v, _| HealthSettings::read(v)), "from 0 to 65535"),
    ] {
        assert!(found.contains(part), "{found} lacks {part}");
    }
}

#[test]
fn all_mistakes_are_told_at_once_with_their_origins() {
    let text = "worker-concurency = 3\nlog-format = 1979-05-27\n[wroker]\n[worker]\nhealth-port = 'http'\n";
    let (mut values, path) = with_file(text, &["--worker-poll-interval=10"], &[("LOG_LEVEL", "loud")]);
    values.duration("worker-poll-interval");
    LogSettings::read(&mut values);
    HealthSettings::read(&mut values);
    DatabaseSettings::read(&mut values);
    let error = values.finish().unwrap_err();
    assert_eq!(error.exit_code(), crate::exit::USAGE);
    let lines: Vec<String> =
        error.to_string().lines().map(|line| line.trim().replace(&path, "FILE")).collect();
    let expected = [
        "invalid configuration:",
        r#"FILE:1: unknown setting "worker-concurency"; did you mean "worker-concurrency"?"#,
        r#"FILE:3: unknown table "wroker"; did you mean "worker"?"#,
        "log-format (FILE:2, key log-format) must be a text, a number, true or false, or an array of texts",
        r#"worker-poll-interval = "10" (flag --worker-poll-interval) needs a unit, for example 500ms, 10s, 5min or 2h"#,
        r#"log-level = "loud" (variable LOG_LEVEL) must be off, error, warn, info, debug or trace, or target=level, separated by commas"#,
        r#"health-port = "http" (FILE:5, key worker.health-port) must be a whole number from 0 to 65535"#,
        "database-url is required: give flag --database-url, variable DATABASE_URL or key database-url in the file, \
         for example postgresql://sched@localhost:5432/sched",
    ];
    let mut sorted = lines.clone();
    // The parser returns unknown keys in its own order, not in that of the file.
    sorted[1..3].sort();
    assert_eq!(sorted, expected);
}

#[test]
fn database_url_comes_from_a_private_file() {
    let read = |content: &str, variables: &[(&str, &str)]| {
        let file = file(content);
        let path = file.path().to_str().unwrap().to_owned();
        let given = [&[("DATABASE_URL_FILE", path.as_str())][..], variables].concat();
        let mut values = try_load(&[], &given).unwrap();
        let url = DatabaseSettings::read(&mut values).url;
        let effective = values.effective();
        assert!(!effective.contains("s3cret"), "{effective}");
        values.finish().map(|()| url.expose_secret().to_owned()).map_err(|error| error.to_string())
    };
    assert_eq!(read("postgresql://app:s3cret@db/sched\n", &[]).unwrap(), URL.1);
    for (content, variables, part) in [
        (URL.1, &[URL][..], "exclude each other"),
        (" \n", &[], "must contain the URL"),
        ("mysql://app:s3cret@db", &[], "must start with postgresql://"),
    ] {
        let error = read(content, variables).unwrap_err();
        assert!(error.contains(part) && !error.contains("s3cret"), "{error}");
    }
    let mut values = try_load(&["--database-url-file=/nonexistent"], &[]).unwrap();
    DatabaseSettings::read(&mut values);
    let error = values.finish().unwrap_err().to_string();
    assert!(error.contains("cannot be used: /nonexistent cannot be read"), "{error}");
}

#[test]
fn no_output_shows_a_secret() {
    let variables = [("DATABASE_URL", "mysql://app:s3cret@db/sched"), ("WORKER_TOKEN", "s3cret")];
    let mut values = try_load(&["--worker-note=http://me:s3cret@host/"], &variables).unwrap();
    let database = DatabaseSettings::read(&mut values);
    values.mistake("worker-token", "is bad");
    values.mistake("worker-note", "is bad");
    let effective = values.effective();
    let error = values.finish().unwrap_err().to_string();
    for output in [&effective, &error, &format!("{database:?}")] {
        assert!(!output.contains("s3cret"), "{output}");
    }
    assert!(
        effective.contains(r#"database-url = "mysql://app:***@db/sched" # variable DATABASE_URL"#),
        "{effective}"
    );
    assert!(
        error.contains(r#""mysql://app:***@db/sched" (variable DATABASE_URL) must start with postgresql://"#)
    );
    assert!(error.contains(r#"worker-token = "[redacted]" (variable WORKER_TOKEN) is bad"#), "{error}");

    let stray = try_load(&["postgresql://app:s3cret@db/sched"], &[]).unwrap_err().to_string();
    assert!(stray.contains("postgresql://app:***@db") && !stray.contains("s3cret"), "{stray}");
}

#[test]
fn the_effective_configuration_is_a_file_that_loads_again() {
    let (values, path) = with_file("worker-queues = 'a, b'", &["--log-level=debug"], &[]);
    let text = values.effective();
    assert!(text.contains(&format!("worker-queues = \"a, b\" # {path}:1, key worker-queues\n")), "{text}");
    assert!(text.contains("log-level = \"debug\" # flag --log-level\n"), "{text}");
    assert!(text.contains("database-pool-size = \"12\" # default\n"), "{text}");
    assert!(text.contains("# worker-note is not set\n") && !text.contains("exit-with-parent"), "{text}");
    let (mut values, _) = with_file(&text, &[], &[]);
    assert_eq!(values.list("worker-queues"), ["a", "b"]);
    assert_eq!(values.string("log-level"), "debug");
    values.finish().unwrap();
}

#[test]
fn help_names_the_variable_and_the_default_of_every_visible_setting() {
    let Err(LoadError::Answered { text }) = try_load(&["--help"], &[]) else { panic!("no help") };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for setting in GROUPS.iter().copied().flatten() {
        assert_eq!(text.contains(&format!("--{}", setting.name)), !setting.hidden, "{}", setting.name);
        assert_eq!(text.contains(&format!("[env: {}]", setting.env)), !setting.hidden, "{}", setting.name);
    }
    assert!(text.contains("[env: DATABASE_POOL_SIZE] [default: 12]"), "{text}");
    assert!(text.contains("[env: SCHED_CONFIG]"), "{text}");
}

#[test]
fn what_cannot_be_understood_at_all_is_a_usage_error() {
    let broken = file("a = 1\nb = = 2\n");
    let path = broken.path().to_str().unwrap();
    for (args, part) in [
        (["--nonsense", "1"], "unexpected argument '--nonsense'"),
        (["--worker-concurency", "1"], "--worker-concurrency"),
        (
            ["--config", "/nonexistent/sched.toml"],
            "/nonexistent/sched.toml (named by flag --config): No such file",
        ),
        (["--config", path], ":2: not valid TOML"),
    ] {
        let error = try_load(&args, &[]).unwrap_err();
        let text = crate::exit::describe(&error);
        assert!(text.contains(part) && !text.starts_with("error"), "{text}");
        assert_eq!(error.exit_code(), crate::exit::USAGE);
    }
}

#[test]
fn one_setting_given_twice_in_the_file_is_a_mistake() {
    let (values, path) =
        with_file("log-level = 'info'\nlog_level = 'warn'\n[worker]\nlog-level = 'debug'\n", &[], &[]);
    let found: Vec<String> = texts(values).iter().map(|text| text.replace(&path, "FILE")).collect();
    assert_eq!(found, ["log-level is given twice: FILE:1, key log-level and FILE:2, key log_level"]);
}

#[test]
fn faults_of_the_program_are_told_instead_of_hidden() {
    const WRONG: Program = Program::new("sched-worker", "1", "x").defaults(&[("helth-port", "1")]);
    let mut values = load(&WRONG, &[OWN], ["sched-worker"], &MapSource::default()).unwrap();
    values.string("worker-nothing");
    let texts = texts(values);
    assert_eq!(texts.len(), 2);
    assert!(texts.iter().all(|text| text.contains("a fault of the program")), "{texts:?}");
}

#[test]
fn checks_across_settings_name_the_setting_to_change() {
    let args = ["--database-lock-timeout=30s"];
    let mut values = try_load(&args, &[URL]).unwrap();
    DatabaseSettings::read(&mut values);
    let texts = texts(values);
    assert_eq!(texts.len(), 1);
    assert!(
        texts[0].contains("--database-lock-timeout) must be below database-statement-timeout"),
        "{texts:?}"
    );
}

#[test]
fn a_program_with_a_command_of_its_own_can_mount_the_settings() {
    let command = clap::Command::new("schedctl").args(arguments(&PROGRAM, &[LOGGING]));
    let matches = command.try_get_matches_from(["schedctl", "--log-level=warn"]).unwrap();
    let mut values = resolve(&PROGRAM, &[LOGGING, OWN, DATABASE], &matches, &MapSource::default()).unwrap();
    assert_eq!(LogSettings::read(&mut values).directives, "warn");
    // A setting that was not mounted has no flag but every other source.
    assert_eq!(values.integer("worker-concurrency", 1..=100), 10);
    assert!(!values.check_requested());
    values.finish().unwrap();
}

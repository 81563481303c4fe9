//! The environment variables that a job may set or inherit.

/// Variables that the worker sets for an attempt, besides those with the prefix `SCHED_`.
const RESERVED: [&str; 1] = ["TRACEPARENT"];

/// Prefixes of variables that make loaders and interpreters run foreign code.
const DANGEROUS_PREFIXES: [&str; 6] = ["LD_", "DYLD_", "PYTHON", "GIT_", "BASH_FUNC_", "NPM_CONFIG_"];

const DANGEROUS: [&str; 24] = [
    "BASHOPTS",
    "BASH_ENV",
    "CDPATH",
    "ENV",
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "GLOBIGNORE",
    "HOSTALIASES",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LOCPATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PROMPT_COMMAND",
    "PS4",
    "RUBYLIB",
    "RUBYOPT",
    "SHELLOPTS",
    "ZDOTDIR",
    "_JAVA_OPTIONS",
];

/// Exceptions: variables that only change how a program prints.
const HARMLESS: [&str; 4] = ["PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONDONTWRITEBYTECODE"];

pub(super) fn refusal(name: &str) -> Option<&'static str> {
    let upper = name.to_ascii_uppercase();
    let upper = upper.as_str();
    if !is_name(name) {
        return Some("is not a variable name: letters, digits and _ only, not beginning with a digit");
    }
    if upper == "PATH" {
        return Some(
            "is fixed by the worker, so that no job chooses which program a name means; use absolute paths",
        );
    }
    if upper.starts_with("SCHED_") || RESERVED.contains(&upper) {
        return Some("is reserved: the worker sets it, or it belongs to the worker itself");
    }
    if HARMLESS.contains(&upper) {
        return None;
    }
    if DANGEROUS.contains(&upper) || DANGEROUS_PREFIXES.iter().any(|prefix| upper.starts_with(prefix)) {
        return Some(
            "is refused: it can make another program run foreign code; give the program an option instead",
        );
    }
    None
}

fn is_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

/// Why no function may inherit a variable of the worker's environment, even if its operator allows
/// it. The text continues the name.
#[must_use]
pub fn inheritance_refusal(name: &str) -> Option<&'static str> {
    if let Some(reason) = refusal(name) {
        return Some(reason);
    }
    let upper = name.to_ascii_uppercase();
    if OWN_PREFIXES.iter().any(|prefix| upper.starts_with(prefix)) {
        return Some("is a setting of the scheduler's programs, which no job inherits; set a value in env");
    }
    if is_secret(&upper) || is_address(&upper) {
        return Some("looks like a secret of the worker, which no job inherits; set it in env");
    }
    None
}

/// Of settings of the daemons and of `schedctl`. Settings that are useful to jobs and never secret,
/// such as `BACKUP_DIR`, have other ones.
const OWN_PREFIXES: [&str; 13] = [
    "API_",
    "ARCHIVE_",
    "DATABASE_",
    "ERROR_TRACKER_",
    "HEALTH_",
    "HEARTBEAT_",
    "JWT_",
    "LEADER_",
    "OTEL_",
    "SCHED",
    "SECRETS_",
    "SESSION_",
    "WORKER_",
];

/// Whether the literal value of a variable or a header may be a secret, by its name and its text. The
/// API shows such a value to no caller.
#[must_use]
pub fn may_be_secret(name: &str, value: &str) -> bool {
    let upper = name.to_ascii_uppercase().replace('-', "_");
    // A password before the host, or a signature in the query.
    let has_credentials = |text: &str| text.contains(['@', '?']);
    let address = value.split_once("://").map(|(_, rest)| rest);
    is_secret(&upper)
        || is_address(&upper) && address.is_none_or(has_credentials)
        || address.is_some_and(|rest| rest.split('/').next().is_some_and(|host| host.contains('@')))
}

/// Whether the name, in capital letters, is that of an address. URLs and connection strings often
/// contain a password.
fn is_address(upper: &str) -> bool {
    const ENDINGS: [&str; 5] = ["PROXY", "URI", "URIS", "URL", "URLS"];
    // A list of hosts.
    upper != "NO_PROXY"
        && (upper.split('_').any(|word| matches!(word, "PROXY" | "URI" | "URL"))
            || ENDINGS.iter().any(|ending| upper.ends_with(ending)))
}

/// Whether the value may be a secret, by a name in capital letters.
fn is_secret(upper: &str) -> bool {
    const ANYWHERE: [&str; 17] = [
        "ACCESS_KEY",
        "APIKEY",
        "API_KEY",
        "AUTHORIZATION",
        "CONNECTION_STRING",
        "CONNECTIONSTRING",
        "COOKIE",
        "CREDENTIAL",
        "PASSFILE",
        "PASSPHRASE",
        "PASSWD",
        "PASSWORD",
        "PGSERVICEFILE",
        "PRIVATE_KEY",
        "SECRET",
        "TOKEN",
        "WEBHOOK",
    ];
    const WHOLE_WORDS: [&str; 11] =
        ["AUTH", "BEARER", "CONN", "DSN", "JWT", "KEY", "KEYS", "PASS", "PAT", "SAS", "SK"];
    const ENDINGS: [&str; 5] = ["DSN", "KEY", "KEYS", "PASS", "PWD"];
    // The working folders of a shell.
    if matches!(upper, "PWD" | "OLDPWD") {
        return false;
    }
    ANYWHERE.iter().any(|word| upper.contains(word))
        || upper.split('_').any(|word| WHOLE_WORDS.contains(&word))
        || ENDINGS.iter().any(|ending| upper.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::super::ProcessConfig;
    use super::*;

    #[test]
    fn loaders_and_interpreters_cannot_be_steered() {
        for name in [
            "LD_PRELOAD",
            "ld_preload",
            "LD_LIBRARY_PATH",
            "DYLD_INSERT_LIBRARIES",
            "BASH_ENV",
            "ENV",
            "IFS",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "NODE_OPTIONS",
            "PERL5OPT",
            "PERL5LIB",
            "RUBYOPT",
            "GIT_SSH_COMMAND",
            "JAVA_TOOL_OPTIONS",
        ] {
            assert!(refusal(name).is_some(), "{name}");
            let json = format!(r#"{{"program": "x", "env_allow": ["{name}"]}}"#);
            let mistakes = ProcessConfig::parse(&mut serde_json::Deserializer::from_str(&json)).unwrap_err();
            let fields: Vec<_> = mistakes.iter().map(|mistake| mistake.field.as_str()).collect();
            assert_eq!(fields, [format!("env_allow.{name}")]);
        }
    }

    #[test]
    fn literal_values_are_secret_by_name_or_by_credentials() {
        for (name, value) in [
            ("MY_TOKEN", "x"),
            ("PGPASSWORD", "x"),
            ("X-Api-Key", "x"),
            ("authorization", "Basic x"),
            ("Cookie", "a=b"),
            ("DATABASE_URL", "postgres://ada:pw@db/app"),
            ("DATABASE_URL", "host=db password=pw"),
            ("CALLBACK_URL", "https://example.com/x?sig=1"),
            ("SENTRY_DSN", "https://example.com/1"),
            ("SLACK_WEBHOOK", "https://example.com/1"),
            ("UPSTREAM", "https://ada:pw@example.com/"),
        ] {
            assert!(may_be_secret(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("PGDATABASE", "sched"),
            ("REGION", "north"),
            ("NO_PROXY", "localhost"),
            ("API_URL", "https://example.com/v1"),
            ("X-Source", "sched"),
            ("MAIL_TO", "ops@example.com"),
            ("LINK", "https://example.com/@ada"),
        ] {
            assert!(!may_be_secret(name, value), "{name}={value}");
        }
    }

    #[test]
    fn settings_and_secrets_of_the_worker_are_not_inherited() {
        for name in [
            "WORKER_SMTP_URL",
            "worker_smtp_url",
            "WORKER_QUEUES",
            "OTEL_EXPORTER_OTLP_HEADERS",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            "OTEL_SERVICE_NAME",
            "ARCHIVE_URL",
            "DATABASE_URL",
            "DATABASE_CA_FILE",
            "ERROR_TRACKER_DSN",
            "SECRETS_KEY_FILE",
            "SCHEDULER_LANES",
            "SCHED_API_KEY",
            "APIKEY",
            "MY_API_KEY",
            "DB_PASS",
            "DBPASS",
            "PASS",
            "MYSQL_PWD",
            "DBPWD",
            "RSA_PRIVATE_KEY_PEM",
            "SIGNING_KEY_V2",
            "REDIS_URL_1",
            "MONGO_URI_RO",
            "PGSERVICEFILE",
            "SSH_PASSPHRASE",
            "COOKIE",
            "AUTHORIZATION",
            "HTTP_AUTHORIZATION",
            "REDIS_URL",
            "CELERY_BROKER_URL",
            "AMQP_URL",
            "MONGO_URI",
            "JDBC_URL",
            "DB_CONNECTION_STRING",
            "AIRFLOW_CONN_DB",
            "SENTRY_DSN",
            "HTTPS_PROXY",
            "https_proxy",
            "ALL_PROXY",
            "GITHUB_PAT",
            "STRIPE_SK",
            "SSH_AUTH_SOCK",
            "NPM_AUTH",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "SLACK_WEBHOOK",
            "PGPASSWORD",
            "PGPASSFILE",
            "PATH",
        ] {
            assert!(inheritance_refusal(name).is_some(), "{name}");
        }
        for name in [
            "HOME",
            "TZ",
            "LC_ALL",
            "JAVA_HOME",
            "NO_PROXY",
            "PGHOST",
            "PGPORT",
            "PGUSER",
            "PGDATABASE",
            "PG_BIN_DIR",
            "BACKUP_DIR",
            "AWS_REGION",
            "AUTHOR",
            "PATTERN",
            "PASSENGERS",
            "TASK_ID",
            "PWD",
            "OLDPWD",
        ] {
            assert_eq!(inheritance_refusal(name), None, "{name}");
        }
    }
}

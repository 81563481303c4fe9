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

/// Whether a variable of the worker's environment may hold one of its secrets.
pub(super) fn is_secret(name: &str) -> bool {
    const TELLING: [&str; 9] = [
        "DATABASE_URL",
        "PASSWORD",
        "PASSWD",
        "PASSFILE",
        "SECRET",
        "TOKEN",
        "CREDENTIAL",
        "API_KEY",
        "PRIVATE_KEY",
    ];
    let upper = name.to_ascii_uppercase();
    TELLING.iter().any(|word| upper.contains(word)) || upper.ends_with("_KEY") || upper.ends_with("_DSN")
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
}

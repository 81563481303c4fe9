#![expect(clippy::indexing_slicing, reason = "a missing value fails the test with its position")]

use reference::{check_page, row, table_head};
use sched_runtime::config::{Program, Sensitivity, Setting};
use sched_worker::handlers::process::EnvAllowList;

struct Daemon {
    program: Program,
    settings: Vec<Setting>,
}

fn daemon(program: Program, groups: &[&[Setting]]) -> Daemon {
    let all = groups.iter().chain(sched_runtime::daemon::COMMON).flat_map(|group| group.iter());
    Daemon { program, settings: all.filter(|setting| !setting.hidden).copied().collect() }
}

/// The cell with the default; `daemons` with other defaults are listed.
fn default(setting: &Setting, daemons: &[&Daemon]) -> String {
    let of = |daemon: &&Daemon| daemon.program.default_of(setting);
    let defaults: Vec<_> = daemons.iter().map(of).collect();
    let shown = |default: Option<&str>| match default {
        Some("") => String::new(),
        Some(value) => format!("`{value}`"),
        None if setting.name == "database-url" => "required".to_owned(),
        None => String::new(),
    };
    if defaults.windows(2).all(|pair| pair[0] == pair[1]) {
        return shown(defaults[0]);
    }
    let each = daemons.iter().zip(defaults).filter(|(_, value)| value.is_some());
    each.map(|(daemon, value)| format!("{} ({})", shown(value), daemon.program.name))
        .collect::<Vec<_>>()
        .join(", ")
}

fn line(setting: &Setting, daemons: &[&Daemon]) -> String {
    let flag = if setting.switch {
        format!("`--{}`", setting.name)
    } else {
        format!("`--{} {}`", setting.name, setting.value_name)
    };
    let secret = match setting.sensitivity {
        Sensitivity::Public => "",
        Sensitivity::SecretUrl => " *Secret URL.*",
        Sensitivity::Secret => " *Secret.*",
    };
    let meaning = format!("{}{secret}", setting.help);
    row(&[&flag, &format!("`{}`", setting.env), &default(setting, daemons), &meaning])
}

fn daemons() -> [Daemon; 3] {
    [
        daemon(sched_api::PROGRAM, sched_api::config::GROUPS),
        daemon(sched_scheduler::PROGRAM, sched_scheduler::config::GROUPS),
        daemon(sched_worker::PROGRAM, sched_worker::config::GROUPS),
    ]
}

#[test]
fn jobs_cannot_inherit_secret_settings() {
    let settings = daemons().into_iter().flat_map(|daemon| daemon.settings);
    let secret: Vec<Setting> =
        settings.filter(|setting| setting.sensitivity != Sensitivity::Public).collect();
    assert!(secret.iter().any(|setting| setting.env == "WORKER_SMTP_URL"), "{secret:?}");
    for setting in secret {
        assert!(EnvAllowList::parse(&[setting.env]).is_err(), "{}", setting.env);
    }
}

#[test]
fn reference_settings_is_current() {
    let daemons = daemons();
    let every: Vec<&Daemon> = daemons.iter().collect();
    let named = |daemon: &Daemon, name: &str| daemon.settings.iter().find(|one| one.name == name).copied();
    let is_shared = |setting: &Setting| daemons.iter().all(|daemon| named(daemon, setting.name).is_some());
    let head = table_head(&["Flag", "Variable", "Default", "Meaning"]);
    let mut text = format!("## All daemons\n\n{head}");
    for setting in daemons[0].settings.iter().filter(|setting| is_shared(setting)) {
        for other in daemons.iter().filter_map(|daemon| named(daemon, setting.name)) {
            assert_eq!((setting.env, setting.value_name), (other.env, other.value_name), "{}", setting.name);
        }
        text += &line(setting, &every);
    }
    for daemon in &daemons {
        text += &format!("\n## {}\n\n{head}", daemon.program.name);
        let own: Vec<_> = daemon.settings.iter().filter(|setting| !is_shared(setting)).collect();
        assert!(!own.is_empty());
        for setting in own {
            text += &line(setting, &[daemon]);
        }
    }
    check_page("settings.md", &text);
}

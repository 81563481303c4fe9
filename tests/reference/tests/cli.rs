//! `docs/reference/cli.md`, from the same description as `--help` and the manual pages.

use clap::{Arg, Command};
use reference::{check_page, row, table_head};

fn is_hidden(argument: &Arg) -> bool {
    argument.is_hide_set() || matches!(argument.get_id().as_str(), "help" | "version")
}

/// A command's own arguments. Settings of daemons, which `dev` takes too, have their own page.
fn arguments(command: &Command, is_global: bool) -> String {
    let settings = || {
        let groups = sched_api::config::GROUPS.iter();
        let groups = groups.chain(sched_scheduler::config::GROUPS).chain(sched_worker::config::GROUPS);
        groups.chain(sched_runtime::daemon::COMMON).flat_map(|group| group.iter())
    };
    let mut rows = String::new();
    for argument in command.get_arguments().filter(|one| !is_hidden(one) && one.is_global_set() == is_global)
    {
        if settings().any(|setting| setting.name == argument.get_id().as_str()) {
            continue;
        }
        let mut meaning = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let choices = argument.get_possible_values();
        let takes_value = argument.get_action().takes_values();
        if takes_value && !choices.is_empty() {
            let names: Vec<_> = choices.iter().map(|choice| format!("`{}`", choice.get_name())).collect();
            meaning += &format!(": {}", names.join(", "));
        }
        if let Some(variable) = argument.get_env() {
            meaning += &format!(" (`{}`)", variable.to_string_lossy());
        }
        let defaults: Vec<_> = argument
            .get_default_values()
            .iter()
            .filter(|_| takes_value)
            .map(|value| format!("`{}`", value.to_string_lossy()))
            .collect();
        rows += &row(&[&format!("`{argument}`"), &defaults.join(", "), &meaning]);
    }
    if rows.is_empty() {
        rows
    } else {
        format!("\n{}{rows}", table_head(&["Argument", "Default", "Meaning"]))
    }
}

fn commands(command: &Command, path: &str, text: &mut String) {
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    *text += &format!("\n### `{path}`\n\n{}\n", about.trim());
    let below: Vec<_> =
        command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help").collect();
    *text += &arguments(command, false);
    for inner in below {
        commands(inner, &format!("{path} {}", inner.get_name()), text);
    }
}

#[test]
fn reference_cli_is_current() {
    let mut command = schedctl::command().term_width(0);
    command.build();
    let mut text = format!("### Global options\n{}", arguments(&command, true));
    for inner in command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help") {
        commands(inner, &format!("schedctl {}", inner.get_name()), &mut text);
    }
    check_page("cli.md", &text);
}

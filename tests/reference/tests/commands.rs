//! Every `schedctl` command and flag that a document names exists.

#![expect(clippy::unwrap_used, reason = "clippy does not see that everything in this file is test code")]

use std::path::{Path, PathBuf};

use clap::{Arg, Command};

const PLACES: [&str; 5] = ["README.md", "CONTRIBUTING.md", "docs", "deploy", "crates"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Pages everywhere below a folder of documents; of a crate only its README.
fn pages(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        let is_crates = path.ends_with("crates");
        let inner = entries.map(|entry| if is_crates { entry.join("README.md") } else { entry });
        inner.filter(|entry| entry.exists()).for_each(|entry| pages(&entry, found));
    } else if path
        .extension()
        .is_some_and(|kind| ["md", "yaml", "env", "service"].iter().any(|known| kind == *known))
    {
        found.push(path.to_owned());
    }
}

fn command() -> Command {
    let mut command = schedctl::command();
    command.build();
    command
}

fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

fn flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| match word.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => {
            arg.get_short().is_some_and(|short| word.strip_prefix('-') == Some(short.to_string().as_str()))
        }
    })
}

fn flag_below<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    command.get_subcommands().find_map(|inner| flag(inner, word).or_else(|| flag_below(inner, word)))
}

/// The commands along the words after `schedctl`, up to the last one that they name.
fn follow<'a>(root: &'a Command, line: &str) -> Result<Vec<&'a Command>, String> {
    let mut path = vec![root];
    let mut has_argument = false;
    let clean = |word: &str| word.trim_end_matches(['`', ',', '.', ')', ';', ':', '"', '\'']).to_owned();
    let mut words = line.split_whitespace().map(clean);
    while let Some(word) = words.next() {
        let command = *path.last().unwrap();
        let is_flag = word.starts_with('-')
            && word.trim_start_matches('-').starts_with(|first: char| first.is_ascii_lowercase());
        if ["--", "&&", "||", "|", ">", "<", "\\", ""].contains(&word.as_str()) || word.starts_with('#') {
            break;
        }
        if is_flag {
            let (name, value) =
                word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
            // Prose names a flag of several commands without a command.
            let below = || if path.len() == 1 { flag_below(root, name) } else { None };
            let found = flag(command, name).or_else(below);
            let found = found.ok_or_else(|| format!("{} has no flag {name}", command.get_name()))?;
            if found.get_action().takes_values() && value.is_none() && !found.is_require_equals_set() {
                words.next();
            }
        } else if let Some(inner) = command.find_subcommand(&word).filter(|_| !has_argument) {
            path.push(inner);
        } else if command.has_subcommands() && !has_argument && is_word(&word) {
            return Err(format!("{} has no command {word}", command.get_name()));
        } else {
            has_argument = true;
        }
    }
    Ok(path)
}

/// The texts after each `schedctl` of a line of code.
fn calls(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("schedctl ").filter_map(|(at, name)| {
        let before = line.get(..at).unwrap_or_default().chars().next_back();
        before
            .is_none_or(|one| one.is_whitespace() || "`('\"".contains(one))
            .then(|| line.get(at + name.len()..).unwrap_or_default())
    })
}

/// The mistakes of a page, and the number of its commands.
fn check(root: &Command, page: &str, is_markdown: bool) -> (Vec<String>, usize) {
    let (mut mistakes, mut count) = (Vec::new(), 0);
    let mut prose = String::new();
    let mut in_block = !is_markdown;
    for line in page.lines() {
        if is_markdown && line.trim_start().starts_with("```") {
            in_block = !in_block;
            prose.push_str("\n\n");
        } else if in_block {
            for call in calls(line) {
                count += 1;
                mistakes.extend(follow(root, call).err());
            }
        } else {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    for paragraph in prose.split("\n\n") {
        let mut before: Option<Vec<&Command>> = None;
        let parts: Vec<&str> = paragraph.split('`').collect();
        for pair in parts.chunks(2) {
            let &[text, code] = pair else { continue };
            let joint = text.split_whitespace().collect::<Vec<_>>().join(" ");
            if let Some(call) = code.strip_prefix("schedctl ") {
                count += 1;
                match follow(root, call) {
                    Ok(path) => before = Some(path),
                    Err(mistake) => mistakes.push(mistake),
                }
                continue;
            }
            // `schedctl jobs pause` and `resume`: the second one leaves out the words before it.
            let known =
                before.take().filter(|_| [",", "and", "or", ", and", ", or"].contains(&joint.as_str()));
            let (Some(path), Some(word)) =
                (known, code.split_whitespace().next().filter(|word| is_word(word)))
            else {
                continue;
            };
            if word != "schedctl" && !path.iter().any(|command| command.find_subcommand(word).is_some()) {
                mistakes.push(format!("{} has no command {word}", path.last().unwrap().get_name()));
            }
            before = Some(path);
        }
    }
    (mistakes, count)
}

#[test]
fn documents_name_existing_commands_only() {
    let (command, mut found) = (command(), Vec::new());
    PLACES.iter().for_each(|place| pages(&root().join(place), &mut found));
    let (mut mistakes, mut count) = (Vec::new(), 0);
    for page in found {
        let text = std::fs::read_to_string(&page).unwrap();
        let (wrong, commands) = check(&command, &text, page.extension().is_some_and(|kind| kind == "md"));
        mistakes.extend(wrong.into_iter().map(|wrong| format!("{}: {wrong}", page.display())));
        count += commands;
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    assert!(count > 200, "only {count} commands were found");
}

#[test]
fn wrong_commands_are_found() {
    let command = command();
    for (page, expected) in [
        ("Run `schedctl backup` now.", Some("schedctl has no command backup")),
        ("`schedctl migrate`, `backup` and `restore`", Some("migrate has no command backup")),
        ("`schedctl jobs lst`", Some("jobs has no command lst")),
        ("```sh\n$ schedctl jobs list --nope\n```", Some("list has no flag --nope")),
        ("```sh\nA=b schedctl --data-dir x jobs lst && true\n```", Some("jobs has no command lst")),
        ("`schedctl jobs pause`, `resume` and `next_run_at`, `schedctl jobs`", None),
        ("```sh\nschedctl  | text\nschedctl jobs explain x --from -2h | head --none\n```", None),
        ("`schedctl runs logs ID --follow`, `schedctl functions create f -- prog --flag`", None),
    ] {
        let (mistakes, _) = check(&command, page, true);
        assert_eq!(mistakes.first().map(String::as_str), expected, "{page}: {mistakes:?}");
    }
}

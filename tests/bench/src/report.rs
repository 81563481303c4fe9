//! The results and the facts about the machine.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use crate::figures::{Figure, number};
use crate::workspace::Workspace;

#[derive(Debug)]
pub(crate) struct Machine(Vec<(&'static str, String)>);

impl Machine {
    pub(crate) async fn inspect(
        workspace: &Workspace,
        program: &Path,
        is_quick: bool,
    ) -> anyhow::Result<Self> {
        let ours = std::process::Command::new(program)
            .arg("--version")
            .output()
            .context("failed to read the version")?;
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let mut facts = vec![
            ("sched", String::from_utf8_lossy(&ours.stdout).trim().to_owned()),
            ("PostgreSQL", workspace.admin.text("SHOW server_version").await?),
            ("settings", format!("defaults, and {}", workspace.settings.join(" "))),
            ("durability", durability(workspace).await?),
            ("cores", format!("{cores}, {}", proc_value("/proc/cpuinfo", "model name"))),
            ("memory", proc_value("/proc/meminfo", "MemTotal")),
            ("kernel", file("/proc/sys/kernel/osrelease")),
        ];
        if is_quick {
            facts.push(("note", "--quick: too small for meaningful bars".to_owned()));
        }
        let mut machine = Self(facts);
        machine.look_at_load("load before");
        Ok(machine)
    }

    pub(crate) fn look_at_load(&mut self, when: &'static str) {
        self.0.push((when, file("/proc/loadavg")));
    }

    fn json(&self) -> Value {
        self.0.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str()))).collect()
    }
}

async fn durability(workspace: &Workspace) -> anyhow::Result<String> {
    let mut shown = Vec::new();
    for name in ["fsync", "full_page_writes", "synchronous_commit"] {
        shown.push(format!("{name}={}", workspace.admin.text(&format!("SHOW {name}")).await?));
    }
    Ok(shown.join(" "))
}

/// The text of a file of the kernel; empty on systems other than Linux.
fn file(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// A value in a file of the kernel with names and values.
fn proc_value(path: &str, name: &str) -> String {
    value(&file(path), name)
}

fn value(text: &str, name: &str) -> String {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(key, _)| key.trim() == name);
    found.map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
}

pub(crate) fn write(
    into: &Path,
    name: &str,
    machine: &Machine,
    figures: &[Figure],
) -> anyhow::Result<PathBuf> {
    let path = into.join(name).with_extension("json");
    let array: Vec<Value> = figures
        .iter()
        .map(|figure| {
            let mut json = figure.json();
            if let Some(fields) = json.as_object_mut() {
                fields.insert("machine".to_owned(), machine.json());
            }
            json
        })
        .collect();
    let text = serde_json::to_string_pretty(&array)?;
    fs::write(&path, text + "\n").with_context(|| format!("failed to write {}", path.display()))?;
    Ok(path)
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Page<'a> {
    pub(crate) name: &'a str,
    pub(crate) machine: &'a Machine,
    pub(crate) figures: &'a [Figure],
    pub(crate) plots: &'a [String],
}

pub(crate) fn write_page(into: &Path, page: &Page<'_>) -> anyhow::Result<PathBuf> {
    let path = into.join(page.name).with_extension("md");
    fs::write(&path, page.markdown()).with_context(|| format!("failed to write {}", path.display()))?;
    Ok(path)
}

impl Page<'_> {
    fn markdown(&self) -> String {
        let Self { name, machine, figures, plots } = *self;
        let mut text = format!("# {name}\n\n");
        for (name, value) in &machine.0 {
            text.push_str(&format!("- {name}: {value}\n"));
        }
        text.push_str(&format!("\n| {} |\n|{}\n", HEAD.join(" | "), "---|".repeat(HEAD.len())));
        for figure in figures {
            text.push_str(&format!("| {} |\n", line(figure).join(" | ")));
            for (name, value, unit) in &figure.also {
                text.push_str(&format!("| | {} {unit} | | | | | {name} |\n", number(*value)));
            }
        }
        for plot in plots {
            text.push_str(&format!("\n![{plot}]({plot})\n"));
        }
        text
    }
}

const HEAD: [&str; 7] = ["name", "value", "ratio", "bar", "pass", "spread", "reference"];

pub(crate) fn table(machine: &Machine, figures: &[Figure]) -> String {
    let mut text = String::new();
    for (name, value) in &machine.0 {
        text.push_str(&format!("{name:<12} {value}\n"));
    }
    text.push('\n');
    let head = HEAD.map(ToOwned::to_owned);
    let mut lines = vec![head];
    for figure in figures {
        lines.push(line(figure));
    }
    let widths: Vec<usize> = (0..7)
        .map(|column| {
            lines.iter().filter_map(|cells| cells.get(column)).map(|cell| cell.chars().count()).max()
        })
        .map(Option::unwrap_or_default)
        .collect();
    for (position, cells) in lines.iter().enumerate() {
        let padded: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
        let figure = position.checked_sub(1).and_then(|position| figures.get(position));
        for (name, value, unit) in figure.map(|figure| figure.also.as_slice()).unwrap_or_default() {
            text.push_str(&format!("    {name}: {} {unit}\n", number(*value)));
        }
    }
    text
}

fn line(figure: &Figure) -> [String; 7] {
    let reference = match figure.reference.value {
        Some(value) => format!("{} {}: {}", number(value), figure.unit, figure.reference.what),
        None => figure.reference.what.clone(),
    };
    [
        figure.name.clone(),
        format!("{} {}", number(figure.value()), figure.unit),
        figure.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
        figure.bar_text(),
        if figure.passes() { "yes" } else { "NO" }.to_owned(),
        figure.spread_text(),
        reference,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Bar, Goal, Reference};

    #[test]
    fn page_has_the_machine_every_figure_and_every_plot() {
        let machine = Machine(vec![("PostgreSQL", "15.18".to_owned())]);
        let figure = Figure::new(
            "drain",
            "1/s",
            &[9.0],
            Goal { reference: Reference::value("pgbench", 10.0), bar: Bar::RatioAtLeast(0.7) },
        )
        .also("with defaults", 4.0, "1/s");
        let plots = ["worker-waits.svg".to_owned()];
        let page = Page { name: "worker", machine: &machine, figures: &[figure], plots: &plots }.markdown();
        for wanted in [
            "- PostgreSQL: 15.18\n",
            "| drain | 9.00 1/s | 0.90 | ratio >= 0.70 | yes | 1 run | 10.0 1/s: pgbench |\n",
            "| | 4.00 1/s | | | | | with defaults |\n",
            "![worker-waits.svg](worker-waits.svg)",
        ] {
            assert!(page.contains(wanted), "{wanted:?} is not in {page}");
        }
    }

    #[test]
    fn facts_are_read_from_files_of_the_kernel() {
        let text = "processor\t: 0\nmodel name\t: AMD EPYC\nprocessor\t: 1\nmodel name\t: other\n";
        assert_eq!(value(text, "model name"), "AMD EPYC");
        assert_eq!(value("MemTotal:       24684084 kB\n", "MemTotal"), "24684084 kB");
        assert_eq!(value(text, "name"), "unknown");
    }
}

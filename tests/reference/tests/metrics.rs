//! `docs/reference/metrics.md` lists exactly the metrics of the sources, with their types.

#![expect(clippy::unwrap_used, reason = "a missing value fails the test with its position")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use reference::generated_part;

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// Names in calls such as `metrics::counter!("sched_…"`, by type, without unit tests.
fn exported() -> BTreeMap<String, String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    let mut files = Vec::new();
    for krate in std::fs::read_dir(crates).unwrap() {
        sources(&krate.unwrap().path().join("src"), &mut files);
    }
    let mut found = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for kind in ["counter", "gauge", "histogram"] {
            for call in code.split(&format!("{kind}!(")).skip(1) {
                let name = call.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
                if let Some(name) = name.filter(|name| name.starts_with("sched_")) {
                    found.insert(name.to_owned(), kind.to_owned());
                }
            }
        }
        for word in code.split('"').filter(|word| word.starts_with("sched_") && word.ends_with("_total")) {
            found.entry(word.to_owned()).or_insert_with(|| "counter".to_owned());
        }
    }
    found
}

#[test]
fn reference_metrics_is_current() {
    let page = generated_part("metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `sched_"));
    let listed: BTreeMap<String, String> = rows
        .map(|line| {
            let mut cells = line.split('|').map(str::trim);
            let name = format!("sched_{}", cells.next().unwrap().trim_end_matches('`'));
            (name, cells.next().unwrap().to_owned())
        })
        .collect();
    let exported = exported();
    assert!(exported.len() > 40, "{} metrics found in the sources", exported.len());
    assert_eq!(listed, exported);
}

//! Pages of `docs/reference` whose tables come from the code.
//!
//! Each page has a handwritten head and one generated part between two marker lines. [`check_page`]
//! compares that part with the code. `UPDATE_DOCS=1 scripts/test -E 'test(reference)'` writes it.

use std::path::Path;

const BEGIN: &str = "<!-- BEGIN GENERATED: UPDATE_DOCS=1 scripts/test -E 'test(reference)' -->";
const END: &str = "<!-- END GENERATED -->";

/// Compares the generated part of `docs/reference/<page>` with `generated`, or replaces it if
/// `UPDATE_DOCS` is set.
///
/// # Panics
/// If the page lacks its markers, or if the parts differ.
pub fn check_page(page: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(page);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page}: {error}"));
    let (head, rest) = text.split_once(BEGIN).unwrap_or_else(|| panic!("{page} has no line {BEGIN}"));
    let (committed, tail) = rest.split_once(END).unwrap_or_else(|| panic!("{page} has no line {END}"));
    let (committed, generated) = (committed.trim(), generated.trim());
    if committed == generated {
        return;
    }
    if update() {
        let text = format!("{head}{BEGIN}\n\n{generated}\n\n{END}{tail}");
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{page}: {error}"));
        return;
    }
    let mut lines = committed.lines().zip(generated.lines());
    let first = lines.find(|(committed, generated)| committed != generated);
    panic!(
        "docs/reference/{page} is not current; run UPDATE_DOCS=1 scripts/test -E 'test(reference)'. \
         First difference (committed, generated): {first:?}"
    );
}

/// The committed generated part of a page.
///
/// # Panics
/// If the page or its markers are missing.
#[must_use]
pub fn generated_part(page: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(page);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page}: {error}"));
    let part = text.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
    part.unwrap_or_else(|| panic!("{page} has no markers")).0.trim().to_owned()
}

#[must_use]
pub fn row(cells: &[&str]) -> String {
    let cells: Vec<String> = cells
        .iter()
        .map(|cell| cell.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|"))
        .collect();
    format!("| {} |\n", cells.join(" | "))
}

#[must_use]
pub fn table_head(names: &[&str]) -> String {
    format!("| {} |\n|{}\n", names.join(" | "), " --- |".repeat(names.len()))
}

#[expect(clippy::disallowed_methods, reason = "a switch of the test run, not a setting of a program")]
fn update() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some_and(|value| !value.is_empty())
}

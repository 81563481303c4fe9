//! The rule for names of jobs, queues, secrets and other resources.

/// Checks a stable name: lower-case letters, digits, `.`, `_`, `-`, starting with a letter or
/// digit.
pub fn check_name(name: &str, longest: usize) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let starts_well = name.chars().next().is_some_and(is_plain);
    let is_well_formed = name.chars().all(|c| is_plain(c) || matches!(c, '.' | '_' | '-'));
    if starts_well && is_well_formed && name.len() <= longest {
        return Ok(());
    }
    Err(format!(
        "must be 1 to {longest} lower-case letters, digits, dots, underscores or hyphens, starting with a letter or digit"
    ))
}

//! The numbers that an attempt may report about itself.

pub const MOST: usize = 20;

/// In characters.
const LONGEST_NAME: usize = 64;

/// Up to 64 small letters, digits and `_`.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(is_fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        assert!(is_name("rows_1") && is_name(&"x".repeat(64)));
        for name in ["", "Rows", "rows-1", "größe", "a b", &"x".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }
}

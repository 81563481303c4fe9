//! Patterns of `LIKE`.

pub(crate) fn literally(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

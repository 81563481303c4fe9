//! The verdict about one invariant.
//!
//! An invariant without data is undecided and counts as violated: a run without events proves
//! nothing. Pure.

const SHOWN: usize = 5;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub invariant: String,
    pub checked: i64,
    pub excused: i64,
    pub violations: i64,
    pub rows: Vec<String>,
}

impl Verdict {
    /// `rows` are the violations among `checked` items.
    #[must_use]
    pub fn new(invariant: &str, checked: usize, mut rows: Vec<String>) -> Self {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let violations = count(rows.len());
        rows.truncate(SHOWN);
        Self { invariant: invariant.to_owned(), checked: count(checked), excused: 0, violations, rows }
    }

    #[must_use]
    pub fn with_excused(self, excused: usize) -> Self {
        Self { excused: i64::try_from(excused).unwrap_or(i64::MAX), ..self }
    }

    #[must_use]
    pub fn holds(&self) -> bool {
        self.checked > 0 && self.violations == 0
    }

    #[must_use]
    pub fn table(verdicts: &[Self]) -> String {
        let mut text =
            format!("{:<112} {:>9} {:>8} {:>10}\n", "INVARIANT", "CHECKED", "EXCUSED", "VIOLATIONS");
        for verdict in verdicts {
            let Self { checked, excused, violations, .. } = verdict;
            let name: String = verdict.invariant.chars().take(112).collect();
            text.push_str(&format!("{name:<112} {checked:>9} {excused:>8} {violations:>10}\n"));
        }
        for verdict in verdicts.iter().filter(|verdict| !verdict.holds()) {
            let why = if verdict.violations == 0 { "has no data" } else { "is broken:" };
            text.push_str(&format!("\n{} {why}\n", verdict.invariant));
            for row in &verdict.rows {
                text.push_str(&format!("  {row}\n"));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invariant_without_data_does_not_hold() {
        assert!(Verdict::new("a", 1, Vec::new()).holds());
        assert!(!Verdict::new("a", 0, Vec::new()).holds());
        let broken = Verdict::new("a", 9, vec!["row".to_owned(); 7]);
        assert_eq!((broken.holds(), broken.violations, broken.rows.len()), (false, 7, 5));
        assert!(Verdict::table(&[broken]).contains("a is broken:\n  row"));
        let excused = Verdict::new("a", 9, Vec::new()).with_excused(4);
        assert!(excused.holds() && Verdict::table(&[excused]).contains(" 9        4          0"));
    }
}

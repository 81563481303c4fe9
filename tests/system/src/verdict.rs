//! What the checker says of one invariant.
//!
//! An invariant that was held against nothing is not decided, and so counts as broken: a run that provokes nothing proves nothing. Pure.

/// How many rows of a violation are shown.
const SHOWN: usize = 5;

/// What became of one invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Its name.
    pub invariant: String,
    /// How many things it was held against.
    pub checked: i64,
    /// How many would break it, were it not for a fault that kept whoever was to prevent it from acting just then.
    pub excused: i64,
    /// How many break it.
    pub violations: i64,
    /// Some of them.
    pub rows: Vec<String>,
}

impl Verdict {
    /// What `rows`, all that break it, say of an invariant that was held against `checked` things.
    #[must_use]
    pub fn new(invariant: &str, checked: usize, mut rows: Vec<String>) -> Self {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let violations = count(rows.len());
        rows.truncate(SHOWN);
        Self { invariant: invariant.to_owned(), checked: count(checked), excused: 0, violations, rows }
    }

    /// The same, with so many that a fault excuses.
    #[must_use]
    pub fn with_excused(self, excused: usize) -> Self {
        Self { excused: i64::try_from(excused).unwrap_or(i64::MAX), ..self }
    }

    /// Whether it was decided, and holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.checked > 0 && self.violations == 0
    }

    /// All verdicts as a table, and below it what breaks them.
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
            let why = if verdict.violations == 0 { "was held against nothing" } else { "is broken:" };
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
    fn what_was_held_against_nothing_does_not_hold() {
        assert!(Verdict::new("a", 1, Vec::new()).holds());
        assert!(!Verdict::new("a", 0, Vec::new()).holds());
        let broken = Verdict::new("a", 9, vec!["row".to_owned(); 7]);
        assert_eq!((broken.holds(), broken.violations, broken.rows.len()), (false, 7, 5));
        assert!(Verdict::table(&[broken]).contains("a is broken:\n  row"));
        let excused = Verdict::new("a", 9, Vec::new()).with_excused(4);
        assert!(excused.holds() && Verdict::table(&[excused]).contains(" 9        4          0"));
    }
}

//! Each guard is removed from the real programs, and the fault that it prevents is provoked. With
//! the guard the checker finds nothing; without it, the expected violation.
//!
//! Only programs with the feature `broken-fences` can work without a guard, so `scripts/break-it`
//! runs these tests. Locks, a stopped network or a frozen process make each provocation certain.

mod leaders;
mod workers;

struct Case<'a> {
    fence: &'a str,
    provoked_by: &'a str,
    /// Prefix of a finding without the fence.
    finding: &'a str,
}

impl Case<'_> {
    fn holds(&self, found: &[String]) {
        assert!(found.is_empty(), "{} stands, and still: {found:#?}", self.fence);
    }

    fn is_found(&self, found: &[String]) {
        let finding = found.iter().find(|found| found.starts_with(self.finding));
        let Some(finding) = finding else {
            panic!("{} is broken, and the checker did not say {:?}, but {found:#?}", self.fence, self.finding)
        };
        // Without the rows, which are long.
        let rule = finding.split(": [").next().unwrap_or(finding);
        let rule = rule.split(": Effect").next().unwrap_or(rule);
        println!("break-it: {}|{}|{rule}", self.fence, self.provoked_by);
    }
}

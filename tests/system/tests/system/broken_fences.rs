//! Each guard is taken away from the real programs, and what it prevents is provoked: with it the checker finds nothing, without it
//! the right thing. A checker that cannot fail proves nothing.
//!
//! Only programs that are built with the feature `broken-fences` can do without a guard, so these run under `scripts/break-it` alone.
//! Each provocation is made to hit: by locks that this test holds, a network that it stops, or a process that it freezes.

mod leaders;
mod workers;

/// What is expected of one fence.
struct Case<'a> {
    /// Its name.
    fence: &'a str,
    /// In words, what was done.
    provoked_by: &'a str,
    /// How one of the findings without it begins.
    finding: &'a str,
}

impl Case<'_> {
    /// With the fence, nothing may have been found.
    fn holds(&self, found: &[String]) {
        assert!(found.is_empty(), "{} stands, and still: {found:#?}", self.fence);
    }

    /// Without it, the right thing must have been.
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

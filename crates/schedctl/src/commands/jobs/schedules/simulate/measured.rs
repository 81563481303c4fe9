//! Measured durations of jobs that declare none.

use std::time::Duration;

use sched_model::domain::simulation::Simulated;
use sched_runtime::exit::ExitError;
use sched_wire::{Attempt, AttemptFilter, AttemptsQuery, Page};

use crate::api::Api;
use crate::output::print_notice;

/// Attempts of each job.
const SAMPLE: u32 = 20;

/// Jobs that the API does not know, or that never succeeded, stay without a duration.
pub(super) async fn fill_in(api: &Api, jobs: &mut [Simulated<'_>]) -> Result<(), ExitError> {
    let mut measured = 0_usize;
    for job in jobs.iter_mut().filter(|job| job.duration.is_none()) {
        let query = AttemptsQuery {
            job: Some(job.name.to_owned()),
            status: Some(AttemptFilter::Succeeded),
            limit: Some(SAMPLE),
            ..AttemptsQuery::default()
        };
        let page: Page<Attempt> = match api.get(&["attempts"], &query).await {
            Ok(page) => page,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error.into()),
        };
        job.duration = median(page.items.iter().map(|attempt| attempt.duration_ms).collect());
        measured += usize::from(job.duration.is_some());
    }
    print_notice(&match measured {
        1 => "1 job has a measured duration".to_owned(),
        count => format!("{count} jobs have a measured duration"),
    });
    Ok(())
}

/// Rounded up to whole seconds, as declared durations are.
fn median(mut milliseconds: Vec<i64>) -> Option<Duration> {
    milliseconds.sort_unstable();
    let middle = milliseconds.get(milliseconds.len() / 2)?;
    Some(Duration::from_secs(u64::try_from(*middle).unwrap_or(0).div_ceil(1000).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_rounded_up_to_seconds() {
        let seconds = |sample: &[i64]| median(sample.to_vec()).map(|median| median.as_secs());
        assert_eq!(seconds(&[]), None);
        assert_eq!(seconds(&[2]), Some(1));
        assert_eq!(seconds(&[60_000, 1_001, 10]), Some(2));
    }
}

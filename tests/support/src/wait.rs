//! Waiting for a condition.
//!
//! Level-triggered: the probe looks at a state again and again, so nothing is missed between two looks. Every probe says what
//! it saw, and the last thing seen stands in the time-out message.

use std::{panic::Location, time::Duration};

const STEP: Duration = Duration::from_millis(25);

/// Calls `probe` until it gives a value.
///
/// # Panics
///
/// When that takes longer than `limit`; the message has `what`, the place of the call and the last status.
#[track_caller]
pub fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, String>,
) -> impl Future<Output = T> {
    let place = Location::caller();
    async move {
        let mut status = "the first look has not ended".to_owned();
        let found = tokio::time::timeout(limit, async {
            loop {
                match probe().await {
                    Ok(value) => return value,
                    Err(seen) => status = seen,
                }
                tokio::time::sleep(STEP).await;
            }
        })
        .await;
        match found {
            Ok(value) => value,
            Err(_) => panic!("{what}: not within {limit:?} (waited for at {place}); last status: {status}"),
        }
    }
}

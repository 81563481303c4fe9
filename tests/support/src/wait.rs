//! Level-triggered waiting: the probe reads a state repeatedly and returns a status, which the
//! timeout message contains.

use std::{panic::Location, time::Duration};

const STEP: Duration = Duration::from_millis(25);

/// Calls `probe` until it returns a value.
///
/// # Panics
///
/// After `limit`, with `what`, the location of the call and the last status.
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

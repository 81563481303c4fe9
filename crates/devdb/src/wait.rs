//! Bounded waiting for an action of another process.
//!
//! Counts its steps instead of reading a clock: the actions take milliseconds and the limits are
//! generous. So this crate needs neither the runtime's clock nor its own.

use std::time::Duration;

const STEP: Duration = Duration::from_millis(10);

/// Calls `probe` until it returns a value. Returns `None` after about `limit`.
pub(crate) fn until<T>(limit: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let steps = limit.as_millis() / STEP.as_millis();
    for _ in 0..steps {
        if let Some(value) = probe() {
            return Some(value);
        }
        std::thread::sleep(STEP);
    }
    probe()
}

//! Bounded waiting for something another process does.
//!
//! Counts its steps instead of reading a clock: what is waited for takes milliseconds, the limits are
//! generous, and so this crate needs neither the runtime's clock nor one of its own.

use std::time::Duration;

const STEP: Duration = Duration::from_millis(10);

/// Calls `probe` until it gives a value; `None` when about `limit` has passed.
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

//! Bounded waiting for another process. Counts steps instead of reading a clock, because the limits
//! are generous.

use std::time::Duration;

const STEP: Duration = Duration::from_millis(10);

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

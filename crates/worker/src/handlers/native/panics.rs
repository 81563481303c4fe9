//! Catches panics of native handlers and their locations.
//!
//! Only the panic hook has the location. So this module installs a hook in front of the existing
//! one. While the thread runs a handler, the hook records the location in a thread local; it passes
//! every other panic on.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

use sched_runtime::tasks::panic_message;

thread_local! {
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
    static SITE: RefCell<Option<PanicSite>> = const { RefCell::new(None) };
}

struct PanicSite {
    location: Option<String>,
    backtrace: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Panic {
    pub(super) message: String,
    /// Present if `RUST_BACKTRACE` requests it.
    pub(super) backtrace: Option<String>,
}

/// Once per process.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| if IN_HANDLER.get() { record(info) } else { before(info) }));
    });
}

fn record(info: &PanicHookInfo<'_>) {
    let backtrace = Backtrace::capture();
    let is_captured = backtrace.status() == BacktraceStatus::Captured;
    let site = PanicSite {
        location: info.location().map(ToString::to_string),
        backtrace: is_captured.then(|| backtrace.to_string()),
    };
    SITE.with(|slot| *slot.borrow_mut() = Some(site));
}

/// Calls may nest, so the mark restores the previous value.
struct Mark(bool);

impl Mark {
    fn set() -> Self {
        Self(IN_HANDLER.replace(true))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        IN_HANDLER.set(self.0);
    }
}

/// A panic may leave data half-changed. The handler's own data is dropped with it. The author of
/// the handler is responsible for shared data.
pub(super) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    let mark = Mark::set();
    let caught = panic::catch_unwind(AssertUnwindSafe(work));
    drop(mark);
    caught.map_err(|payload| describe(payload.as_ref()))
}

fn describe(payload: &(dyn Any + Send)) -> Panic {
    let message = panic_message(payload);
    let site = SITE.with(|slot| slot.borrow_mut().take());
    let (location, backtrace) = site.map_or((None, None), |site| (site.location, site.backtrace));
    let message = match location {
        Some(location) => format!("panicked at {location}: {message}"),
        None => format!("panicked: {message}"),
    };
    Panic { message, backtrace }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_message_contains_its_location() {
        install();
        let panic = catch(|| panic!("no luck with {}", 7)).map(|(): ()| ()).unwrap_err();
        assert!(panic.message.contains("panics.rs:"), "{}", panic.message);
        assert!(panic.message.ends_with(": no luck with 7"), "{}", panic.message);
        assert_eq!(catch(|| 7).unwrap(), 7);
    }

    #[test]
    fn thread_is_marked_only_while_a_handler_runs() {
        catch(|| {
            assert!(IN_HANDLER.get());
            catch(|| assert!(IN_HANDLER.get())).unwrap();
            assert!(IN_HANDLER.get());
        })
        .unwrap();
        assert!(!IN_HANDLER.get());
    }
}

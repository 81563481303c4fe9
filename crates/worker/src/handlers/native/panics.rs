//! Catches panics of native handlers, with the place where they happened.
//!
//! What a panic says reaches the catcher; where it happened is known to the panic hook alone. So a hook is put before the one
//! that is there: while this thread runs a handler it notes the place and keeps quiet, and every other panic is passed on. The
//! place goes through a variable of the thread, because a panic is caught on the thread it happened on.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

use sched_runtime::tasks::panic_message;

thread_local! {
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// Where a panic happened.
struct Place {
    location: Option<String>,
    backtrace: Option<String>,
}

/// A caught panic.
#[derive(Debug)]
pub(super) struct Panic {
    /// What it said, and the line of code.
    pub(super) message: String,
    /// How it came there, if `RUST_BACKTRACE` asks for that.
    pub(super) backtrace: Option<String>,
}

/// Puts our hook before the one that is there, once in the life of the process.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| if IN_HANDLER.get() { note(info) } else { before(info) }));
    });
}

fn note(info: &PanicHookInfo<'_>) {
    let backtrace = Backtrace::capture();
    let is_captured = backtrace.status() == BacktraceStatus::Captured;
    let place = Place {
        location: info.location().map(ToString::to_string),
        backtrace: is_captured.then(|| backtrace.to_string()),
    };
    PLACE.with(|slot| *slot.borrow_mut() = Some(place));
}

/// Marks the thread for as long as it runs a handler. One handler may run inside another's call, so the mark is put back.
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

/// Runs a piece of a handler.
///
/// What a panic left half-changed is the handler's own and is dropped with it; what it shares with others is its author's care.
pub(super) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    let mark = Mark::set();
    let caught = panic::catch_unwind(AssertUnwindSafe(work));
    drop(mark);
    caught.map_err(|payload| told(payload.as_ref()))
}

fn told(payload: &(dyn Any + Send)) -> Panic {
    let message = panic_message(payload);
    let place = PLACE.with(|slot| slot.borrow_mut().take());
    let (location, backtrace) = place.map_or((None, None), |place| (place.location, place.backtrace));
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
    fn a_panic_is_told_with_its_line() {
        install();
        let panic = catch(|| panic!("no luck with {}", 7)).map(|(): ()| ()).unwrap_err();
        assert!(panic.message.contains("panics.rs:"), "{}", panic.message);
        assert!(panic.message.ends_with(": no luck with 7"), "{}", panic.message);
        assert_eq!(catch(|| 7).unwrap(), 7);
    }

    #[test]
    fn a_thread_is_marked_only_while_a_handler_runs() {
        catch(|| {
            assert!(IN_HANDLER.get());
            catch(|| assert!(IN_HANDLER.get())).unwrap();
            assert!(IN_HANDLER.get());
        })
        .unwrap();
        assert!(!IN_HANDLER.get());
    }
}

//! Panics of libraries that become errors.
//!
//! The crate `tokenizers` panics on some damaged files. [`Tokenizer`](crate::Tokenizer) catches that and returns an error. By then the
//! panic hook of the process has printed its message; a program that does not want it calls [`hide_caught`] once.
//!
//! In a program built with `panic = "abort"`, nothing can be caught: such a file ends the process. The checks that come before the
//! library is called (lengths, depths, repetitions) still work.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Whether a panic on this thread will be caught here.
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Calls `f` and returns the message of a panic as an error. What `f` changes may be incomplete then.
///
/// # Errors
/// The message, if `f` panics.
pub fn catch<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    let outer = CATCHING.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    CATCHING.set(outer);
    result.map_err(|payload| message(&*payload))
}

/// The message of a panic, from what `catch_unwind` or `join` returns.
pub fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

/// Installs a panic hook that prints nothing for panics inside [`catch`], and calls the present hook for all others.
pub fn hide_caught() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let present = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            // A thread that is ending has no flag any more; nothing is caught there.
            if !CATCHING.try_with(Cell::get).unwrap_or(false) {
                present(about);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_panic_is_an_error_and_prints_nothing() {
        static PRINTED: AtomicUsize = AtomicUsize::new(0);
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |about| match message(about.payload()).starts_with("counted") {
            true => drop(PRINTED.fetch_add(1, Ordering::Relaxed)),
            false => usual(about),
        }));
        hide_caught();
        let n = 3;
        assert_eq!(catch(|| panic!("counted {n}")), Err::<(), _>("counted 3".to_owned()));
        assert_eq!(
            catch(|| catch(|| panic!("counted, inner"))),
            Ok(Err::<(), _>("counted, inner".to_owned()))
        );
        assert_eq!(catch(|| panic!("counted")), Err::<(), _>("counted".to_owned()));
        assert_eq!(PRINTED.load(Ordering::Relaxed), 0);
        // Outside, the hook that was there is called.
        assert!(std::thread::spawn(|| panic!("counted, outside")).join().is_err());
        assert_eq!(PRINTED.load(Ordering::Relaxed), 1);
    }
}

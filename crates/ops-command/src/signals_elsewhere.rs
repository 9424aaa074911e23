//! Interrupts on systems without Unix signals.
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// See [`start`](crate::start). Unfinished files stay: the next run removes them.
pub(crate) fn handle(stop: Option<&Arc<AtomicBool>>) -> io::Result<()> {
    let Some(stop) = stop else { return Ok(()) };
    // In this order: the first interrupt sets the flag, which the second finds set.
    flag::register_conditional_shutdown(SIGINT, 130, stop.clone())?;
    flag::register(SIGINT, stop.clone())?;
    Ok(())
}

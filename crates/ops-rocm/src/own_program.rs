//! Starting this program again as a process that does something else before `main`: what would harm this process if it went wrong.
//! Programs need not provide for it.
use std::io;
use std::process::Command;

/// The command that starts this program again, with a variable that tells it what to do.
///
/// # Errors
/// It cannot be started again, or would not look at the variable.
pub(crate) fn again(variable: &str, value: &str) -> io::Result<Command> {
    if !in_program() {
        let why = "this code is in a shared library, so the program cannot be started again for it";
        return Err(io::Error::other(why));
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.env(variable, value);
    Ok(command)
}

/// Whether this code is part of the program itself. If it is part of a shared library (a Python module), the program would
/// not become a helper when started again.
#[cfg(target_os = "linux")]
pub(crate) fn in_program() -> bool {
    let base = |address: *const std::ffi::c_void| {
        let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: `dladdr` only compares the address, and writes `info`.
        let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) } != 0;
        // SAFETY: `dladdr` has written it.
        found.then(|| unsafe { info.assume_init() }.dli_fbase)
    };
    // SAFETY: it only looks up a number.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    let here = base(in_program as *const std::ffi::c_void);
    here.is_some() && here == base(headers as *const std::ffi::c_void)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn in_program() -> bool {
    false
}

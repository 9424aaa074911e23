//! Addresses of exported symbols.

use std::ffi::c_void;

/// The address of a symbol; null if the library lacks it.
pub fn address(library: &libloading::Library, symbol: &str) -> *const c_void {
    // SAFETY: the value of any symbol may be read as a pointer, and it is not dereferenced here.
    unsafe { library.get::<*const c_void>(symbol) }.map_or(std::ptr::null(), |address| *address)
}

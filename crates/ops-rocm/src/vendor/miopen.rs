//! MIOpen, the library of deep learning.
use super::denial::Denial;
use super::library::{Failure, Lib, Vendor, check};
use crate::ProviderId;
use hip_sys::LoadError;
use hip_sys::hip::{self, hipStream_t};
use miopen_sys::{self as sys, miopenHandle_t};
use ops_core::DType;
use std::ffi::CStr;
use std::ptr::null_mut;

impl ProviderId {
    /// AMD's library of deep learning.
    pub const MIOPEN: ProviderId = ProviderId::new("miopen");
}

/// MIOpen.
pub(crate) struct MiOpenLibrary;

impl Vendor for MiOpenLibrary {
    const ID: ProviderId = ProviderId::MIOPEN;
    const NAME: &'static str = "MIOpen";
    const DENIALS: &'static [Denial] = DENIALS;
    const SUCCESS: u32 = sys::miopenStatusSuccess;
    type Functions = sys::Functions;
    type Handle = miopenHandle_t;

    fn load(hip: &hip::Lib) -> Result<Lib<Self>, LoadError> {
        sys::load_from(hip)
    }

    fn status_name(lib: &Lib<Self>, status: u32) -> Option<String> {
        // SAFETY: takes a number.
        let text = unsafe { lib.miopenGetErrorString(status) }.ok()?;
        // SAFETY: MIOpen returns a static string that ends in a zero.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }

    unsafe fn create(lib: &Lib<Self>, stream: hipStream_t) -> Result<miopenHandle_t, Failure> {
        let mut handle = null_mut();
        // SAFETY: writes one handle; the stream is live and belongs to the current device.
        let created = unsafe { lib.miopenCreateWithStream(&mut handle, stream) };
        check::<Self>(lib, "miopenCreateWithStream", created).map(|()| handle)
    }

    unsafe fn destroy(lib: &Lib<Self>, handle: &mut miopenHandle_t) -> Result<(), Failure> {
        // SAFETY: the caller's promise.
        check::<Self>(lib, "miopenDestroy", unsafe { lib.miopenDestroy(*handle) })
    }
}

const DENIALS: &[Denial] = &[Denial {
    library: ProviderId::MIOPEN,
    ops: &["softmax", "log_softmax"],
    gfx: &[],
    since: None,
    until: None,
    dtypes: &[DType::BF16, DType::F64],
    extent_above: 0,
    output_above: 0,
    what: "MIOpen's softmax reads them as f32",
    report: "the kernel source of MIOpen 3.4 and 3.5",
}];

//! Converts the HIP layer's errors to those of all backends.
use crate::hip;
use ops_core::Error;
use ops_core::replay::not_recorded;

/// The backend's name in messages.
pub(crate) const NAME: &str = "rocm";

/// The error for a failed call, with HIP's reason.
pub(crate) fn failed(call: &'static str, why: impl ToString) -> Error {
    Error::Device { backend: NAME, call, status: why.to_string() }
}

impl From<hip::Error> for Error {
    fn from(error: hip::Error) -> Error {
        let text = error.to_string();
        match error {
            hip::Error::OutOfMemory { wanted, free, total, in_use, cap } => {
                let cap = cap.map_or(String::new(), |cap| format!(", cap {cap}"));
                let detail = format!(
                    "{free} of {total} free, {in_use} in use here{cap}; use a smaller model or context, or end other \
                     programs on the GPU"
                );
                Error::OutOfMemory { backend: NAME, bytes: wanted, detail }
            }
            hip::Error::NotRecorded { call, why } => not_recorded(call, NAME, why),
            hip::Error::Load(_) => Error::NoDevice { backend: NAME, call: "opening ROCm", why: text },
            hip::Error::NoDevice(_) => Error::NoDevice { backend: NAME, call: "opening a device", why: text },
            hip::Error::NoSuchDevice { .. } => failed("opening a device", text),
            hip::Error::Hip(hip::HipError::Status { call, code, name }) => {
                failed(call, format!("{name} ({code}){}", advice(code)))
            }
            hip::Error::Compile(_) => failed("compiling a kernel", text),
            hip::Error::Module { .. } | hip::Error::NoKernel { .. } => failed("loading a kernel", text),
            hip::Error::Launch { .. } => failed("launching a kernel", text),
            _ => failed("a HIP call", text),
        }
    }
}

/// Advice for a HIP status, if there is any.
fn advice(code: u32) -> &'static str {
    use hip_sys::hip as sys;
    match code {
        sys::hipErrorOutOfMemory => {
            "; the device is full: use a smaller model or context, or end other programs on the GPU"
        }
        sys::hipErrorNoBinaryForGpu => {
            "; the code is not for this GPU: unset HSA_OVERRIDE_GFX_VERSION, or clear the cache of compiled kernels"
        }
        sys::hipErrorIllegalAddress | sys::hipErrorLaunchFailure => {
            "; a kernel failed and the process cannot use the GPU any more: please report the ops that ran"
        }
        _ => "",
    }
}

//! MIOpen, AMD's deep learning library.
mod convolution;

pub(crate) use convolution::Convolution;

use super::denial::Denial;
use super::library::{Failure, Lib, SetWorkspace, Vendor, check};
use crate::ProviderId;
use convolution::FoundSolutions;
use hip_sys::hip::{self, hipStream_t};
use hip_sys::{LoadError, Search, Version};
use miopen_sys::{self as sys, miopenHandle_t};
use ops_core::DType;
use std::ffi::CStr;
use std::ptr::null_mut;

impl ProviderId {
    /// AMD's deep learning library.
    pub const MIOPEN: ProviderId = ProviderId::new("miopen");
}

/// MIOpen.
pub(crate) struct MiOpenLibrary;

/// A handle, with the solutions found for convolutions.
pub(crate) struct MiOpenHandle {
    pub(crate) raw: miopenHandle_t,
    found: FoundSolutions,
}

impl Vendor for MiOpenLibrary {
    const ID: ProviderId = ProviderId::MIOPEN;
    const NAME: &'static str = "MIOpen";
    const DENIALS: &'static [Denial] = DENIALS;
    const ASSUMED: Version = Version::new(3, 5, 1);
    const SUCCESS: u32 = sys::miopenStatusSuccess;
    const EXHAUSTED: u32 = sys::miopenStatusAllocFailed;
    /// Each convolution gets its own workspace; no other function in use needs one.
    const SET_WORKSPACE: Option<SetWorkspace<Self>> = None;
    type Functions = sys::Functions;
    type Handle = MiOpenHandle;

    fn load(hip: &hip::Lib) -> Result<Lib<Self>, LoadError> {
        sys::load_from(hip, &Search::standard())
    }

    fn status_name(lib: &Lib<Self>, status: u32) -> Option<String> {
        // SAFETY: takes a number.
        let text = unsafe { lib.miopenGetErrorString(status) }.ok()?;
        // SAFETY: MIOpen returns a static string that ends in a zero.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }

    unsafe fn create(lib: &Lib<Self>, stream: hipStream_t) -> Result<MiOpenHandle, Failure> {
        let mut raw = null_mut();
        // SAFETY: writes one handle; the stream is live and belongs to the current device.
        let created = unsafe { lib.miopenCreateWithStream(&mut raw, stream) };
        check::<Self>(lib, "miopenCreateWithStream", created)
            .map(|()| MiOpenHandle { raw, found: FoundSolutions::default() })
    }

    unsafe fn destroy(lib: &Lib<Self>, handle: &mut MiOpenHandle) -> Result<(), Failure> {
        handle.found.clear();
        // SAFETY: guaranteed by the caller.
        check::<Self>(lib, "miopenDestroy", unsafe { lib.miopenDestroy(handle.raw) })
    }
}

const HALF: &[DType] = &[DType::F16];
const ALL: &[DType] = &[DType::F16, DType::BF16, DType::F32];

/// A denial for all architectures, versions and sizes.
const fn always(
    ops: &'static [&'static str],
    dtypes: &'static [DType],
    what: &'static str,
    report: &'static str,
) -> Denial {
    Denial {
        library: ProviderId::MIOPEN,
        ops,
        gfx: &[],
        since: None,
        until: None,
        dtypes,
        extent_above: 0,
        output_above: 0,
        what,
        report,
    }
}

const DENIALS: &[Denial] = &[
    always(
        &["softmax", "log_softmax"],
        &[DType::BF16, DType::F64],
        "MIOpen's softmax reads them as f32",
        "MIOpenSoftmax.cl and MIOpenSoftmaxHIP.cpp",
    ),
    always(
        &["softmax", "log_softmax"],
        HALF,
        "MIOpen's softmax sums in f16",
        "MIOpenSoftmax.cl and MIOpenSoftmaxHIP.cpp",
    ),
    always(
        &["log_softmax"],
        &[DType::F32],
        "MIOpen's log_softmax ignores NaN, and gives -inf for a row of -inf",
        "LogAddExp in MIOpenSoftmax.cl and MIOpenSoftmaxHIP.cpp",
    ),
    Denial {
        since: Some(Version::new(3, 1, 0)),
        until: Some(Version::new(3, 2, 0)),
        ..always(
            &["softmax"],
            &[DType::F32],
            "MIOpen 3.1 runs the kernel of the type that first had these extents",
            "ROCm/MIOpen#2966",
        )
    },
    always(
        &["layer_norm", "group_norm"],
        ALL,
        "MIOpen's variance is E[x²] − E[x]² in f32, which cancels if the mean is large",
        "MIOpenLayerNorm.cpp of MIOpen 3.0 to 3.3 and MIOpenGroupNorm.cpp of 3.1 to 3.3; no fix is known",
    ),
    Denial {
        until: Some(Version::new(3, 2, 0)),
        ..always(&["rms_norm"], ALL, "MIOpen before 3.2 has no T5 layer norm", "ROCm/MIOpen#2833")
    },
    always(
        &["sigmoid", "tanh"],
        HALF,
        "MIOpen's activations compute in f16",
        "MIOpenNeuron.cl of MIOpen 3.0 to 3.3 and activation_functions.hpp after it",
    ),
    Denial {
        until: Some(Version::new(3, 5, 2)),
        ..always(
            &["rope_i"],
            &[DType::BF16],
            "MIOpen up to 3.5.1 negates a bf16 as an integer",
            "ROCm/rocm-libraries#3766",
        )
    },
    Denial {
        until: Some(Version::new(3, 3, 0)),
        ..always(&["rope_i"], ALL, "MIOpen before 3.3 has no rope", "ROCm/MIOpen#3009")
    },
    always(
        &["max_pool2d"],
        ALL,
        "MIOpen's maximum ignores NaN, and starts from the lowest finite number",
        "fmax and MAX_VAL in MIOpenPooling.cl; no fix is known",
    ),
    always(&["avg_pool2d"], HALF, "MIOpen's pooling sums in f16", "_FLOAT in MIOpenPooling.cl"),
    Denial {
        until: Some(Version::new(3, 4, 0)),
        ..always(
            &["batch_norm"],
            &[DType::BF16],
            "MIOpen before 3.4 has no batch norm of bf16",
            "ROCm/MIOpen#3351",
        )
    },
];

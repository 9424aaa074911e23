//! hipBLASLt, a library of matrix products that chooses kernels by heuristics and fuses an epilogue.
mod product;

pub(crate) use product::{Factor, Product, Types};

use super::denial::Denial;
use super::library::{Failure, Lib, SetWorkspace, Vendor, check};
use crate::ProviderId;
use hip_sys::hip::{self, hipStream_t};
use hip_sys::loader::Version;
use hip_sys::{LoadError, Search};
use hipblaslt_sys::{self as sys, hipblasLtHandle_t};
use ops_core::DType;
use product::Chosen;
use std::ptr::null_mut;

impl ProviderId {
    /// AMD's library of matrix products with epilogues.
    pub const HIPBLASLT: ProviderId = ProviderId::new("hipblaslt");
}

/// hipBLASLt.
pub(crate) struct HipBlasLtLibrary;

/// A handle, with the stream on which its products are enqueued, and the kernels chosen so far.
pub(crate) struct HipBlasLtHandle {
    raw: hipblasLtHandle_t,
    stream: hipStream_t,
    chosen: Chosen,
}

impl Vendor for HipBlasLtLibrary {
    const ID: ProviderId = ProviderId::HIPBLASLT;
    const NAME: &'static str = "hipBLASLt";
    const DENIALS: &'static [Denial] = DENIALS;
    const ASSUMED: Version = Version::new(1, 2, 0);
    const SUCCESS: u32 = sys::HIPBLAS_STATUS_SUCCESS;
    const EXHAUSTED: u32 = sys::HIPBLAS_STATUS_ALLOC_FAILED;
    /// Each product gets its own workspace.
    const SET_WORKSPACE: Option<SetWorkspace<Self>> = None;
    type Functions = sys::Functions;
    type Handle = HipBlasLtHandle;

    fn load(hip: &hip::Lib) -> Result<Lib<Self>, LoadError> {
        sys::load_from(hip, &Search::standard())
    }

    /// Without kernels for the device, hipBLASLt ends the process when it chooses one.
    fn check_kernels(lib: &Lib<Self>, gfx: &str) -> Result<(), String> {
        sys::tensile::kernels_for(lib, gfx).map(drop).map_err(|error| error.to_string())
    }

    fn status_name(_: &Lib<Self>, status: u32) -> Option<String> {
        sys::status_name(status).map(str::to_owned)
    }

    unsafe fn create(lib: &Lib<Self>, stream: hipStream_t) -> Result<HipBlasLtHandle, Failure> {
        let mut raw = null_mut();
        // SAFETY: writes one handle, for the current device.
        check::<Self>(lib, "hipblasLtCreate", unsafe { lib.hipblasLtCreate(&mut raw) })?;
        if raw.is_null() {
            // This happens without a device.
            return Err(Failure::of("hipblasLtCreate", "success, but no handle"));
        }
        Ok(HipBlasLtHandle { raw, stream, chosen: Chosen::default() })
    }

    unsafe fn destroy(lib: &Lib<Self>, handle: &mut HipBlasLtHandle) -> Result<(), Failure> {
        handle.chosen.clear();
        // SAFETY: guaranteed by the caller.
        check::<Self>(lib, "hipblasLtDestroy", unsafe { lib.hipblasLtDestroy(handle.raw) })
    }
}

const PRODUCTS: &[&str] = &["matmul", "linear"];

/// The versions of hipBLASLt in these versions of ROCm, by its changelog.
const ROCM_7_2: Version = Version::new(1, 2, 0);
const ROCM_7_13: Version = Version::new(1, 3, 0);

const DENIALS: &[Denial] = &[
    Denial {
        library: ProviderId::HIPBLASLT,
        ops: PRODUCTS,
        gfx: &["gfx1201"],
        since: Some(ROCM_7_2),
        until: None,
        dtypes: &[DType::F32],
        extent_above: 1 << 19,
        output_above: 0,
        what: "wrong f32 products of more than 2^19 rows on gfx1201",
        report: "ROCm/legacy-rocm-build#6595",
    },
    Denial {
        library: ProviderId::HIPBLASLT,
        ops: PRODUCTS,
        gfx: &["gfx950"],
        since: None,
        until: None,
        dtypes: &[DType::F16, DType::BF16],
        extent_above: 0,
        output_above: i32::MAX as usize,
        what: "results of more than 2 GiB are not stored whole on gfx950",
        report: "ROCm/hipBLASLt#2299",
    },
    Denial {
        library: ProviderId::HIPBLASLT,
        ops: PRODUCTS,
        gfx: &["gfx950"],
        since: Some(ROCM_7_13),
        until: None,
        dtypes: &[DType::BF16],
        extent_above: 0,
        output_above: 0,
        what: "bf16 products store outside their result on gfx950",
        report: "ROCm/rocm-libraries#8551",
    },
];

//! rocBLAS, AMD's linear algebra library.
use super::denial::Denial;
use super::library::{Failure, Lib, SetWorkspace, Vendor, check};
use crate::ProviderId;
use hip_sys::hip::{self, hipStream_t};
use hip_sys::{LoadError, Search, Version};
use ops_core::DType;
use rocblas_sys::{self as sys, rocblas_handle};
use std::ffi::CStr;
use std::ptr::null_mut;

impl ProviderId {
    /// AMD's linear algebra library.
    pub const ROCBLAS: ProviderId = ProviderId::new("rocblas");
}

/// rocBLAS.
pub(crate) struct RocBlasLibrary;

impl Vendor for RocBlasLibrary {
    const ID: ProviderId = ProviderId::ROCBLAS;
    const NAME: &'static str = "rocBLAS";
    const DENIALS: &'static [Denial] = DENIALS;
    const ASSUMED: Version = Version::new(5, 2, 0);
    const SUCCESS: u32 = sys::rocblas_status_success;
    const EXHAUSTED: u32 = sys::rocblas_status_memory_error;
    const SET_WORKSPACE: Option<SetWorkspace<Self>> = Some(|lib, handle, address, bytes| {
        // SAFETY: guaranteed by the caller.
        let set = unsafe { lib.rocblas_set_workspace(*handle, address, bytes) };
        check::<Self>(lib, "rocblas_set_workspace", set)
    });
    type Functions = sys::Functions;
    type Handle = rocblas_handle;

    fn load(hip: &hip::Lib) -> Result<Lib<Self>, LoadError> {
        sys::load_from(hip, &Search::standard())
    }

    /// Without kernels for the device, rocBLAS ends the process when a handle is created.
    fn check_kernels(lib: &Lib<Self>, gfx: &str) -> Result<(), String> {
        sys::tensile::kernels_for(lib, gfx).map(drop).map_err(|error| error.to_string())
    }

    fn status_name(lib: &Lib<Self>, status: u32) -> Option<String> {
        // SAFETY: takes a number.
        let text = unsafe { lib.rocblas_status_to_string(status) }.ok()?;
        // SAFETY: rocBLAS returns a static string that ends in a zero.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }

    unsafe fn create(lib: &Lib<Self>, stream: hipStream_t) -> Result<rocblas_handle, Failure> {
        let mut handle = null_mut();
        // SAFETY: writes one handle. The caller guarantees that there are kernels for the device.
        let created = unsafe { lib.rocblas_create_handle(&mut handle) };
        check::<Self>(lib, "rocblas_create_handle", created)?;
        // SAFETY: handle and stream are live and belong to one device.
        let set = unsafe { lib.rocblas_set_stream(handle, stream) };
        let set = check::<Self>(lib, "rocblas_set_stream", set).and_then(|()| {
            // Atomic additions would make the order of a sum, and so its rounding, vary from run to run.
            // SAFETY: the handle is live.
            let set = unsafe { lib.rocblas_set_atomics_mode(handle, sys::rocblas_atomics_not_allowed) };
            check::<Self>(lib, "rocblas_set_atomics_mode", set)
        });
        match set {
            Ok(()) => Ok(handle),
            Err(failure) => {
                // The first failure is the one to report. SAFETY: created above, and not passed on.
                let _ = unsafe { lib.rocblas_destroy_handle(handle) };
                Err(failure)
            }
        }
    }

    unsafe fn destroy(lib: &Lib<Self>, handle: &mut rocblas_handle) -> Result<(), Failure> {
        // SAFETY: guaranteed by the caller.
        check::<Self>(lib, "rocblas_destroy_handle", unsafe { lib.rocblas_destroy_handle(*handle) })
    }
}

const PRODUCTS: &[&str] = &["matmul", "linear"];

/// The versions of rocBLAS in these versions of ROCm, by its changelog and the release notes of ROCm 7.13. HIP's version is no substitute:
/// ROCm 7.12 has HIP 7.3.
const ROCM_7_1: Version = Version::new(5, 1, 0);
const ROCM_7_2: Version = Version::new(5, 2, 0);
const ROCM_7_12: Version = Version::new(5, 3, 0);
const ROCM_7_13: Version = Version::new(5, 4, 0);

const DENIALS: &[Denial] = &[
    Denial {
        library: ProviderId::ROCBLAS,
        ops: PRODUCTS,
        gfx: &["gfx1100"],
        since: None,
        until: Some(ROCM_7_13),
        dtypes: &[DType::BF16],
        extent_above: 0,
        output_above: 0,
        what: "wrong bf16 products on gfx1100",
        report: "pytorch/pytorch#189394",
    },
    Denial {
        library: ProviderId::ROCBLAS,
        ops: PRODUCTS,
        gfx: &["gfx950"],
        since: Some(ROCM_7_12),
        until: None,
        dtypes: &[DType::BF16],
        extent_above: 0,
        output_above: 0,
        what: "NaN in bf16 products that are split along k on gfx950",
        report: "ROCm/rocm-libraries#9055",
    },
    Denial {
        library: ProviderId::ROCBLAS,
        ops: PRODUCTS,
        gfx: &["gfx1151"],
        since: Some(ROCM_7_1),
        until: Some(ROCM_7_2),
        dtypes: &[DType::F32],
        extent_above: 0,
        output_above: 0,
        what: "wrong f32 products on gfx1151",
        report: "ROCm/rocBLAS#1680",
    },
    Denial {
        library: ProviderId::ROCBLAS,
        ops: PRODUCTS,
        gfx: &["gfx1201"],
        since: Some(ROCM_7_1),
        until: None,
        dtypes: &[DType::F64],
        extent_above: 1_000_000,
        output_above: 0,
        what: "wrong f64 products of more than two million rows on gfx1201",
        report: "ROCm/rocm-libraries#8645",
    },
    Denial {
        library: ProviderId::ROCBLAS,
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
];

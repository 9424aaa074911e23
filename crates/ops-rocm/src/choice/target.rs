//! What providers decide by: the device and the libraries beside it.
use super::{Denial, ProviderId};
use crate::hip::{DeviceInfo, Gfx, Hip};
use hip_sys::Search;
use hip_sys::loader::Version;
use ops_core::Reason;
use std::sync::OnceLock;

/// A device with the libraries at hand, or an architecture with the libraries that one would install for it.
#[derive(Debug)]
pub struct Target {
    gfx: Gfx,
    kernels: ops_kernels::Device,
    rocm: Option<Version>,
    /// `None` for a target that is only assumed.
    hip: Option<Hip>,
    rocblas: OnceLock<Result<rocblas_sys::Lib, String>>,
    miopen: OnceLock<Result<miopen_sys::Lib, String>>,
}

/// A library as a target has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Library {
    /// It is open; its version, if it tells it.
    Open(Option<Version>),
    /// The target is assumed, and the library with it.
    Assumed,
    /// It cannot be used, for this reason.
    Absent(String),
}

impl Target {
    /// The version of ROCm that assumed targets have.
    pub const ASSUMED_ROCM: Version = Version::new(7, 2, 0);

    /// A device with kernels compiled for `code`, its own architecture or its generic target.
    pub(crate) fn of_device(hip: &Hip, info: &DeviceInfo, code: &str) -> Self {
        let kernels = kernels_device(&info.gfx, code, info.compute_units);
        Self::new(info.gfx.clone(), kernels, hip.lib().version(), Some(hip.clone()))
    }

    /// An architecture with ROCm 7.2 and all its libraries, for questions without a device.
    pub fn assumed(gfx: Gfx) -> Self {
        let kernels = kernels_device(&gfx, gfx.name(), 64);
        Self::new(gfx, kernels, Some(Self::ASSUMED_ROCM), None)
    }

    fn new(gfx: Gfx, kernels: ops_kernels::Device, rocm: Option<Version>, hip: Option<Hip>) -> Self {
        Target { gfx, kernels, rocm, hip, rocblas: OnceLock::new(), miopen: OnceLock::new() }
    }

    /// The architecture.
    pub fn gfx(&self) -> &Gfx {
        &self.gfx
    }
    /// The version of ROCm, as the HIP runtime tells it.
    pub fn rocm(&self) -> Option<Version> {
        self.rocm
    }
    /// What this project's kernels want to know of the device.
    pub(crate) fn kernels(&self) -> &ops_kernels::Device {
        &self.kernels
    }

    /// With values that were measured on the device.
    pub(crate) fn tuned(mut self, tuning: ops_kernels::Tuning) -> Self {
        self.kernels.tuning = tuning;
        self
    }

    /// rocBLAS, opened on first use.
    pub fn rocblas(&self) -> Library {
        self.library(|| self.rocblas_lib().map(|lib| lib.version()))
    }
    /// MIOpen, opened on first use.
    pub fn miopen(&self) -> Library {
        self.library(|| self.miopen_lib().map(|lib| lib.version()))
    }

    fn library(&self, version: impl FnOnce() -> Result<Option<Version>, Reason>) -> Library {
        match (&self.hip, version) {
            (None, _) => Library::Assumed,
            (Some(_), version) => match version() {
                Ok(version) => Library::Open(version),
                Err(why) => Library::Absent(why.to_string()),
            },
        }
    }

    /// Whether there is rocBLAS with kernels for the device.
    pub(crate) fn require_rocblas(&self) -> Result<(), Reason> {
        if self.hip.is_some() { self.rocblas_lib().map(|_| ()) } else { Ok(()) }
    }
    /// Whether there is MIOpen.
    pub(crate) fn require_miopen(&self) -> Result<(), Reason> {
        if self.hip.is_some() { self.miopen_lib().map(|_| ()) } else { Ok(()) }
    }

    /// rocBLAS, which has kernels for this device: without them it would end the process.
    pub(crate) fn rocblas_lib(&self) -> Result<&rocblas_sys::Lib, Reason> {
        let open = |hip: &Hip| {
            let lib = rocblas_sys::load_from(hip.lib(), &Search::standard()).map_err(|e| e.to_string())?;
            rocblas_sys::tensile::kernels_for(&lib, self.gfx.name()).map_err(|e| e.to_string())?;
            Ok(lib)
        };
        opened(&self.rocblas, self.hip.as_ref(), open)
    }
    pub(crate) fn miopen_lib(&self) -> Result<&miopen_sys::Lib, Reason> {
        opened(&self.miopen, self.hip.as_ref(), |hip| {
            miopen_sys::load_from(hip.lib()).map_err(|error| error.to_string())
        })
    }

    /// Whether this library is known to be wrong here; see [`denials`](super::denials).
    pub(crate) fn matches(&self, denial: &Denial, library: ProviderId) -> bool {
        let gfx = denial.gfx.is_empty() || denial.gfx.contains(&self.gfx.name());
        let after = denial.since.is_none_or(|since| self.rocm.is_none_or(|rocm| rocm >= since));
        let before = denial.until.is_none_or(|until| self.rocm.is_none_or(|rocm| rocm < until));
        denial.library == library && gfx && after && before
    }
}

fn kernels_device(gfx: &Gfx, code: &str, compute_units: u32) -> ops_kernels::Device {
    let matrix = ops_kernels::Matrix::of(gfx.name());
    // A generic target may be without what the device has.
    let dot4 = ops_kernels::Dot4::of(gfx.name()).filter(|_| ops_kernels::Dot4::of(code).is_some());
    let tuning = ops_kernels::Tuning::of(gfx.name());
    ops_kernels::Device { compute_units, wave: gfx.wave_size(), matrix, dot4, tuning }
}

fn opened<'l, L>(
    cell: &'l OnceLock<Result<L, String>>,
    hip: Option<&Hip>,
    open: impl FnOnce(&Hip) -> Result<L, String>,
) -> Result<&'l L, Reason> {
    let Some(hip) = hip else { return Err(Reason::Because("there is no device".to_string())) };
    cell.get_or_init(|| open(hip)).as_ref().map_err(|why| Reason::Because(why.clone()))
}

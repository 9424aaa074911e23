//! What providers base their decisions on: the device and its libraries.
use super::measured::{Measured, Measurement};
use crate::ProviderId;
use crate::hip::{DeviceInfo, Gfx, Hip};
use crate::vendor::{AnyLibrary, Installed, Lib, VENDORS, Vendor, denied};
use hip_sys::loader::Version;
use ops_core::{Determinism, Operands, Reason};
use std::sync::OnceLock;

type Opened = Result<Box<dyn AnyLibrary>, String>;

/// A device with the libraries on this machine, or an assumed architecture with all libraries.
#[derive(Debug)]
pub struct Target {
    gfx: Gfx,
    launch_device: ops_kernels::Device,
    rocm: Option<Version>,
    /// `None` for a target that is only assumed.
    hip: Option<Hip>,
    /// Whether libraries are used even for problems that they are known to get wrong.
    ignores_denials: bool,
    /// Orders of providers that were measured on the device.
    measured: Measured,
    /// One for each row of [`VENDORS`], opened on first use.
    libraries: [OnceLock<Opened>; VENDORS.len()],
}

/// The state of a library on a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Library {
    /// It is open; its version, if it reports one.
    Open(Option<Version>),
    /// The target is assumed, and the library with it.
    Assumed,
    /// It cannot be used, for this reason.
    Absent(String),
}

impl Target {
    /// The version of ROCm that assumed targets have.
    pub const ASSUMED_ROCM: Version = Version::new(7, 2, 0);

    /// A device whose kernels are compiled for `code`, its own architecture or its generic target.
    pub(crate) fn of_device(hip: &Hip, info: &DeviceInfo, code: &str) -> Self {
        let device = launch_device(&info.gfx, code, info.compute_units);
        Self::new(info.gfx.clone(), device, hip.lib().version(), Some(hip.clone()))
    }

    /// An architecture with ROCm 7.2 and all its libraries, for queries without a device.
    pub fn assumed(gfx: Gfx) -> Self {
        let device = launch_device(&gfx, gfx.name(), 64);
        Self::new(gfx, device, Some(Self::ASSUMED_ROCM), None)
    }

    fn new(gfx: Gfx, launch_device: ops_kernels::Device, rocm: Option<Version>, hip: Option<Hip>) -> Self {
        let libraries = [const { OnceLock::new() }; VENDORS.len()];
        Target {
            gfx,
            launch_device,
            rocm,
            hip,
            ignores_denials: false,
            measured: Measured::default(),
            libraries,
        }
    }

    /// The architecture.
    pub fn gfx(&self) -> &Gfx {
        &self.gfx
    }
    /// The version of ROCm, as the HIP runtime reports it.
    pub fn rocm(&self) -> Option<Version> {
        self.rocm
    }
    /// What launches of this project's kernels depend on.
    pub(crate) fn launch_device(&self) -> &ops_kernels::Device {
        &self.launch_device
    }

    /// Uses values measured on the device.
    pub(crate) fn tuned(mut self, tuning: ops_kernels::Tuning) -> Self {
        self.launch_device.tuning = tuning;
        self
    }

    /// Uses orders of providers that were measured on the device.
    pub(crate) fn measured(self, measured: Measured) -> Self {
        Target { measured, ..self }
    }
    /// The orders of providers that were measured on the device.
    pub(crate) fn measurements(&self) -> &Measured {
        &self.measured
    }
    /// What was measured for such problems of an op, if it still holds.
    pub(crate) fn measured_for(&self, op: &str, on: &dyn Operands) -> Option<&Measurement> {
        self.measured.find(op, on, &|provider| self.version_of(provider))
    }

    /// Uses launches that sum each row in an order independent of the other rows, if at least
    /// [`Determinism::Batch`] is required.
    pub fn promising(mut self, determinism: Determinism) -> Self {
        let tuning = self.launch_device.tuning;
        self.launch_device.tuning = tuning.by_row(determinism > Determinism::Run);
        self
    }
    /// Whether launches of this project's kernels sum each row in an order independent of the other rows.
    pub fn sums_by_row(&self) -> bool {
        self.launch_device.tuning.is_by_row()
    }
    /// The level of a kernel that is chosen by the number of rows, unless rows must be independent of each
    /// other.
    pub(crate) fn sums_level(&self) -> Determinism {
        if self.sums_by_row() { Determinism::Batch } else { Determinism::Run }
    }

    /// Uses libraries even for problems that they are known to get wrong.
    pub(crate) fn ignoring_denials(self, ignores_denials: bool) -> Self {
        Target { ignores_denials, ..self }
    }

    /// A vendor library by the id of its provider, opened on first use.
    pub fn library(&self, id: ProviderId) -> Library {
        let Some(row) = VENDORS.iter().position(|row| row.id == id) else {
            return Library::Absent(format!("{id} is not a vendor library"));
        };
        let Some(hip) = &self.hip else { return Library::Assumed };
        match self.opened(hip, row) {
            Ok(library) => Library::Open(library.version()),
            Err(why) => Library::Absent(why.to_string()),
        }
    }

    /// The version of a provider's library; `None` if the provider is no library, or the library is absent.
    pub(crate) fn version_of(&self, provider: &str) -> Option<String> {
        let library = VENDORS.iter().map(|vendor| vendor.id).find(|id| id.name() == provider)?;
        match self.library(library) {
            Library::Open(version) => {
                Some(version.map_or_else(|| "unknown".to_owned(), |version| version.to_string()))
            }
            Library::Assumed | Library::Absent(_) => None,
        }
    }

    /// Checks that a library is present, has kernels for the device, and is not denied this problem.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(crate) fn require<V: Vendor>(&self, op: &str, on: &dyn Operands) -> Result<(), Reason> {
        let version = if self.hip.is_some() { self.lib::<V>()?.version() } else { Some(V::ASSUMED) };
        if self.ignores_denials {
            return Ok(());
        }
        denied(V::DENIALS, Installed { gfx: self.gfx.name(), version }, op, on)
    }

    /// An open library that has kernels for the device.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(crate) fn lib<V: Vendor>(&self) -> Result<&Lib<V>, Reason> {
        let because = |why: &str| Reason::Because(why.to_string());
        let hip = self.hip.as_ref().ok_or_else(|| because("there is no device"))?;
        let row = VENDORS.iter().position(|row| row.id == V::ID);
        let library = row.map(|row| self.opened(hip, row)).transpose()?.and_then(|open| open.of::<V>());
        library.ok_or_else(|| because("the library is not in the list of vendor libraries"))
    }

    fn opened(&self, hip: &Hip, row: usize) -> Result<&dyn AnyLibrary, Reason> {
        let open = || {
            let library = (VENDORS[row].load)(hip.lib()).map_err(|error| error.to_string())?;
            library.check_kernels(self.gfx.name())?;
            Ok(library)
        };
        match self.libraries[row].get_or_init(open) {
            Ok(library) => Ok(&**library),
            Err(why) => Err(Reason::Because(why.clone())),
        }
    }
}

fn launch_device(gfx: &Gfx, code: &str, compute_units: u32) -> ops_kernels::Device {
    let matrix = ops_kernels::Matrix::of(gfx.name());
    // A generic target may lack features of the device.
    let dot4 = ops_kernels::Dot4::of(gfx.name()).filter(|_| ops_kernels::Dot4::of(code).is_some());
    let tuning = ops_kernels::Tuning::of(gfx.name());
    ops_kernels::Device { compute_units, wave: gfx.wave_size(), matrix, dot4, tuning }
}

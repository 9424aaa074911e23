//! Opening a queue, with options.
use crate::choice::{Decisions, Policy, Target};
use crate::error::failed;
use crate::hip::Device;
use crate::index_names::IndexNames;
use crate::kernels::{CacheFolder, CacheLimit, CodeObjects, KernelSource, Kernels};
use crate::rocm::Shared;
use crate::{Result, Rocm, tuned};
use ops_core::Determinism;
use ops_kernels::Tuning;
use std::path::PathBuf;

impl Rocm {
    /// A queue on the best device: supported, not integrated if there is another, with the most memory.
    ///
    /// # Errors
    /// [`Error::Device`](ops_core::Error::Device): there is no ROCm or no device, with what was looked for and what to do, on
    /// one line and within a tenth of a second; or `OPS_ROCM_POLICY` is not a policy.
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// A queue on a device that is open already.
    ///
    /// # Errors
    /// As [`new`](Rocm::new).
    pub fn on(device: Device) -> Result<Self> {
        Self::builder().device(device).build()
    }

    /// A queue with options.
    pub fn builder() -> RocmBuilder {
        RocmBuilder::default()
    }
}

/// Options of a [`Rocm`]. Rules of `OPS_ROCM_POLICY` replace rules for the same ops.
#[derive(Clone, Debug, Default)]
pub struct RocmBuilder {
    device: Option<Device>,
    ordinal: Option<u32>,
    policy: Policy,
    kernels: Option<KernelSource>,
    objects: Option<CodeObjects>,
    cache: CacheFolder,
    tuning: Option<Tuning>,
    ignores_denials: bool,
}

impl RocmBuilder {
    /// On this open device.
    pub fn device(self, device: Device) -> Self {
        RocmBuilder { device: Some(device), ..self }
    }
    /// On the device of this number.
    pub fn ordinal(self, ordinal: u32) -> Self {
        RocmBuilder { ordinal: Some(ordinal), ..self }
    }
    /// With this policy.
    pub fn policy(self, policy: Policy) -> Self {
        let policy = policy.at_least(self.policy.least());
        RocmBuilder { policy, ..self }
    }
    /// Every call promises at least this level; a call for which no provider does is unsupported. Also a policy may ask for one, and
    /// the higher of both counts.
    pub fn determinism(self, determinism: Determinism) -> Self {
        let policy = self.policy.at_least(determinism);
        RocmBuilder { policy, ..self }
    }
    /// With kernels from there; otherwise as `OPS_ROCM_KERNELS` says, `jit` or `aot`, or from either.
    pub fn kernels(self, source: KernelSource) -> Self {
        RocmBuilder { kernels: Some(source), ..self }
    }
    /// With these code objects instead of those that the program was built with.
    pub fn code_objects(self, objects: CodeObjects) -> Self {
        RocmBuilder { objects: Some(objects), ..self }
    }
    /// With these values for launches, instead of what the table and measurements on the device say.
    pub fn tuning(self, tuning: Tuning) -> Self {
        RocmBuilder { tuning: Some(tuning), ..self }
    }
    /// Caches compiled kernels in this folder, as many as fit in `OPS_ROCM_CACHE_MIB` (1024 MiB unless set): those that were
    /// used longest ago are removed.
    pub fn cache(self, folder: impl Into<PathBuf>) -> Self {
        RocmBuilder { cache: CacheFolder::At(folder.into()), ..self }
    }
    /// Caches no compiled kernels.
    pub fn no_cache(self) -> Self {
        RocmBuilder { cache: CacheFolder::Nowhere, ..self }
    }

    /// With libraries that compute also what they are known to get wrong ([`denials`](crate::denials)). This is for finding
    /// out whether a fault is still there: results may be wrong.
    pub fn ignore_denials(self) -> Self {
        RocmBuilder { ignores_denials: true, ..self }
    }

    /// Opens the device.
    ///
    /// # Errors
    /// As [`Rocm::new`].
    pub fn build(self) -> Result<Rocm> {
        let bad_policy = |error| failed("reading the policy", error);
        let policy = self.policy.with(Policy::from_env().map_err(bad_policy)?);
        policy.check().map_err(bad_policy)?;
        policy.warn_of_unknown_ops();
        let source = match self.kernels {
            Some(source) => source,
            None => KernelSource::from_env()?,
        };
        let limit = CacheLimit::from_env()?;
        let device = match (self.device, self.ordinal) {
            (Some(device), _) => device,
            (None, Some(ordinal)) => Device::open(ordinal)?,
            (None, None) => Device::open_default()?,
        };
        let tuning = self.tuning.unwrap_or_else(|| tuned::load(&self.cache, device.info()));
        let objects = self.objects.unwrap_or_else(CodeObjects::embedded);
        let gfx = &device.info().gfx;
        let embedded = if source == KernelSource::Jit { None } else { objects.target_for(gfx) };
        let code = embedded.unwrap_or(gfx.name());
        let target = Target::of_device(device.hip(), device.info(), code)
            .tuned(tuning)
            .promising(policy.least())
            .ignoring_denials(self.ignores_denials);
        let kernels = Kernels::new(&device, source, objects, self.cache, limit)?;
        let stream = device.stream()?;
        let decisions = Decisions::default();
        let index_names = IndexNames::default();
        let shared = Shared { device, target, policy, kernels, decisions, index_names };
        Ok(Rocm::of(shared, stream))
    }
}

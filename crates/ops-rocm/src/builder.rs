//! Opening a queue, with options.
use crate::choice::{Decisions, Policy, Target};
use crate::error::failed;
use crate::hip::Device;
use crate::index_names::IndexNames;
use crate::kernels::{CacheFolder, CacheLimit, CodeObjects, KernelSource, Kernels};
use crate::rocm::Shared;
use crate::sync::Mutex;
use crate::{Result, Rocm, tuned};
use ops_core::Determinism;
use ops_kernels::Tuning;
use std::path::PathBuf;
use std::sync::OnceLock;

impl Rocm {
    /// A queue on the best device: supported, preferably not integrated, with the most memory.
    ///
    /// # Errors
    /// [`Error::Device`](ops_core::Error::Device): there is no ROCm or no device, with what was looked for and what to do, on
    /// one line and within a tenth of a second; or `OPS_ROCM_POLICY` is not a policy.
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// A queue on a device that is already open.
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
    /// Uses this open device.
    pub fn device(self, device: Device) -> Self {
        RocmBuilder { device: Some(device), ..self }
    }
    /// Uses the device with this number.
    pub fn ordinal(self, ordinal: u32) -> Self {
        RocmBuilder { ordinal: Some(ordinal), ..self }
    }
    /// Uses this policy.
    pub fn policy(self, policy: Policy) -> Self {
        let policy = policy.at_least(self.policy.least());
        RocmBuilder { policy, ..self }
    }
    /// Requires at least this level for every call; a call for which no provider reaches it is unsupported. A
    /// policy may require a level too; the higher one counts.
    pub fn determinism(self, determinism: Determinism) -> Self {
        let policy = self.policy.at_least(determinism);
        RocmBuilder { policy, ..self }
    }
    /// Takes kernels from this source. The default is `OPS_ROCM_KERNELS`, `jit` or `aot`, or else either.
    pub fn kernels(self, source: KernelSource) -> Self {
        RocmBuilder { kernels: Some(source), ..self }
    }
    /// Uses these code objects instead of those built into the program.
    pub fn code_objects(self, objects: CodeObjects) -> Self {
        RocmBuilder { objects: Some(objects), ..self }
    }
    /// Uses these launch parameters instead of those from the table and from measurements on the device.
    pub fn tuning(self, tuning: Tuning) -> Self {
        RocmBuilder { tuning: Some(tuning), ..self }
    }
    /// Caches compiled kernels in this folder, up to `OPS_ROCM_CACHE_MIB` (1024 MiB unless set): the least
    /// recently used ones are removed.
    pub fn cache(self, folder: impl Into<PathBuf>) -> Self {
        RocmBuilder { cache: CacheFolder::At(folder.into()), ..self }
    }
    /// Does not cache compiled kernels.
    pub fn no_cache(self) -> Self {
        RocmBuilder { cache: CacheFolder::Nowhere, ..self }
    }

    /// Uses libraries even for problems that they are known to get wrong ([`denials`](crate::denials)). This
    /// is for finding out whether a bug still exists: results may be wrong.
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
        let tuned = tuned::is_wanted();
        let folder = if tuned { self.cache.clone() } else { CacheFolder::Nowhere };
        let tuning = self.tuning.unwrap_or_else(|| tuned::load(&folder, device.info()));
        let measured = tuned::load_providers(&folder, device.info());
        let objects = self.objects.unwrap_or_else(CodeObjects::embedded);
        let gfx = &device.info().gfx;
        let embedded = if source == KernelSource::Jit { None } else { objects.target_for(gfx) };
        let code = embedded.unwrap_or(gfx.name());
        let target = Target::of_device(device.hip(), device.info(), code)
            .tuned(tuning)
            .measured(measured)
            .promising(policy.least())
            .ignoring_denials(self.ignores_denials);
        let kernels = Kernels::new(&device, source, objects, self.cache, limit)?;
        let stream = device.stream()?;
        let decisions = Decisions::default();
        let index_names = IndexNames::default();
        let (group_fault, groups) = (OnceLock::new(), Mutex::default());
        let shared = Shared { device, target, policy, kernels, decisions, index_names, group_fault, groups };
        Ok(Rocm::of(shared, stream))
    }
}

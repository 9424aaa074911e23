//! The backend: a queue on an AMD GPU.
use crate::choice::{Decision, Decisions, Policy, Providers, Target, decide, describe};
use crate::error::{NAME, failed};
use crate::hip::{Device, DeviceInfo, Hip, MemoryStats, Stream};
use crate::index_names::IndexNames;
use crate::kernels::{CacheFolder, CodeObjects, KernelSource, Kernels};
use crate::tuned;
use crate::vendor::{Failure, Handles, Lib, Vendor};
use crate::{Error, HipSpace, Result};
use ops_core::{Call, Execute, Op, Operands, Reason};
use ops_kernels::Tuning;
use std::path::PathBuf;
use std::sync::Arc;

/// A queue on an AMD GPU.
///
/// A clone is the same queue; [`fork`](ops_core::Backend::fork) makes another on the same device. Each op is computed by
/// the first of its [`Providers`] that can and may, which [`explain`](Rocm::explain) and
/// [`decisions`](Rocm::decisions) tell.
///
/// ```no_run
/// use ops_core::{Backend, ops::{NormOps, RmsNorm}};
/// use ops_rocm::Rocm;
///
/// let gpu = Rocm::new()?;
/// let x = gpu.tensor(&[2, 4], &[1.0f32; 8])?;
/// let weight = gpu.tensor(&[4], &[1.0f32; 4])?;
/// let y = gpu.rms_norm(x.as_ref(), weight.as_ref(), RmsNorm::eps(1e-5))?;
/// println!("{:?}", y.as_ref().to_vec(&gpu)?);
/// # Ok::<(), ops_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rocm {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
}

/// What all queues on a device have in common.
#[derive(Debug)]
struct Shared {
    device: Device,
    target: Target,
    policy: Policy,
    kernels: Kernels,
    decisions: Decisions,
    index_names: IndexNames,
}

/// What each queue has of its own. Handles are dropped before the stream they work on.
#[derive(Debug)]
struct Queue {
    handles: Handles,
    stream: Stream,
}

impl Queue {
    fn new(stream: Stream) -> Self {
        Queue { handles: Handles::default(), stream }
    }
}

impl Rocm {
    /// A queue on the best device: supported, not integrated if there is another, with the most memory.
    ///
    /// # Errors
    /// [`Error::Device`], within a tenth of a second and on one line, where there is no ROCm or no device, with what was
    /// looked for and what to do; or where `OPS_ROCM_POLICY` is no policy.
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

    /// The devices that the process sees, unsupported ones too.
    ///
    /// # Errors
    /// As [`new`](Rocm::new).
    pub fn devices() -> Result<Vec<DeviceInfo>> {
        let hip = Hip::load().map_err(crate::hip::Error::from)?;
        Ok(DeviceInfo::all(&hip)?)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.shared.device
    }
    /// The stream that this queue enqueues on.
    pub fn stream(&self) -> &Stream {
        &self.queue.stream
    }
    /// What providers decide by.
    pub fn target(&self) -> &Target {
        &self.shared.target
    }
    /// Which providers may compute what.
    pub fn policy(&self) -> &Policy {
        &self.shared.policy
    }
    /// Counts of the device's memory.
    pub fn memory_stats(&self) -> MemoryStats {
        self.shared.device.memory_stats()
    }
    /// Waits for all work on the device and gives cached memory back.
    ///
    /// # Errors
    /// HIP's.
    pub fn trim(&self) -> Result<()> {
        Ok(self.shared.device.trim()?)
    }

    /// Who would compute an op for these operands, and why not the others. Nothing runs and nothing is counted.
    pub fn explain<O: Op>(&self, op: &O, on: &dyn Operands) -> Decision
    where
        Rocm: Providers<O>,
    {
        explain(self.target(), self.policy(), op, on)
    }

    /// Every kind of decision so far, in order of first appearance, with the number of calls.
    pub fn decisions(&self) -> Vec<Decision> {
        self.shared.decisions.list()
    }

    /// The values that launches depend on.
    pub fn tuning(&self) -> &Tuning {
        &self.target().launch_device().tuning
    }
    /// Keeps values for this device, for programs that are started later; returns where.
    ///
    /// # Errors
    /// The file cannot be written, or `OPS_ROCM_CACHE` is empty.
    pub fn keep_tuning(&self, tuning: &Tuning) -> Result<PathBuf> {
        tuned::store(&CacheFolder::Standard, self.device().info(), tuning)
    }

    pub(crate) fn kernels(&self) -> &Kernels {
        &self.shared.kernels
    }
    pub(crate) fn index_names(&self) -> &IndexNames {
        &self.shared.index_names
    }
    /// Calls a vendor library with this queue's handle, and with the device as the thread's current one.
    pub(crate) fn with_library<V: Vendor, R>(
        &self,
        call: impl FnOnce(&Lib<V>, V::Handle) -> std::result::Result<R, Failure>,
    ) -> Result<R> {
        self.queue.handles.with::<V, R>(self.stream(), || self.target().lib::<V>(), call)
    }
    /// Another queue on the same device.
    pub(crate) fn with_stream(&self, stream: Stream) -> Self {
        Rocm { shared: self.shared.clone(), queue: Arc::new(Queue::new(stream)) }
    }

    /// Ends the loan of a queue's borrowed stream: waits for its work, after which clones of the queue give errors.
    #[cfg(feature = "rocm-rs")]
    pub(crate) fn end_loan(&self) -> Result<()> {
        let queue = &*self.queue;
        Ok(queue.stream.end_loan_after(|| queue.handles.close())?)
    }

    /// The place of the provider that computes this; `runs` counts the call.
    fn choose<O: Op>(&self, op: &O, on: &dyn Operands, runs: bool) -> std::result::Result<usize, Reason>
    where
        Rocm: Providers<O>,
    {
        let list = <Rocm as Providers<O>>::LIST;
        self.shared.decisions.place(op, on, runs, || decide(list, self.policy(), self.target(), op, on))
    }

    /// A policy in code or for an op of another crate is checked when the op is first asked for.
    fn check_policy<O: Op>(&self, op: &O, on: &dyn Operands) -> Result<(), String>
    where
        Rocm: Providers<O>,
    {
        if self.policy().is_default() {
            return Ok(());
        }
        let ids: Vec<_> = <Rocm as Providers<O>>::LIST.iter().map(|provider| provider.id()).collect();
        self.policy().check_names(op.name_on(on), &ids).map_err(|error| error.to_string())
    }
}

/// Who would compute an op for these operands on a target, which need not be at hand.
pub fn explain<O: Op>(target: &Target, policy: &Policy, op: &O, on: &dyn Operands) -> Decision
where
    Rocm: Providers<O>,
{
    let (place, candidates) = decide(<Rocm as Providers<O>>::LIST, policy, target, op, on);
    let chosen = place.map(|place| <Rocm as Providers<O>>::LIST[place].id());
    Decision { op: op.name_on(on), problem: describe(on), chosen, candidates, calls: 0 }
}

impl<O: Op> Execute<O> for Rocm
where
    Rocm: Providers<O>,
{
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        on.require_plain()?;
        self.check_policy(op, on).map_err(Reason::Because)?;
        self.choose(op, on, false).map(drop)
    }

    fn execute(&self, call: Call<'_, '_, O, HipSpace>) -> Result<()> {
        let op = call.op();
        self.check_policy(op, call.operands()).map_err(|why| failed("choosing a provider", why))?;
        match self.choose(op, call.operands(), true) {
            Ok(place) => <Rocm as Providers<O>>::LIST[place].launch(self, call),
            Err(reason) => Err(Error::Unsupported { op: call.name(), backend: NAME, reason }),
        }
    }
}

/// Options of a [`Rocm`]. What the environment says is added to them: rules of `OPS_ROCM_POLICY` replace those for the
/// same ops.
#[derive(Clone, Debug, Default)]
pub struct RocmBuilder {
    device: Option<Device>,
    ordinal: Option<u32>,
    policy: Policy,
    kernels: Option<KernelSource>,
    objects: Option<CodeObjects>,
    cache: CacheFolder,
    tuning: Option<Tuning>,
}

impl RocmBuilder {
    /// On a device that is open already.
    pub fn device(self, device: Device) -> Self {
        RocmBuilder { device: Some(device), ..self }
    }
    /// On the device of this number.
    pub fn ordinal(self, ordinal: u32) -> Self {
        RocmBuilder { ordinal: Some(ordinal), ..self }
    }
    /// With this policy.
    pub fn policy(self, policy: Policy) -> Self {
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
    /// With compiled kernels kept in this folder.
    pub fn cache(self, folder: impl Into<PathBuf>) -> Self {
        RocmBuilder { cache: CacheFolder::At(folder.into()), ..self }
    }
    /// With compiled kernels kept nowhere.
    pub fn no_cache(self) -> Self {
        RocmBuilder { cache: CacheFolder::Nowhere, ..self }
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
        let target = Target::of_device(device.hip(), device.info(), code).tuned(tuning);
        let kernels = Kernels::new(&device, source, objects, self.cache)?;
        let stream = device.stream()?;
        let decisions = Decisions::default();
        let index_names = IndexNames::default();
        let shared = Shared { device, target, policy, kernels, decisions, index_names };
        Ok(Rocm { shared: Arc::new(shared), queue: Arc::new(Queue::new(stream)) })
    }
}

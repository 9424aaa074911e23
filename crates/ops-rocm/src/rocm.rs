//! The backend: a queue on an AMD GPU.
use crate::choice::{Decision, Decisions, Measurement, Policy, Target};
use crate::hip::{Device, DeviceInfo, Function, Hip, MemoryStats, Source, Stream};
use crate::index_names::IndexNames;
use crate::kernels::{CacheFolder, Kernels};
use crate::sync::Mutex;
use crate::tuned;
use crate::vendor::{Failure, Handles, Lib, Vendor};
use crate::{Error, Result};
use ops_kernels::Tuning;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};

/// A queue on an AMD GPU.
///
/// A clone is the same queue; [`fork`](ops_core::Backend::fork) makes another on the same device. Each op is
/// computed by the first of its [`Providers`](crate::Providers) that can and may compute it: see
/// [`explain`](Rocm::explain) and [`decisions`](Rocm::decisions).
///
/// ```no_run
/// use rocm_ops::prelude::*;
/// use rocm_ops::rocm::Rocm;
///
/// let gpu = Rocm::new()?;
/// let x = gpu.tensor(&[2, 4], &[1.0f32; 8])?;
/// let weight = gpu.tensor(&[4], &[1.0f32; 4])?;
/// let y = gpu.rms_norm(x.as_ref(), weight.as_ref(), RmsNorm::eps(1e-5))?;
/// println!("{:?}", y.as_ref().to_vec(&gpu)?);
/// # Ok::<(), rocm_ops::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Rocm {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
}

/// What all queues on a device share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) device: Device,
    pub(crate) target: Target,
    pub(crate) policy: Policy,
    pub(crate) kernels: Kernels,
    pub(crate) decisions: Decisions,
    pub(crate) index_names: IndexNames,
    /// The failure of a group, after which memory of the device may hold anything.
    pub(crate) group_fault: OnceLock<Error>,
    /// The groups whose kernels may fail.
    pub(crate) groups: Mutex<Vec<Weak<dyn AskedAtWaits>>>,
}

/// What knows of failures that HIP does not report. It is asked after each wait of a device's queues.
pub(crate) trait AskedAtWaits: std::fmt::Debug + Send + Sync {
    /// The failure, if there was one.
    fn fault(&self) -> Option<Error>;
}

/// What belongs to a single queue. Handles are dropped before the stream they work on.
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
    /// The first queue on a device.
    pub(crate) fn of(shared: Shared, stream: Stream) -> Self {
        Rocm { shared: Arc::new(shared), queue: Arc::new(Queue::new(stream)) }
    }

    /// The devices that the process sees, including unsupported ones.
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
    /// What providers base their decisions on.
    pub fn target(&self) -> &Target {
        &self.shared.target
    }
    /// Which providers may compute which ops.
    pub fn policy(&self) -> &Policy {
        &self.shared.policy
    }
    /// Statistics of the device's memory.
    pub fn memory_stats(&self) -> MemoryStats {
        self.shared.device.memory_stats()
    }
    /// Waits for all work on the device and frees cached memory.
    ///
    /// # Errors
    /// Errors from HIP.
    pub fn trim(&self) -> Result<()> {
        Ok(self.shared.device.trim()?)
    }

    /// Every distinct decision so far, in order of first appearance, with the number of calls.
    pub fn decisions(&self) -> Vec<Decision> {
        self.shared.decisions.list()
    }

    /// The launch parameters.
    pub fn tuning(&self) -> &Tuning {
        &self.target().launch_device().tuning
    }
    /// Stores launch parameters for this device, for programs started later; returns the file.
    ///
    /// # Errors
    /// The file cannot be written, or `OPS_ROCM_CACHE` is empty.
    pub fn keep_tuning(&self, tuning: &Tuning) -> Result<PathBuf> {
        tuned::store(&CacheFolder::Standard, self.device().info(), tuning)
    }

    /// Stores what providers took on this device, for programs started later, beside what is stored already; returns the file.
    ///
    /// # Errors
    /// As [`keep_tuning`](Self::keep_tuning).
    pub fn keep_measurements(&self, rows: impl IntoIterator<Item = Measurement>) -> Result<PathBuf> {
        tuned::store_providers(&CacheFolder::Standard, self.device().info(), self.target(), rows)
    }

    /// A kernel of your own: compiles the source for this device when it is used first, and finds the function.
    ///
    /// Sources are told apart by name and text, and are compiled by hipRTC in this process, with `-O3`, C++17, and
    /// `OPS_WAVE` defined as the wave size. Besides its own headers, a source may include those of this project's kernels:
    /// one that uses `OPS_KERNEL` and the functions of `ops_platform.h` also runs on the stand-in for ROCm, so its tests
    /// need no GPU. The example `custom_kernel` shows an op with such a kernel.
    ///
    /// # Errors
    /// The compiler's log, a name that the source does not have, or errors from HIP.
    pub fn kernel(&self, source: Source<'_>, name: &str) -> Result<Function> {
        self.kernels().foreign(source, name)
    }

    /// Whether this queue records its launches and measured orders of providers could choose ones that cannot be recorded.
    pub(crate) fn is_recording(&self) -> bool {
        !self.target().measurements().is_empty() && self.stream().is_recorded()
    }

    /// Makes every later wait of all queues of this device return the error of a group.
    pub(crate) fn lose(&self, error: &Error) {
        // The first error stays.
        let _ = self.shared.group_fault.set(error.clone());
    }
    /// The error of a group whose collective did not end, if there was one.
    pub(crate) fn group_fault(&self) -> Result<()> {
        if let Some(error) = self.shared.group_fault.get() {
            return Err(error.clone());
        }
        let groups: Vec<_> = {
            let mut groups = self.shared.groups.lock();
            groups.retain(|group| group.strong_count() > 0);
            groups.iter().filter_map(Weak::upgrade).collect()
        };
        groups.iter().find_map(|group| group.fault()).map_or(Ok(()), Err)
    }
    /// Asks for a failure after each wait, as long as the value lives.
    pub(crate) fn ask_at_waits(&self, group: Weak<dyn AskedAtWaits>) {
        self.shared.groups.lock().push(group);
    }

    pub(crate) fn kernels(&self) -> &Kernels {
        &self.shared.kernels
    }
    pub(crate) fn decided(&self) -> &Decisions {
        &self.shared.decisions
    }
    pub(crate) fn index_names(&self) -> &IndexNames {
        &self.shared.index_names
    }
    /// Calls a vendor library with this queue's handle, and with the device as the thread's current one. If
    /// the library reports that device memory is exhausted, the cache is freed and `call` is made again, so
    /// it must not have side effects before it fails.
    pub(crate) fn with_library<V: Vendor, R>(
        &self,
        call: impl FnMut(&Lib<V>, &mut V::Handle) -> std::result::Result<R, Failure>,
    ) -> Result<R> {
        let why = "this backend cannot record its launches; choose a policy that makes hip compute the op";
        self.stream().require_unrecorded("a library call", why)?;
        self.queue.handles.with::<V, R>(self.stream(), || self.target().lib::<V>(), call)
    }
    /// A queue on a stream of other code, without a copy of the device's kernels and decisions. It never waits for the stream by itself.
    ///
    /// # Safety
    /// The handle is a live stream of the device. It remains one until the last clone of the queue, and whatever was allocated on it, is
    /// dropped, or until [`Stream::end_loan`] has returned.
    pub unsafe fn on_stream(&self, handle: hip_sys::hip::hipStream_t) -> Self {
        // SAFETY: the caller upholds the contract.
        self.with_stream(unsafe { Stream::borrow_raw(self.device(), handle) })
    }
    /// Another queue on the same device.
    pub(crate) fn with_stream(&self, stream: Stream) -> Self {
        Rocm { shared: self.shared.clone(), queue: Arc::new(Queue::new(stream)) }
    }

    /// Ends the loan of a queue's borrowed stream: waits for its work, after which clones of the queue return
    /// errors. No later wait could report an index out of range, so this returns it.
    #[cfg(feature = "rocm-rs")]
    pub(crate) fn end_loan(&self) -> Result<()> {
        let queue = &*self.queue;
        queue.stream.end_loan_after(|| queue.handles.close())?;
        self.index_fault()
    }
}

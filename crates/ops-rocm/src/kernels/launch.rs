//! Launches of kernels, planned by `ops-kernels`.
use super::{Kernels, rehearsal};
use crate::error::failed;
use crate::hip::{DeviceMemory, Launch, Purpose, Stream};
use ops_core::Result;
use ops_kernels::{Arguments, Plan, Refused, Step};

impl Kernels {
    /// Launches a plan, whose workspace begins with these bytes.
    ///
    /// # Errors
    /// Those of [`launch`](Self::launch), and of making the workspace.
    ///
    /// # Safety
    /// The plan was made by functions of `ops-kernels` for views that lie in their memory, which this stream
    /// may access until this has returned.
    pub(crate) unsafe fn run(&self, stream: &Stream, plan: &mut Plan, contents: &[u8]) -> Result<()> {
        let workspace = match plan.workspace {
            0 => None,
            bytes => Some(workspace(stream, bytes, contents)?),
        };
        let access = workspace.as_ref().map(|memory| memory.access(stream, Purpose::Write)).transpose()?;
        let counters = if plan.needs_counters() { stream.arrivals()? as u64 } else { 0 };
        plan.place(access.as_ref().map_or(0, |access| access.address() as u64), counters);
        for step in plan.steps() {
            // SAFETY: the workspace has the size that all launches were planned for, and the stream may
            // access it and its counters; the rest is guaranteed by the caller.
            unsafe { self.launch(stream, step) }?;
        }
        Ok(())
    }

    /// Launches one kernel. If there is none, `call` has failed.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    pub(crate) unsafe fn run_one<A: Arguments>(
        &self,
        stream: &Stream,
        call: &'static str,
        step: Result<(ops_kernels::Launch, A), Refused>,
    ) -> Result<()> {
        let mut plan = Plan::default();
        step.and_then(|step| plan.add(step)).map_err(|refused| failed(call, refused))?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.run(stream, &mut plan, &[]) }
    }

    /// Enqueues a kernel, or only notes it inside [`rehearse`](Self::rehearse).
    ///
    /// # Errors
    /// The kernel cannot be compiled or loaded, or an error from HIP.
    ///
    /// # Safety
    /// The step was planned by functions of `ops-kernels` for views that lie in their memory, which this
    /// stream may access until this has returned.
    unsafe fn launch(&self, stream: &Stream, step: Step<'_>) -> Result<()> {
        let Step { launch, args } = step;
        if launch.is_empty() {
            return Ok(());
        }
        let instance = launch.instance;
        if rehearsal::notes(self, instance) {
            return Ok(());
        }
        let function = self.function(instance)?;
        let sizes = Launch { grid: launch.grid, block: [launch.block, 1, 1], dynamic_lds: 0 };
        // SAFETY: a plan has compared the structure with the kernel's; the rest is guaranteed by the caller.
        Ok(unsafe { function.launch_bytes(stream, sizes, args) }?)
    }
}

fn workspace(stream: &Stream, bytes: u64, contents: &[u8]) -> Result<DeviceMemory> {
    let mut memory = DeviceMemory::new(stream, usize::try_from(bytes).unwrap_or(usize::MAX))?;
    if !contents.is_empty() {
        memory.write(stream, 0, contents)?;
    }
    Ok(memory)
}

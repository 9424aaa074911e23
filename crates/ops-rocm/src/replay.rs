//! Graphs of recorded calls.
use crate::error::NAME;
use crate::hip::Graph;
use crate::vendor::is_library;
use crate::{Error, ProviderId, Result, Rocm};
use ops_core::replay::{CAPTURE, REPLAY, not_recorded};
use ops_core::{Reason, Replay};

/// Calls become nodes of a HIP graph (`hipGraph`).
///
/// As outside a recording, memory that is allocated and dropped between recorded calls is reused by later
/// ones. This project's kernels are recorded, and so are fills and copies on the device. A call that rocBLAS,
/// hipBLASLt or MIOpen would compute is refused, because this crate cannot record their launches: choose a
/// policy that makes `hip` compute that op.
///
/// ```no_run
/// use rocm_ops::{Backend, Replay, ops::*};
/// use rocm_ops::rocm::Rocm;
///
/// let gpu = Rocm::new()?;
/// let mut count = gpu.tensor(&[1], &[0.0_f32])?;
/// let (graph, ()) = gpu.capture(|| gpu.affine_inplace(&mut count, 1.0, 1.0))?;
/// for _ in 0..100 {
///     gpu.replay(&graph)?;
/// }
/// assert_eq!(count.to_vec(&gpu)?, [100.0]);
/// # Ok::<(), rocm_ops::Error>(())
/// ```
impl Replay for Rocm {
    type Graph = Graph;

    fn capture<R, E: From<Error>>(&self, calls: impl FnOnce() -> Result<R, E>) -> Result<(Graph, R), E> {
        if self.kernels().is_rehearsing() {
            let why = "`prepare` launches nothing, so there is nothing to record; call it before the capture";
            return Err(not_recorded(CAPTURE, NAME, why).into());
        }
        let recorder = self.stream().record_work().map_err(Error::from)?;
        let done = calls()?;
        let graph = recorder.into_graph().map_err(Error::from)?;
        Ok((graph, done))
    }

    fn can_record(&self) -> bool {
        true
    }

    fn replay(&self, graph: &Graph) -> Result<()> {
        if graph.stream() != self.stream() {
            let why = "the graph belongs to another queue; replay it on the queue that recorded it, or a clone of that";
            return Err(not_recorded(REPLAY, NAME, why));
        }
        Ok(graph.replay()?)
    }
}

impl Rocm {
    /// Refuses a call that is being recorded if a library computes it.
    pub(crate) fn require_recordable(&self, provider: ProviderId) -> Result<(), Reason> {
        if !self.stream().is_recorded() || !is_library(provider) {
            return Ok(());
        }
        let why = format!(
            "{provider} computes it, and its launches cannot be recorded; choose a policy that makes hip compute it"
        );
        Err(Reason::Because(why))
    }
}

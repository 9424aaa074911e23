//! Convolutions in MIOpen's terms, and the solutions that it found for them in immediate mode.
use super::super::library::{Failure, Lib, check};
use super::{MiOpenHandle, MiOpenLibrary};
use miopen_sys as sys;
use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

/// A convolution of packed tensors, without addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Convolution {
    /// `miopenConvolution` or `miopenTranspose`.
    pub(crate) mode: sys::miopenConvolutionMode_t,
    /// The type of all three tensors.
    pub(crate) dtype: sys::miopenDataType_t,
    pub(crate) x: [usize; 4],
    pub(crate) weight: [usize; 4],
    pub(crate) y: [usize; 4],
    pub(crate) padding: [i32; 2],
    pub(crate) stride: [i32; 2],
    pub(crate) dilation: [i32; 2],
    pub(crate) groups: i32,
}

/// How MIOpen computes a convolution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Solution {
    id: u64,
    algorithm: sys::miopenConvAlgorithm_t,
    /// Bytes of workspace.
    pub(crate) workspace: usize,
    /// How many solutions there were.
    count: usize,
    /// How long it took to find this one and to compile its kernels.
    took: Duration,
}

impl fmt::Display for Solution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let algorithm = match self.algorithm {
            sys::miopenConvolutionAlgoGEMM => "gemm",
            sys::miopenConvolutionAlgoDirect => "direct",
            sys::miopenConvolutionAlgoFFT => "fft",
            sys::miopenConvolutionAlgoWinograd => "winograd",
            sys::miopenConvolutionAlgoImplicitGEMM => "implicit gemm",
            _ => "unnamed",
        };
        let Solution { id, workspace, count, took, .. } = self;
        write!(f, "solution {id} ({algorithm}), the fastest of {count}, {workspace} bytes of workspace, ")?;
        write!(f, "found and compiled in {took:.1?}")
    }
}

/// The solutions found so far, by convolution; `None` if there is none.
#[derive(Default)]
pub(super) struct FoundSolutions {
    solutions: HashMap<Convolution, Option<Ready>>,
}

impl FoundSolutions {
    /// Capacity. When it is full, it is cleared: MIOpen keeps the kernels that it compiled.
    const CAPACITY: usize = 1024;

    /// Clears all solutions, and destroys their descriptors.
    pub(super) fn clear(&mut self) {
        self.solutions.clear();
    }
}

/// A solution with the descriptors needed to launch it.
struct Ready {
    objects: Descriptors,
    solution: Solution,
}

impl MiOpenHandle {
    /// How a convolution is computed, found on first use; `None` if MIOpen has no solution.
    ///
    /// # Errors
    /// An error of the library.
    pub(crate) fn solution(
        &mut self,
        lib: &Lib<MiOpenLibrary>,
        convolution: &Convolution,
    ) -> Result<Option<Solution>, Failure> {
        Ok(self.ready(lib, convolution)?.1.map(|ready| ready.solution))
    }

    /// Enqueues a convolution. `workspace` is an address and a number of bytes.
    ///
    /// # Safety
    /// The handle's device is the current one. The addresses are those of x, weight and y as `convolution`
    /// describes them, and of a workspace of the solution's size; the handle's stream may access all of them.
    pub(crate) unsafe fn convolve(
        &mut self,
        lib: &Lib<MiOpenLibrary>,
        convolution: &Convolution,
        [x, weight, y]: [*mut c_void; 3],
        workspace: (*mut c_void, usize),
    ) -> Result<(), Failure> {
        const CALL: &str = "miopenConvolutionForwardImmediate";
        let (raw, ready) = self.ready(lib, convolution)?;
        let Some(Ready { objects, solution }) = ready else {
            return Err(Failure::of(CALL, "there is no longer a solution for this convolution"));
        };
        if workspace.1 < solution.workspace {
            return Err(Failure::of(CALL, "the solution needs more workspace than it reported"));
        }
        let [x_desc, weight_desc, y_desc] = objects.tensors;
        // SAFETY: handle, descriptors and solution belong together; the caller guarantees that the addresses
        // match the descriptors.
        let status = unsafe {
            lib.miopenConvolutionForwardImmediate(
                raw,
                weight_desc,
                weight,
                x_desc,
                x,
                objects.convolution,
                y_desc,
                y,
                workspace.0,
                workspace.1,
                solution.id,
            )
        };
        check::<MiOpenLibrary>(lib, CALL, status)
    }

    fn ready(
        &mut self,
        lib: &Lib<MiOpenLibrary>,
        convolution: &Convolution,
    ) -> Result<(sys::miopenHandle_t, Option<&Ready>), Failure> {
        let MiOpenHandle { raw, found } = self;
        if !found.solutions.contains_key(convolution) {
            let ready = find(lib, *raw, convolution)?;
            if let Some(Ready { solution, .. }) = &ready {
                tracing::info!("MIOpen: {solution}, for {convolution:?}");
            }
            if found.solutions.len() >= FoundSolutions::CAPACITY {
                found.clear();
            }
            found.solutions.insert(*convolution, ready);
        }
        Ok((*raw, found.solutions.get(convolution).and_then(Option::as_ref)))
    }
}

/// Asks the library for its fastest solution, and lets it compile that.
fn find(
    lib: &Lib<MiOpenLibrary>,
    handle: sys::miopenHandle_t,
    convolution: &Convolution,
) -> Result<Option<Ready>, Failure> {
    let start = Instant::now();
    let objects = Descriptors::new(lib, convolution)?;
    let ([x, weight, y], described) = (objects.tensors, objects.convolution);
    let mut count = 0;
    // SAFETY: handle and descriptors are live; writes one number.
    let counted =
        unsafe { lib.miopenConvolutionForwardGetSolutionCount(handle, weight, x, described, y, &mut count) };
    if counted == Ok(sys::miopenStatusNotImplemented) || counted == Ok(sys::miopenStatusUnsupportedOp) {
        return Ok(None);
    }
    check::<MiOpenLibrary>(lib, "miopenConvolutionForwardGetSolutionCount", counted)?;
    if count == 0 {
        return Ok(None);
    }
    let mut best = sys::miopenConvSolution_t { time: 0.0, workspace_size: 0, solution_id: 0, algorithm: 0 };
    let mut returned = 0;
    // They are sorted, fastest first, so one is enough. SAFETY: as above; writes one solution at most.
    let got = unsafe {
        lib.miopenConvolutionForwardGetSolution(handle, weight, x, described, y, 1, &mut returned, &mut best)
    };
    check::<MiOpenLibrary>(lib, "miopenConvolutionForwardGetSolution", got)?;
    if returned == 0 {
        return Ok(None);
    }
    let (id, mut workspace) = (best.solution_id, best.workspace_size);
    // SAFETY: as above; writes one number.
    let sized = unsafe {
        lib.miopenConvolutionForwardGetSolutionWorkspaceSize(
            handle,
            weight,
            x,
            described,
            y,
            id,
            &mut workspace,
        )
    };
    check::<MiOpenLibrary>(lib, "miopenConvolutionForwardGetSolutionWorkspaceSize", sized)?;
    // SAFETY: as above.
    let compiled =
        unsafe { lib.miopenConvolutionForwardCompileSolution(handle, weight, x, described, y, id) };
    check::<MiOpenLibrary>(lib, "miopenConvolutionForwardCompileSolution", compiled)?;
    let solution = Solution { id, algorithm: best.algorithm, workspace, count, took: start.elapsed() };
    Ok(Some(Ready { objects, solution }))
}

/// The descriptors of x, weight, y and the convolution.
struct Descriptors {
    lib: Lib<MiOpenLibrary>,
    tensors: [sys::miopenTensorDescriptor_t; 3],
    convolution: sys::miopenConvolutionDescriptor_t,
}

impl Descriptors {
    fn new(lib: &Lib<MiOpenLibrary>, of: &Convolution) -> Result<Self, Failure> {
        let mut made = Descriptors { lib: lib.clone(), tensors: [null_mut(); 3], convolution: null_mut() };
        for (descriptor, dims) in made.tensors.iter_mut().zip([of.x, of.weight, of.y]) {
            let [_, c, h, w] = dims;
            let strides = [c.saturating_mul(h).saturating_mul(w), h.saturating_mul(w), w, 1];
            // SAFETY: writes one descriptor.
            let created = unsafe { lib.miopenCreateTensorDescriptor(descriptor) };
            check::<MiOpenLibrary>(lib, "miopenCreateTensorDescriptor", created)?;
            // SAFETY: the descriptor is live; four extents and four strides are read.
            let set = unsafe {
                lib.miopenSetTensorDescriptorV2(*descriptor, of.dtype, 4, dims.as_ptr(), strides.as_ptr())
            };
            check::<MiOpenLibrary>(lib, "miopenSetTensorDescriptorV2", set)?;
        }
        // SAFETY: writes one descriptor.
        let created = unsafe { lib.miopenCreateConvolutionDescriptor(&mut made.convolution) };
        check::<MiOpenLibrary>(lib, "miopenCreateConvolutionDescriptor", created)?;
        let ([p, q], [s, t], [d, e]) = (of.padding, of.stride, of.dilation);
        // SAFETY: the descriptor is live.
        let set = unsafe { lib.miopenInitConvolutionDescriptor(made.convolution, of.mode, p, q, s, t, d, e) };
        check::<MiOpenLibrary>(lib, "miopenInitConvolutionDescriptor", set)?;
        // SAFETY: as above.
        let set = unsafe { lib.miopenSetConvolutionGroupCount(made.convolution, of.groups) };
        check::<MiOpenLibrary>(lib, "miopenSetConvolutionGroupCount", set)?;
        Ok(made)
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        let lib = &self.lib;
        let tensors = self.tensors.into_iter().filter(|descriptor| !descriptor.is_null());
        let destroyed = tensors.map(|descriptor| {
            // SAFETY: the descriptor is live, and not used again.
            ("miopenDestroyTensorDescriptor", unsafe { lib.miopenDestroyTensorDescriptor(descriptor) })
        });
        let last = (!self.convolution.is_null()).then(|| {
            // SAFETY: as above.
            let destroyed = unsafe { lib.miopenDestroyConvolutionDescriptor(self.convolution) };
            ("miopenDestroyConvolutionDescriptor", destroyed)
        });
        for (call, status) in destroyed.chain(last) {
            if let Err(Failure { call, status, .. }) = check::<MiOpenLibrary>(lib, call, status) {
                tracing::warn!("{call} failed with {status}");
            }
        }
    }
}

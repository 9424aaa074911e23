//! Convolution in immediate mode, in f16, bf16 and f32.
use super::{ALL_SINGLE_AND_BELOW, MiOpen, datatype, pointer, suits};
use crate::ProviderId;
use crate::choice::Target;
use crate::error::failed;
use crate::hip::{DeviceMemory, Purpose};
use crate::provider::Provider;
use crate::providers::hip::bind::{Binding, Bound, Problem};
use crate::vendor::{Convolution, MiOpenLibrary};
use crate::{HipSpace, Result, Rocm};
use miopen_sys as sys;
use ops_core::ops::Conv;
use ops_core::{Call, DType, Determinism, Float, Op, Operand, Operands, Reason};
use ops_kernels::{ElementType, binary};
use std::ptr::null_mut;

/// The operands without the bias, which this project's kernel adds.
struct Tensors<'o>(&'o dyn Operands);

impl Operands for Tensors<'_> {
    fn count(&self) -> usize {
        self.0.count()
    }
    fn operand(&self, index: usize) -> Option<Operand<'_>> {
        self.0.operand(index).filter(|operand| operand.name != "bias")
    }
}

/// A call in MIOpen's terms.
///
/// # Errors
/// Why MIOpen cannot compute it.
fn described<T: Float>(op: &Conv<T>, problem: &Problem<'_>) -> std::result::Result<Convolution, Reason> {
    let [x, weight, y] = [0, 1, 3].map(|place| problem.at(place));
    let laid = op.geometry(&x.layout, &weight.layout, &y.layout);
    let (geometry, layouts) = laid.map_err(|error| Reason::Because(error.to_string()))?;
    if geometry.axes.iter().any(|axis| axis.output_padding != 0) {
        return Err(Reason::Because("MIOpen's immediate mode has no output padding".to_owned()));
    }
    if let Some(empty) = layouts.iter().position(|layout| layout.is_empty()) {
        let name = ["x", "weight", "y"][empty];
        return Err(Reason::Because(format!("MIOpen does not support empty tensors, and {name} is empty")));
    }
    let max = i32::MAX as usize;
    let number = |got: usize| i32::try_from(got).map_err(|_| Reason::Limit { what: "an option", got, max });
    let pair = |values: [usize; 2]| Ok::<_, Reason>([number(values[0])?, number(values[1])?]);
    let dims = layouts.map(|layout| std::array::from_fn(|axis| layout.dims()[axis]));
    Ok(Convolution {
        mode: if geometry.transposed { sys::miopenTranspose } else { sys::miopenConvolution },
        dtype: datatype(x),
        x: dims[0],
        weight: dims[1],
        y: dims[2],
        padding: pair(geometry.axes.map(|axis| axis.padding))?,
        stride: pair(geometry.axes.map(|axis| axis.stride))?,
        dilation: pair(geometry.axes.map(|axis| axis.dilation))?,
        groups: number(geometry.groups)?,
    })
}

/// A bias is added to MIOpen's stored result. That is allowed in f32, where it is only one rounding more
/// among many.
fn bias_suits(on: &dyn Operands) -> std::result::Result<(), Reason> {
    match (on.get("x"), on.get("bias")) {
        (Some(x), Some(_)) if x.dtype != DType::F32 => {
            Err(Reason::Because(format!("MIOpen rounds to {} before the bias is added", x.dtype)))
        }
        (_, Some(bias)) if bias.dtype != DType::F32 => {
            Err(Reason::DType { operand: "bias", dtype: bias.dtype })
        }
        _ => Ok(()),
    }
}

impl<T: Float> Provider<Conv<T>> for MiOpen {
    fn id(&self) -> ProviderId {
        ProviderId::MIOPEN
    }

    fn determinism(&self, _: &Target, _: &Conv<T>, _: &dyn Operands) -> Determinism {
        Determinism::Run
    }

    fn applicable(&self, target: &Target, op: &Conv<T>, on: &dyn Operands) -> Result<(), Reason> {
        bias_suits(on)?;
        suits(target, op.name(), &Tensors(on), ALL_SINGLE_AND_BELOW)?;
        described(op, &Binding::new().assumed(on, target.launch_device())?).map(drop)
    }

    fn probe(&self, rocm: &Rocm, op: &Conv<T>, on: &dyn Operands) -> Result<Option<String>, Reason> {
        let mut binding = Binding::new();
        let problem = binding.assumed(on, rocm.target().launch_device())?;
        let convolution = described(op, &problem)?;
        match rocm.with_library::<MiOpenLibrary, _>(|lib, handle| handle.solution(lib, &convolution)) {
            Ok(Some(solution)) => Ok(Some(solution.to_string())),
            Ok(None) => Err(no_solution()),
            // The launch asks again, and reports a failure.
            Err(_) => Ok(None),
        }
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, Conv<T>, HipSpace>) -> Result<()> {
        const CALL: &str = "miopenConvolutionForwardImmediate";
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<Conv<T>>(args, rocm)?;
        let (x, weight, bias, y) = (problem.at(0), problem.at(1), problem.get(2), problem.at(3));
        let convolution = described(op, &problem).map_err(|why| failed(CALL, why))?;
        let found =
            rocm.with_library::<MiOpenLibrary, _>(|lib, handle| handle.solution(lib, &convolution))?;
        let needed = found.ok_or_else(|| failed(CALL, no_solution()))?.workspace;
        let memory = if needed > 0 { Some(DeviceMemory::new(rocm.stream(), needed)?) } else { None };
        let lent = memory.as_ref().map(|memory| memory.access(rocm.stream(), Purpose::Write)).transpose()?;
        let workspace = lent.as_ref().map_or(null_mut(), |lent| lent.address());
        rocm.with_library::<MiOpenLibrary, _>(|lib, handle| {
            let addresses = [x, weight, y].map(pointer);
            // SAFETY: the handle's device is current; the operands are packed and have the described extents;
            // they lie in memory that the handle's stream may access, as does a workspace of the size that
            // the solution needs.
            unsafe { handle.convolve(lib, &convolution, addresses, (workspace, needed)) }
        })?;
        match bias {
            // SAFETY: a call's views lie in their memory, which the stream may access.
            Some(bias) => unsafe { add_bias(rocm, bias, y) },
            None => Ok(()),
        }
    }
}

fn no_solution() -> Reason {
    Reason::Because("MIOpen has no solution for this convolution on this device".to_owned())
}

/// Enqueues `y += bias`, one element per channel.
///
/// # Safety
/// The stream may access both.
unsafe fn add_bias(rocm: &Rocm, bias: &Bound, y: &Bound) -> Result<()> {
    debug_assert_eq!((bias.dtype, y.dtype), (ElementType::F32, ElementType::F32));
    let mut steps = [0; ops_core::MAX_RANK];
    steps[1] = bias.view().strides.first().copied().unwrap_or(0);
    let bias = ops_kernels::OperandView { strides: &steps[..y.dims().len()], ..bias.view() };
    let step = binary::prepare("add", y.dims(), [y.view(), bias, y.view()], rocm.target().launch_device());
    // SAFETY: guaranteed by the caller; the kernel reads each element of y before it writes it.
    unsafe { rocm.kernels().run_one(rocm.stream(), "adding a bias", step) }
}

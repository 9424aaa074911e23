//! Layer norm, RMS norm (T5's layer norm) and group norm in f16, bf16 and f32.
use super::descriptor::Tensor;
use super::{ALL_SINGLE_AND_BELOW, MiOpen, datatype, pointer, suits};
use crate::ProviderId;
use crate::choice::Target;
use crate::hip::{DeviceMemory, Purpose};
use crate::provider::Provider;
use crate::providers::hip::bind::{Binding, Bound, Problem};
use crate::vendor::{MiOpenLibrary, check};
use crate::{HipSpace, Result, Rocm};
use miopen_sys as sys;
use ops_core::ops::{GroupNorm, LayerNorm, RmsNorm};
use ops_core::{Call, Determinism, Float, Op, Operands, Reason};
use std::ptr::null_mut;

/// MIOpen requires both weight and bias, or neither.
fn both_or_neither(on: &dyn Operands) -> Result<(), Reason> {
    match (on.get("weight"), on.get("bias")) {
        (Some(_), None) => Err(Reason::Because("MIOpen needs a bias with the weight".to_string())),
        (None, Some(_)) => Err(Reason::Because("MIOpen needs a weight with the bias".to_string())),
        _ => Ok(()),
    }
}

/// Memory for a statistic that MIOpen writes for each row. It has the operands' type, except that layer norm
/// of MIOpen 3.1 and group norm of 3.1 and 3.2 write f32, whatever the type in the descriptor.
fn statistics(rocm: &Rocm, rows: usize) -> Result<DeviceMemory> {
    Ok(DeviceMemory::new(rocm.stream(), rows.saturating_mul(size_of::<f32>()))?)
}

/// The extents of a row op: number of rows and their length.
fn as_rows(x: &Bound) -> [usize; 2] {
    let n = x.layout.last();
    [x.layout.len() / n.max(1), n]
}

impl<T: Float> Provider<RmsNorm<T>> for MiOpen {
    fn id(&self) -> ProviderId {
        ProviderId::MIOPEN
    }

    fn determinism(&self, _: &Target, _: &RmsNorm<T>, _: &dyn Operands) -> Determinism {
        Determinism::Run
    }

    fn applicable(&self, target: &Target, op: &RmsNorm<T>, on: &dyn Operands) -> Result<(), Reason> {
        suits(target, op.name(), on, ALL_SINGLE_AND_BELOW)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, RmsNorm<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<RmsNorm<T>>(args, rocm)?;
        let (x, weight, y) = (problem.at(0), problem.at(1), problem.at(2));
        if x.layout.is_empty() {
            return Ok(());
        }
        let [rows, n] = as_rows(x);
        let rstd = statistics(rocm, rows)?;
        let rstd = rstd.access(rocm.stream(), Purpose::Write)?;
        rocm.with_library::<MiOpenLibrary, _>(|lib, handle| {
            let tensor = Tensor::packed(lib, datatype(x), [rows, n])?;
            let (parameters, row) =
                (Tensor::packed(lib, datatype(x), [n])?, Tensor::packed(lib, datatype(x), [rows])?);
            // SAFETY: handle and descriptors are live; the operands are packed and have these extents, and
            // lie in memory that the handle's stream may access.
            let status = unsafe {
                lib.miopenT5LayerNormForward(
                    handle.raw,
                    sys::MIOPEN_WEIGHT_BIAS_T5,
                    tensor.raw,
                    pointer(x),
                    parameters.raw,
                    pointer(weight),
                    op.eps as f32,
                    tensor.raw,
                    pointer(y),
                    row.raw,
                    rstd.address(),
                )
            };
            check::<MiOpenLibrary>(lib, "miopenT5LayerNormForward", status)
        })
    }
}

impl<T: Float> Provider<LayerNorm<T>> for MiOpen {
    fn id(&self) -> ProviderId {
        ProviderId::MIOPEN
    }

    fn determinism(&self, _: &Target, _: &LayerNorm<T>, _: &dyn Operands) -> Determinism {
        Determinism::Run
    }

    fn applicable(&self, target: &Target, op: &LayerNorm<T>, on: &dyn Operands) -> Result<(), Reason> {
        both_or_neither(on)?;
        suits(target, op.name(), on, ALL_SINGLE_AND_BELOW)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, LayerNorm<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<LayerNorm<T>>(args, rocm)?;
        let (x, y) = (problem.at(0), problem.at(3));
        if x.layout.is_empty() {
            return Ok(());
        }
        let [rows, n] = as_rows(x);
        let (mean, rstd) = (statistics(rocm, rows)?, statistics(rocm, rows)?);
        let (mean, rstd) =
            (mean.access(rocm.stream(), Purpose::Write)?, rstd.access(rocm.stream(), Purpose::Write)?);
        let Scaling { mode, weight, bias } = scaling(&problem);
        rocm.with_library::<MiOpenLibrary, _>(|lib, handle| {
            let tensor = Tensor::packed(lib, datatype(x), [rows, n])?;
            let (parameters, row) =
                (Tensor::packed(lib, datatype(x), [n])?, Tensor::packed(lib, datatype(x), [rows])?);
            // SAFETY: as for the RMS norm.
            let status = unsafe {
                lib.miopenLayerNormForward(
                    handle.raw,
                    mode,
                    tensor.raw,
                    pointer(x),
                    parameters.raw,
                    weight,
                    parameters.raw,
                    bias,
                    op.eps as f32,
                    1,
                    tensor.raw,
                    pointer(y),
                    row.raw,
                    mean.address(),
                    row.raw,
                    rstd.address(),
                )
            };
            check::<MiOpenLibrary>(lib, "miopenLayerNormForward", status)
        })
    }
}

impl<T: Float> Provider<GroupNorm<T>> for MiOpen {
    fn id(&self) -> ProviderId {
        ProviderId::MIOPEN
    }

    fn determinism(&self, _: &Target, _: &GroupNorm<T>, _: &dyn Operands) -> Determinism {
        Determinism::Run
    }

    fn applicable(&self, target: &Target, op: &GroupNorm<T>, on: &dyn Operands) -> Result<(), Reason> {
        both_or_neither(on)?;
        suits(target, op.name(), on, ALL_SINGLE_AND_BELOW)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, GroupNorm<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<GroupNorm<T>>(args, rocm)?;
        let (x, y) = (problem.at(0), problem.at(3));
        let [batch, channels, ref image @ ..] = *x.layout.dims() else { return Ok(()) };
        if x.layout.is_empty() {
            return Ok(());
        }
        let groups = op.num_groups;
        let rows = batch.saturating_mul(groups);
        let (mean, rstd) = (statistics(rocm, rows)?, statistics(rocm, rows)?);
        let (mean, rstd) =
            (mean.access(rocm.stream(), Purpose::Write)?, rstd.access(rocm.stream(), Purpose::Write)?);
        let Scaling { mode, weight, bias } = scaling(&problem);
        rocm.with_library::<MiOpenLibrary, _>(|lib, handle| {
            let tensor = Tensor::packed(lib, datatype(x), [batch, channels, image.iter().product(), 1])?;
            let parameters = Tensor::packed(lib, datatype(x), [channels])?;
            let group = Tensor::packed(lib, datatype(x), [batch, groups])?;
            // SAFETY: as for the RMS norm.
            let status = unsafe {
                lib.miopenGroupNormForward(
                    handle.raw,
                    mode,
                    tensor.raw,
                    pointer(x),
                    parameters.raw,
                    weight,
                    parameters.raw,
                    bias,
                    groups as u64,
                    op.eps as f32,
                    tensor.raw,
                    pointer(y),
                    group.raw,
                    mean.address(),
                    group.raw,
                    rstd.address(),
                )
            };
            check::<MiOpenLibrary>(lib, "miopenGroupNormForward", status)
        })
    }
}

/// Weight and bias in MIOpen's form: both, or neither.
struct Scaling {
    mode: sys::miopenNormMode_t,
    weight: *mut std::ffi::c_void,
    bias: *mut std::ffi::c_void,
}

fn scaling(problem: &Problem<'_>) -> Scaling {
    match (problem.get(1), problem.get(2)) {
        (Some(weight), Some(bias)) => {
            Scaling { mode: sys::MIOPEN_WEIGHT_BIAS, weight: pointer(weight), bias: pointer(bias) }
        }
        _ => Scaling { mode: sys::MIOPEN_ELEMENTWISE_AFFINE, weight: null_mut(), bias: null_mut() },
    }
}

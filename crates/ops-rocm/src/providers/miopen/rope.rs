//! Rope in the paper's form, in f16, bf16 and f32.
//!
//! MIOpen's tables have a value for every element, not for every pair, and one row for every token; they are
//! made from the op's tables on each call.
use super::descriptor::Tensor;
use super::{ALL_SINGLE_AND_BELOW, MiOpen, datatype, pointer, suits};
use crate::ProviderId;
use crate::choice::Target;
use crate::hip::{DeviceMemory, Purpose};
use crate::provider::Provider;
use crate::providers::hip::bind::{Binding, Bound};
use crate::vendor::{MiOpenLibrary, check};
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::{Rope, RopeForm};
use ops_core::{Call, Determinism, Float, Layout, Op, Operands, Reason};
use ops_kernels::copy;

impl<T: Float> Provider<Rope<T>> for MiOpen {
    fn id(&self) -> ProviderId {
        ProviderId::MIOPEN
    }

    fn determinism(&self, _: &Target, _: &Rope<T>, _: &dyn Operands) -> Determinism {
        Determinism::Run
    }

    fn applicable(&self, target: &Target, op: &Rope<T>, on: &dyn Operands) -> Result<(), Reason> {
        if op.form != RopeForm::Interleaved {
            return Err(Reason::Because("MIOpen only rotates neighbouring features".to_string()));
        }
        if on.get("positions").is_some() {
            return Err(Reason::Because("MIOpen does not support positions".to_string()));
        }
        let width = |name| on.get(name).map_or(0, |operand| operand.layout.last());
        if width("cos") != width("x") / 2 {
            return Err(Reason::Because("MIOpen only rotates whole heads".to_string()));
        }
        let batch = on.get("x").and_then(|x| x.layout.dims().first().copied()).unwrap_or(1);
        if batch > 1 && on.get("cos").is_some_and(|cos| cos.layout.rank() == 3) {
            return Err(Reason::Because("MIOpen supports only one table for the whole batch".to_string()));
        }
        suits(target, op.name(), on, ALL_SINGLE_AND_BELOW)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, Rope<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<Rope<T>>(args, rocm)?;
        let (x, y) = (problem.at(0), problem.at(4));
        let &[batch, heads, t, d] = x.layout.dims() else { return Ok(()) };
        if x.layout.is_empty() {
            return Ok(());
        }
        let table = || DeviceMemory::new(rocm.stream(), t.saturating_mul(d).saturating_mul(x.dtype.bytes()));
        let (cos, sin) = (table()?, table()?);
        let (cos, sin) =
            (cos.access(rocm.stream(), Purpose::Write)?, sin.access(rocm.stream(), Purpose::Write)?);
        for (table, to) in [(problem.at(1), &cos), (problem.at(2), &sin)] {
            // SAFETY: the op's rule guarantees that the table has these rows, and the memory has one element
            // for each of `t · d`.
            unsafe { spread(rocm, table, op.start, t, to.address() as u64) }?;
        }
        rocm.with_library::<MiOpenLibrary, _>(|lib, handle| {
            let tensor = Tensor::packed(lib, datatype(x), [batch, heads, t, d])?;
            let table = Tensor::packed(lib, datatype(x), [t, d])?;
            // SAFETY: handle and descriptors are live; the operands are packed and have these extents, and
            // lie in memory that the handle's stream may access.
            let status = unsafe {
                lib.miopenRoPEForward(
                    handle.raw,
                    tensor.raw,
                    pointer(x),
                    table.raw,
                    cos.address(),
                    table.raw,
                    sin.address(),
                    tensor.raw,
                    pointer(y),
                )
            };
            check::<MiOpenLibrary>(lib, "miopenRoPEForward", status)
        })
    }
}

/// Copies rows of a table, each value twice.
///
/// # Safety
/// The table has `t` rows from `start` on; it lies in memory that the stream may access, as does memory for
/// twice as many values.
unsafe fn spread(rocm: &Rocm, table: &Bound, start: usize, t: usize, to: u64) -> Result<()> {
    let rows = table.layout.narrow(-2, start, t)?;
    let rows =
        if rows.rank() == 3 { rows.squeeze(0).or_else(|_| rows.narrow(0, 0, 1)?.squeeze(0))? } else { rows };
    let dims = [rows.dims()[0], rows.dims()[1], 2];
    let twice = rows.unsqueeze(-1)?.broadcast(&dims)?;
    let target = Bound::new(to, table.dtype, &Layout::contiguous(&dims)?);
    let step =
        copy::copy(target.dims(), table.relaid(&twice).view(), target.view(), rocm.target().launch_device());
    // SAFETY: guaranteed by the caller.
    unsafe { rocm.kernels().run_one(rocm.stream(), "miopenRoPEForward", step) }
}

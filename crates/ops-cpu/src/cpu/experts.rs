//! Products of rows with their experts' weight matrices: the rows of each expert form one product.
use super::Cpu;
use super::matmul::linear;
use super::quant::inputs::{Inputs, Quantized};
use super::quant::multiply;
use super::rows::{Rows, gathered, scratch};
use super::vectors::report;
use crate::host::raw::{Raw, RawMut, resolve};
use crate::{Host, Kernel};
use ops_core::ops::{LinearExperts, LinearExpertsCombine, LinearExpertsSwiglu};
use ops_core::{Call, DType, Determinism, Float, Layout, Op, Operands, Parts, Result};

/// The rows of `y`, in row-major order, that each expert computes; the last list has the rows without an
/// expert.
fn by_expert(picked: &[Option<usize>], experts: usize) -> Vec<Vec<usize>> {
    let mut rows = vec![Vec::new(); experts + 1];
    for (at, expert) in picked.iter().enumerate() {
        rows[expert.unwrap_or(experts)].push(at);
    }
    rows
}

/// `y[i, j] = weight[ids[i, j]] · x[i, min(j, m − 1)] + bias[ids[i, j]]`
fn linear_experts(
    name: &'static str,
    x: Raw<'_>,
    weight: Raw<'_>,
    ids: Raw<'_>,
    bias: Option<Raw<'_>>,
    y: RawMut<'_>,
) -> Result<()> {
    let (experts, [m, k], o) = (weight.dims()[0], [x.dims()[1], ids.dims()[1]], y.layout.last());
    let picked = resolve(name, ids, experts)?;
    if y.layout.is_empty() {
        return Ok(());
    }
    let size = y.size;
    let rows = by_expert(&picked, experts);
    let y_dtype = y.dtype;
    let to = report(name, Rows::new(y))?;
    // A token's row is quantized once for all of its experts.
    let quantized = Quantized::default();
    // Row `at` of y comes from this row of x.
    let source = |at: usize| at / k * m + (at % k).min(m - 1);
    for (expert, own) in rows.iter().enumerate().filter(|(_, own)| !own.is_empty()) {
        let mut results = scratch::<u8>(own.len() * o * size)?;
        if expert == experts {
            results.as_mut_slice().fill(0);
        } else {
            let picked: Vec<usize> = own.iter().map(|at| source(*at)).collect();
            let one =
                |operand: &Raw<'_>| -> Result<Layout> { operand.layout.narrow(0, expert, 1)?.squeeze(0) };
            let own_weight = weight.with_layout(one(&weight)?);
            let own_bias = bias.map(|bias| one(&bias).map(|layout| bias.with_layout(layout))).transpose()?;
            let y = RawMut {
                bytes: results.as_mut_slice(),
                size,
                dtype: y_dtype,
                layout: Layout::contiguous(&[own.len(), o])?,
            };
            if weight.dtype.is_block() && x.dtype != DType::F64 {
                multiply(Inputs::picked(x, &picked, &quantized), own_weight, own_bias, y)?;
            } else {
                let gathered = gathered(&x, &picked)?;
                let layout = Layout::contiguous(&[own.len(), x.layout.last()])?;
                linear(Raw { bytes: &gathered, layout, ..x }, own_weight, own_bias, y)?;
            }
        }
        for (at, result) in own.iter().zip(results.chunks_exact(o * size)) {
            let copy = &mut |row: &mut [u8]| {
                row.copy_from_slice(result);
                Ok(())
            };
            report(name, to.write(*at, &mut Default::default(), copy))?;
        }
    }
    Ok(())
}

impl<T: Float> Kernel<LinearExperts<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, LinearExperts<T>, Host>) -> Result<()> {
        let name = call.op().name();
        let (_, a) = call.into_parts();
        let (x, weight, ids) = (Raw::of(&a.x), Raw::any(&a.weight), Raw::any(&a.ids));
        linear_experts(name, x, weight, ids, Raw::any_if(&a.bias), RawMut::of(&mut a.y))
    }
    fn determinism(&self, _: &LinearExperts<T>, _: &dyn Operands) -> Determinism {
        self.sums_level()
    }
}

// The fused products run as parts, for the same reason as those of `linear`.

impl<T: Float> Kernel<LinearExpertsSwiglu<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, LinearExpertsSwiglu<T>, Host>) -> Result<()> {
        let (op, args) = call.into_parts();
        op.run_parts(self, args)
    }
    fn fuses(&self, _: &LinearExpertsSwiglu<T>) -> bool {
        false
    }
    fn determinism(&self, _: &LinearExpertsSwiglu<T>, _: &dyn Operands) -> Determinism {
        self.sums_level()
    }
}

impl<T: Float> Kernel<LinearExpertsCombine<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, LinearExpertsCombine<T>, Host>) -> Result<()> {
        let (op, args) = call.into_parts();
        op.run_parts(self, args)
    }
    fn fuses(&self, _: &LinearExpertsCombine<T>) -> bool {
        false
    }
    fn determinism(&self, _: &LinearExpertsCombine<T>, _: &dyn Operands) -> Determinism {
        self.sums_level()
    }
}

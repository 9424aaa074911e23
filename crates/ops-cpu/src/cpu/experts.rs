//! Products of rows with the matrices of their experts: the rows of each expert in one product.
use super::Cpu;
use super::matmul::linear;
use super::rows::{Rows, row, scratch};
use super::vectors::report;
use crate::host::raw::{Raw, RawMut, resolve};
use crate::{Host, HostBuffer, Kernel};
use ops_core::ops::LinearExperts;
use ops_core::{Call, Float, Layout, Result};

/// The rows of `y`, counted in row-major order, that each expert computes; last those of no expert.
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
    // Row `at` of y comes from this row of x.
    let source = |at: usize| at / k * m + (at % k).min(m - 1);
    for (expert, own) in rows.iter().enumerate().filter(|(_, own)| !own.is_empty()) {
        let mut results = scratch::<u8>(own.len() * o * size)?;
        if expert == experts {
            results.as_mut_slice().fill(0);
        } else {
            let gathered = gathered(&x, own.iter().map(|at| source(*at)))?;
            let one =
                |operand: &Raw<'_>| -> Result<Layout> { operand.layout.narrow(0, expert, 1)?.squeeze(0) };
            let own_weight = weight.with_layout(one(&weight)?);
            let own_bias = bias.map(|bias| Ok(bias.with_layout(one(&bias)?))).transpose()?;
            let y = RawMut {
                bytes: results.as_mut_slice(),
                size,
                dtype: y_dtype,
                layout: Layout::contiguous(&[own.len(), o])?,
            };
            let x = Raw { bytes: &gathered, layout: Layout::contiguous(&[own.len(), x.layout.last()])?, ..x };
            linear(x, own_weight, own_bias, y)?;
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

/// These rows of `x`, one after another.
fn gathered(x: &Raw<'_>, rows: impl ExactSizeIterator<Item = usize>) -> Result<HostBuffer<u8>> {
    let bytes = x.layout.last() * x.size;
    let mut memory = scratch::<u8>(rows.len() * bytes)?;
    let mut one = Default::default();
    if bytes > 0 {
        for (to, from) in memory.as_mut_slice().chunks_exact_mut(bytes).zip(rows) {
            to.copy_from_slice(row(x, from, &mut one));
        }
    }
    Ok(memory)
}

impl<T: Float> Kernel<LinearExperts<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, LinearExperts<T>, Host>) -> Result<()> {
        let name = call.name();
        let (_, a) = call.into_parts();
        let (x, weight, ids) = (Raw::of(&a.x), Raw::any(&a.weight), Raw::any(&a.ids));
        linear_experts(name, x, weight, ids, Raw::any_if(&a.bias), RawMut::of(&mut a.y))
    }
}

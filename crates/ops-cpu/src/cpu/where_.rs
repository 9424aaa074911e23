//! Choices between two tensors, element by element.
use super::Cpu;
use super::runs::map_runs;
use super::vectors::TaskResult;
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::Where;
use ops_core::{Call, Result};
use ops_simd::Isa;

fn choose(cond: Raw<'_>, on_true: Raw<'_>, on_false: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let (isa, size, width) = (Isa::best(), y.size, cond.size);
    map_runs("where", [cond, on_true, on_false], y, 1, 1, &|[cond, on_true, on_false], y| {
        if width == 1 && matches!(size, 1 | 2 | 4 | 8) {
            return choose_vector(isa, size, cond, on_true, on_false, y);
        }
        let choices = on_true.chunks_exact(size).zip(on_false.chunks_exact(size));
        for ((y, c), (t, f)) in y.chunks_exact_mut(size).zip(cond.chunks_exact(width)).zip(choices) {
            y.copy_from_slice(if c.iter().any(|b| *b != 0) { t } else { f });
        }
        Ok(())
    })
}

/// [`choose`] for one-byte conditions and elements of 1, 2, 4 or 8 bytes.
fn choose_vector(
    isa: Isa,
    size: usize,
    cond: &[u8],
    on_true: &[u8],
    on_false: &[u8],
    y: &mut [u8],
) -> TaskResult {
    macro_rules! as_type {
        ($T:ty) => {
            ops_simd::choose::<$T>(isa, cond, cast_slice(on_true), cast_slice(on_false), cast_slice_mut(y))
        };
    }
    Ok(match size {
        1 => as_type!(u8),
        2 => as_type!(u16),
        4 => as_type!(u32),
        8 => as_type!(u64),
        _ => return Err("`where` has no vector kernel for this element size".into()),
    }?)
}

impl Kernel<Where> for Cpu {
    fn compute(&self, call: Call<'_, '_, Where, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        choose(Raw::any(&a.cond), Raw::any(&a.on_true), Raw::any(&a.on_false), RawMut::any(&mut a.y))
    }
}

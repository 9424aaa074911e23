//! Writing rows to key and value caches.
//!
//! Threads norm and rotate keys, in f32. The caller's thread writes to the caches: it only moves the keys and
//! values of a step, and slots may repeat.
use super::Cpu;
use super::angles::Picked;
use super::qk_norm_rope::Heads;
use super::rows::{copy_element, for_each_row, row, scratch, widened};
use super::vectors::{on_vector, report};
use crate::host::raw::{Raw, RawMut, on_scalar, resolve_operand};
use crate::{Host, Kernel, Reference};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{
    CacheWrite, QkNormRopeCacheWrite, RmsNormLinearRopeCacheWrite, RopeCacheWrite, RopeOrder,
    RopeQkCacheWrite,
};
use ops_core::{Call, DType, Determinism, Float, Layout, Op, Operands, Packing, Parts, Result, Scalar};
use ops_simd::rows::Pairs;
use ops_simd::{Isa, Store};

/// Writes row `i` of `x` to row `slots[i]` of the cache, converted to its type.
fn write(op: &'static str, slots: &[Option<usize>], x: Raw<'_>, mut cache: RawMut<'_>) -> Result<()> {
    // Lines along the last axis; a row without further axes is a single element.
    let lines = |layout: &Layout, i: usize| {
        let row = layout.narrow(0, i, 1)?;
        match row.rank() {
            1 => row.reshape(&[1, 1]),
            _ => Ok(row),
        }
    };
    for (i, slot) in slots.iter().enumerate() {
        let Some(slot) = *slot else { continue };
        let (from, to) = (lines(&x.layout, i)?, lines(&cache.layout, slot)?);
        let n = from.last();
        if from.is_empty() {
            continue;
        }
        for (first, to_first) in starts(&from)?.zip(starts(&to)?) {
            let steps = (from.last_stride(), to.last_stride());
            line(op, (&x, first, steps.0), (&mut cache, to_first, steps.1), n)?;
        }
    }
    Ok(())
}

/// The positions of the first elements of all lines along the last axis.
fn starts(layout: &Layout) -> Result<impl Iterator<Item = usize> + use<>> {
    Ok(layout.narrow(-1, 0, 1)?.positions())
}

/// Writes `n` elements, from one position and step to another.
fn line(
    op: &'static str,
    (x, from, step): (&Raw<'_>, usize, isize),
    (y, to, y_step): (&mut RawMut<'_>, usize, isize),
    n: usize,
) -> Result<()> {
    let at = |first: usize, step: isize, j: usize| first.wrapping_add_signed(step * j as isize);
    let packed = n == 1 || step == 1 && y_step == 1;
    if packed && x.dtype == y.dtype {
        y.bytes[to * y.size..][..n * y.size].copy_from_slice(&x.bytes[from * x.size..][..n * x.size]);
        return Ok(());
    }
    if packed && x.dtype == DType::F32 {
        let wide = &x.slice::<f32>()[from..from + n];
        let done = on_vector!(y.dtype, C => {
            Some(ops_simd::cast(Isa::best(), wide, &mut y.slice::<C>()[to..to + n], Store::Cached))
        }, else None);
        if let Some(done) = done {
            return report(op, done);
        }
    }
    if x.dtype == y.dtype {
        (0..n).for_each(|j| copy_element(y.element(at(to, y_step, j)), x.element(at(from, step, j))));
        return Ok(());
    }
    on_scalar!(y.dtype, C => {
        for j in 0..n {
            let value = C::from_wide(x.wide(at(from, step, j)));
            y.element(at(to, y_step, j)).copy_from_slice(bytemuck::bytes_of(&value));
        }
    }, else unreachable!("caches hold numbers"));
    Ok(())
}

/// The operands of the two ops that rotate keys.
struct Rows<'a> {
    k: Raw<'a>,
    v: Raw<'a>,
    /// The norm's weight and eps.
    norm: Option<(Raw<'a>, f64)>,
    tables: [Raw<'a>; 2],
    positions: Raw<'a>,
    slots: Raw<'a>,
    order: RopeOrder,
}

impl Rows<'_> {
    fn write(&self, op: &'static str, [keys, values]: [RawMut<'_>; 2]) -> Result<()> {
        let &[n, h, d] = self.k.dims() else {
            return Err(ops_core::Error::shape(op, "k", &self.k.layout, "[n, h, d]"));
        };
        let lp = self.positions.layout;
        let positions =
            self.positions.with_layout(Layout::strided(&[1, n], &[0, lp.last_stride()], lp.offset())?);
        let picked = Picked::new(op, self.tables, positions, [1, n])?;
        let slots = resolve_operand(op, "slots", self.slots, keys.layout.dims()[0])?;
        let [cos, sin] = picked.tables();
        if !self.k.layout.is_empty() {
            let (weight, eps) = match &self.norm {
                Some((weight, eps)) => (Some(widened(weight)?), *eps as f32),
                None => (None, 0.0),
            };
            let heads = Heads {
                dtype: self.k.dtype,
                d,
                eps,
                pairs: if self.order == RopeOrder::Interleaved { Pairs::Adjacent } else { Pairs::Halves },
                weight,
                half: cos.layout.last(),
                cos: widened(&cos)?,
                sin: widened(&sin)?,
            };
            self.write_keys(op, &heads, &slots, (n, h), keys)?;
        }
        write(op, &slots, self.v, values)
    }

    /// Computes the keys in f32, then writes them.
    fn write_keys(
        &self,
        op: &'static str,
        heads: &Heads<'_>,
        slots: &[Option<usize>],
        (n, h): (usize, usize),
        keys: RawMut<'_>,
    ) -> Result<()> {
        let mut wide = scratch::<f32>(n * h * heads.d)?;
        let layout = Layout::contiguous(&[n, h, heads.d])?;
        let bytes = cast_slice_mut::<f32, u8>(wide.as_mut_slice());
        let y = RawMut { bytes, size: size_of::<f32>(), dtype: DType::F32, layout };
        for_each_row(op, y, 4 * heads.d, &|[own, unrotated, _], i, y| {
            if slots[i / h].is_none() {
                return Ok(());
            }
            heads.in_f32(row(&self.k, i, own), i / h, unrotated, cast_slice_mut(y))
        })?;
        let bytes = cast_slice::<f32, u8>(wide.as_slice());
        let rotated = Raw { bytes, size: size_of::<f32>(), dtype: DType::F32, layout };
        write(op, slots, rotated, keys)
    }
}

impl<T: Float> Kernel<CacheWrite<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, CacheWrite<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let cache = RawMut::any(&mut a.cache);
        let slots = resolve_operand(op.name(), "slots", Raw::any(&a.slots), cache.layout.dims()[0])?;
        write(op.name(), &slots, Raw::of(&a.x), cache)
    }
}
impl<T: Float> Kernel<RopeCacheWrite<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, RopeCacheWrite<T>, Host>) -> Result<()> {
        if T::DTYPE == DType::F64 {
            return Reference::new().compute(call);
        }
        let (op, a) = call.into_parts();
        let (k, v, positions) = (Raw::of(&a.k), Raw::of(&a.v), Raw::any(&a.positions));
        let tables = [Raw::any(&a.cos), Raw::any(&a.sin)];
        let rows = Rows { k, v, norm: None, tables, positions, slots: Raw::any(&a.slots), order: op.order };
        rows.write(op.name(), [RawMut::any(&mut a.k_cache), RawMut::any(&mut a.v_cache)])
    }
}
impl<T: Float> Kernel<QkNormRopeCacheWrite<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, QkNormRopeCacheWrite<T>, Host>) -> Result<()> {
        if T::DTYPE == DType::F64 {
            return Reference::new().compute(call);
        }
        let (op, a) = call.into_parts();
        let (k, v, positions) = (Raw::of(&a.k), Raw::of(&a.v), Raw::any(&a.positions));
        let tables = [Raw::any(&a.cos), Raw::any(&a.sin)];
        let (norm, slots) = (Some((Raw::any(&a.weight), op.eps)), Raw::any(&a.slots));
        let rows = Rows { k, v, norm, tables, positions, slots, order: op.order };
        rows.write(op.name(), [RawMut::any(&mut a.k_cache), RawMut::any(&mut a.v_cache)])
    }
}
impl<T: Float> Kernel<RopeQkCacheWrite<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, RopeQkCacheWrite<T>, Host>) -> Result<()> {
        let (op, args) = call.into_parts();
        op.run_parts(self, args)
    }
    fn fuses(&self, _: &RopeQkCacheWrite<T>) -> bool {
        false
    }
}
impl<T: Float> Kernel<RmsNormLinearRopeCacheWrite<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, RmsNormLinearRopeCacheWrite<T>, Host>) -> Result<()> {
        let (op, args) = call.into_parts();
        op.run_parts(self, args)
    }
    fn fuses(&self, _: &RmsNormLinearRopeCacheWrite<T>) -> bool {
        false
    }
    fn determinism(&self, _: &RmsNormLinearRopeCacheWrite<T>, _: &dyn Operands) -> Determinism {
        self.sums_level()
    }
    fn reads(
        &self,
        op: &RmsNormLinearRopeCacheWrite<T>,
        operand: &'static str,
        packing: &'static Packing,
    ) -> bool {
        op.parts_read(self, operand, packing)
    }
}

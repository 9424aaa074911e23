//! Writing rows to key and value caches.
use super::rope::Angles;
use super::{Reference, line, norm};
use crate::host::raw::{Raw, RawMut, resolve_operand};
use crate::{Host, Kernel};
use ops_core::ops::{
    CacheWrite, QkNormRopeCacheWrite, RmsNormLinearRopeCacheWrite, RopeCacheWrite, RopeOrder,
    RopeQkCacheWrite,
};
use ops_core::{Call, Float, Layout, Op, Parts, Result};

/// Writes row `i` of `x` to row `slots[i]` of the cache.
fn write(slots: &[Option<usize>], x: Raw<'_>, mut cache: RawMut<'_>) -> Result<()> {
    for (i, slot) in slots.iter().enumerate() {
        let Some(slot) = *slot else { continue };
        let (from, to) = (x.layout.narrow(0, i, 1)?, cache.layout.narrow(0, slot, 1)?);
        for (from, to) in from.positions().zip(to.positions()) {
            cache.set_wide(to, x.wide(from));
        }
    }
    Ok(())
}

/// The operands of the two ops that rotate keys.
struct Rows<'a> {
    k: Raw<'a>,
    v: Raw<'a>,
    tables: [Raw<'a>; 2],
    positions: Raw<'a>,
    slots: Raw<'a>,
}

impl Rows<'_> {
    /// Writes the keys, each head transformed by `before` and then rotated, and the values. Positions and
    /// slots are checked first.
    fn write(
        &self,
        op: &'static str,
        order: RopeOrder,
        before: impl Fn(Vec<f64>) -> Vec<f64>,
        [mut keys, values]: [RawMut<'_>; 2],
    ) -> Result<()> {
        let (&[n, h, _], lk) = (self.k.dims(), self.k.layout) else {
            unreachable!("the rule requires three axes")
        };
        let of_one = Layout::strided(
            &[1, n],
            &[0, self.positions.layout.last_stride()],
            self.positions.layout.offset(),
        )?;
        let positions = Some(self.positions.with_layout(of_one));
        let adjacent = order == RopeOrder::Interleaved;
        let angles = Angles::new(op, self.tables, (positions, 0), [1, n], adjacent)?;
        let slots = resolve_operand(op, "slots", self.slots, keys.layout.dims()[0])?;
        let of_keys = keys.layout;
        for (i, head) in (0..n).flat_map(|i| (0..h).map(move |head| (i, head))) {
            let Some(slot) = slots[i] else { continue };
            let key = self.k.gather(line(&lk, 2, lk.position(&[i, head, 0])));
            let to = line(&of_keys, 2, of_keys.position(&[slot, head, 0]));
            keys.scatter(to, angles.rotated(before(key), 0, i));
        }
        write(&slots, self.v, values)
    }
}

impl<T: Float> Kernel<CacheWrite<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, CacheWrite<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let cache = RawMut::any(&mut a.cache);
        let slots = resolve_operand(op.name(), "slots", Raw::any(&a.slots), cache.layout.dims()[0])?;
        write(&slots, Raw::of(&a.x), cache)
    }
}
impl<T: Float> Kernel<RopeCacheWrite<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, RopeCacheWrite<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (k, v, positions) = (Raw::of(&a.k), Raw::of(&a.v), Raw::any(&a.positions));
        let tables = [Raw::any(&a.cos), Raw::any(&a.sin)];
        let rows = Rows { k, v, tables, positions, slots: Raw::any(&a.slots) };
        let caches = [RawMut::any(&mut a.k_cache), RawMut::any(&mut a.v_cache)];
        rows.write(op.name(), op.order, |head| head, caches)
    }
}
impl<T: Float> Kernel<QkNormRopeCacheWrite<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, QkNormRopeCacheWrite<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (k, v, positions) = (Raw::of(&a.k), Raw::of(&a.v), Raw::any(&a.positions));
        let tables = [Raw::any(&a.cos), Raw::any(&a.sin)];
        let weight = Raw::any(&a.weight).values();
        let rows = Rows { k, v, tables, positions, slots: Raw::any(&a.slots) };
        let caches = [RawMut::any(&mut a.k_cache), RawMut::any(&mut a.v_cache)];
        rows.write(op.name(), op.order, |head| norm::rms_norm_row(&head, &weight, op.eps), caches)
    }
}
impl<T: Float> Kernel<RopeQkCacheWrite<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, RopeQkCacheWrite<T>, Host>) -> Result<()> {
        let (op, args) = call.into_parts();
        op.run_parts(self, args)
    }
    fn fuses(&self, _: &RopeQkCacheWrite<T>) -> bool {
        false
    }
}
impl<T: Float> Kernel<RmsNormLinearRopeCacheWrite<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, RmsNormLinearRopeCacheWrite<T>, Host>) -> Result<()> {
        let (op, args) = call.into_parts();
        op.run_parts(self, args)
    }
    fn fuses(&self, _: &RmsNormLinearRopeCacheWrite<T>) -> bool {
        false
    }
}

//! What the step between projections and attention consists of, for backends without a kernel for it.
use super::{QkNormRopeCacheWrite, RopeCacheWrite, RopeQkCacheWrite, args};
use crate::ops::{QkNormRope, Rope, RopeForm, RopeOrder};
use crate::parts::Planned;
use crate::{Execute, Float, Layout, Op, Operand, Operands, Parts, Reason, Result};

fn form(order: RopeOrder) -> RopeForm {
    match order {
        RopeOrder::Half => RopeForm::Half,
        RopeOrder::Interleaved => RopeForm::Interleaved,
    }
}

/// Rows of heads `[n, h, d]` as a text of n tokens, `[1, n, h, d]`.
fn as_text(of: &Operand<'_>) -> Result<Layout, Reason> {
    of.layout.unsqueeze(0).map_err(|error| Reason::Because(error.to_string()))
}

impl<T: Float, B> Parts<B> for RopeQkCacheWrite<T>
where
    B: Execute<Rope<T>>
        + Execute<QkNormRope<T>>
        + Execute<RopeCacheWrite<T>>
        + Execute<QkNormRopeCacheWrite<T>>,
{
    fn parts_support(&self, backend: &B, on: &dyn Operands) -> Result<(), Reason> {
        let given = |name: &str| on.get(name).ok_or(Reason::Missing);
        let [q, y, positions] = [given("q")?, given("y")?, given("positions")?];
        let [of_q, of_y, of_positions] = [as_text(&q)?, as_text(&y)?, as_text(&positions)?];
        let by_head =
            |layout: Layout| layout.transpose(1, 2).map_err(|error| Reason::Because(error.to_string()));
        let (cos, sin) = (Some(given("cos")?), Some(given("sin")?));
        let positions = Some(Operand { layout: &of_positions, ..positions });
        match on.get("q_norm") {
            Some(weight) => {
                let (x, y) = (Operand { name: "x", layout: &of_q, ..q }, Operand { layout: &of_y, ..y });
                let read = [Some(x), Some(Operand { name: "weight", ..weight }), cos, sin, positions];
                let op = QkNormRope::<T>::eps(self.eps).order(self.order);
                backend.support(&op, &Planned { read: &read, written: &[y] })?;
            }
            None => {
                let (of_q, of_y) = (by_head(of_q)?, by_head(of_y)?);
                let (x, y) = (Operand { name: "x", layout: &of_q, ..q }, Operand { layout: &of_y, ..y });
                let read = [Some(x), cos, sin, positions];
                let op = Rope::<T>::new(form(self.order));
                backend.support(&op, &Planned { read: &read, written: &[y] })?;
            }
        }
        let written = [given("k_cache")?, given("v_cache")?];
        let (k, v) = (Some(given("k")?), Some(given("v")?));
        let (positions, slots) = (on.get("positions"), Some(given("slots")?));
        match on.get("k_norm") {
            Some(weight) => {
                let weight = Some(Operand { name: "weight", ..weight });
                let read = [k, v, weight, cos, sin, positions, slots];
                let op = QkNormRopeCacheWrite::<T>::eps(self.eps).order(self.order);
                backend.support(&op, &Planned { read: &read, written: &written })
            }
            None => {
                let read = [k, v, cos, sin, positions, slots];
                let op = RopeCacheWrite::<T>::order(self.order);
                backend.support(&op, &Planned { read: &read, written: &written })
            }
        }
    }

    fn run_parts(
        &self,
        backend: &B,
        args: &mut args::rope_qk_cache_write::Args<'_, B::Space, T>,
    ) -> Result<()> {
        use crate::ops::args::{qk_norm_rope, qk_norm_rope_cache_write, rope, rope_cache_write};
        let (k, v, cos, sin) = (args.k.shorten(), args.v.shorten(), args.cos.shorten(), args.sin.shorten());
        let (positions, slots) = (args.positions.shorten(), args.slots.shorten());
        let (x, y) = (args.q.shorten().unsqueeze(0)?, args.y.reborrow().unsqueeze(0)?);
        let of_text = Some(positions.unsqueeze(0)?);
        let rotated = match args.q_norm.as_ref().map(|norm| norm.shorten()) {
            Some(weight) => {
                let op = QkNormRope::eps(self.eps).order(self.order);
                backend.run(&op, qk_norm_rope::Args { x, weight, cos, sin, positions: of_text, y })
            }
            None => {
                let (x, y) = (x.transpose(1, 2)?, y.transpose(1, 2)?);
                backend.run(&Rope::new(form(self.order)), rope::Args { x, cos, sin, positions: of_text, y })
            }
        };
        rotated.map_err(|error| error.of_call(self.name()))?;
        let (k_cache, v_cache) = (args.k_cache.reborrow(), args.v_cache.reborrow());
        let written = match args.k_norm.as_ref().map(|norm| norm.shorten()) {
            Some(weight) => {
                let op = QkNormRopeCacheWrite::<T>::eps(self.eps).order(self.order);
                let args = qk_norm_rope_cache_write::Args {
                    k,
                    v,
                    weight,
                    cos,
                    sin,
                    positions,
                    slots,
                    k_cache,
                    v_cache,
                };
                backend.run(&op, args)
            }
            None => {
                let args = rope_cache_write::Args { k, v, cos, sin, positions, slots, k_cache, v_cache };
                backend.run(&RopeCacheWrite::<T>::order(self.order), args)
            }
        };
        written.map_err(|error| error.of_call(self.name()))
    }
}

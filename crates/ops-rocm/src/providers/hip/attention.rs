//! Attention. With few queries, the key range is split, with memory for the parts' results.
use super::bind::Bound;
use super::{HipOp, Problem};
use crate::choice::Target;
use ops_core::ops::Attention;
use ops_core::{Determinism, Float, Operands};
use ops_kernels::{Plan, Refused, attention};

mod ragged;

impl<T: Float> HipOp for Attention<T> {
    fn rows_level(&self, target: &Target, _: &dyn Operands) -> Determinism {
        target.sums_level()
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (q, k) = (p.at(0), p.at(1));
        let (&[batch, heads, t, d], &[_, kv_heads, s, _]) = (q.dims(), k.dims()) else {
            return Err(Refused::Rank(q.layout.rank()));
        };
        let call = attention::Attention {
            batch,
            heads,
            kv_heads,
            t,
            s,
            d,
            dv: p.at(2).dims()[3],
            q: q.view(),
            k: k.view(),
            v: p.at(2).view(),
            o: p.at(6).view(),
            mask: p.get(3).map(Bound::view),
            slopes: p.get(4).map(Bound::view),
            sinks: p.get(5).map(Bound::view),
            lse: p.get(7).map(Bound::view),
            scale: self.scale_for(q.layout.last()),
            causal: self.causal,
            window: [self.window.0, self.window.1].map(|side| side.map(|n| n as u64)),
            softcap: self.softcap,
        };
        attention::prepare(&call, p.device(), plan)
    }
}

//! Writing rows to key and value caches.
use super::{HipOp, Indices, Problem};
use ops_core::Float;
use ops_core::ops::{CacheWrite, QkNormRopeCacheWrite, RopeCacheWrite, RopeOrder};
use ops_kernels::{Plan, Refused, cache};

impl<T: Float> HipOp for CacheWrite<T> {
    const INDICES: Indices = &[("slots", 1)];

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, cache) = (p.at(0), p.at(2));
        let bound = cache.dims().first().copied().unwrap_or(0);
        let call = cache::CacheWrite {
            x: x.view(),
            slots: p.at(1).view(),
            cache: cache.view(),
            bound,
            report: p.report(),
        };
        plan.add(cache::write(x.dims(), &call, p.device())?)
    }
}

impl<T: Float> HipOp for RopeCacheWrite<T> {
    const INDICES: Indices = &[("positions", 4), ("slots", 5)];

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        write_keys(self.order, None, p, plan)
    }
}

impl<T: Float> HipOp for QkNormRopeCacheWrite<T> {
    const INDICES: Indices = &[("positions", 5), ("slots", 6)];

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        write_keys(self.order, Some(self.eps), p, plan)
    }
}

/// With a norm's eps, the norm's weight comes after `v`.
fn write_keys(order: RopeOrder, eps: Option<f64>, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
    let at = |place: usize| p.at(place + usize::from(eps.is_some()));
    let [of_positions, of_slots, _] = p.reports();
    let (k, v, cos, keys) = (p.at(0), p.at(1), at(2), at(6));
    let (&[n, h, d], &[.., dv], &[rows, half], &[slots, ..]) = (k.dims(), v.dims(), cos.dims(), keys.dims())
    else {
        return Err(Refused::Rank(k.layout.rank()));
    };
    let call = cache::RopeCacheWrite {
        dims: [n, h, d, dv],
        k: k.view(),
        v: v.view(),
        norm: eps.map(|eps| (p.at(2).view(), eps)),
        cos: cos.view(),
        sin: at(3).view(),
        positions: at(4).view(),
        slots: at(5).view(),
        k_cache: keys.view(),
        v_cache: at(7).view(),
        tables: [rows, half],
        cache_slots: slots,
        interleaved: order == RopeOrder::Interleaved,
        reports: [of_positions, of_slots],
    };
    plan.add(cache::rope_write(&call, p.device())?)
}

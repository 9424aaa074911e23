//! Writing rows to key and value caches.
use super::{Bound, HipOp, Indices, Problem};
use ops_core::Float;
use ops_core::ops::{CacheWrite, QkNormRopeCacheWrite, RopeCacheWrite, RopeOrder, RopeQkCacheWrite};
use ops_kernels::cache::{self, Queries};
use ops_kernels::{Plan, Refused};

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
        let places = Places { k: 0, v: 1, norm: None, tables: 2, caches: 6 };
        write_keys(places, None, (self.order, 0.0), p, plan)
    }
}

impl<T: Float> HipOp for QkNormRopeCacheWrite<T> {
    const INDICES: Indices = &[("positions", 5), ("slots", 6)];

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let places = Places { k: 0, v: 1, norm: Some(2), tables: 3, caches: 7 };
        write_keys(places, None, (self.order, self.eps), p, plan)
    }
}

impl<T: Float> HipOp for RopeQkCacheWrite<T> {
    const INDICES: Indices = &[("positions", 7), ("slots", 8)];

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let places = Places { k: 1, v: 2, norm: Some(4), tables: 5, caches: 9 };
        let (q, y) = (p.at(0), p.at(11));
        let &[_, heads, _] = q.dims() else { return Err(Refused::Rank(q.layout.rank())) };
        let queries = Queries { heads, q: q.view(), norm: p.get(3).map(Bound::view), y: y.view() };
        write_keys(places, Some(queries), (self.order, self.eps), p, plan)
    }
}

/// Where an op has its operands: both tables, the positions and the slots follow each other, and so do both caches.
struct Places {
    k: usize,
    v: usize,
    norm: Option<usize>,
    tables: usize,
    caches: usize,
}

fn write_keys(
    at: Places,
    queries: Option<Queries<'_>>,
    (order, eps): (RopeOrder, f64),
    p: &Problem<'_>,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let [of_positions, of_slots, _] = p.reports();
    let (k, v, cos, keys) = (p.at(at.k), p.at(at.v), p.at(at.tables), p.at(at.caches));
    let (&[n, h, d], &[.., dv], &[rows, half], &[slots, ..]) = (k.dims(), v.dims(), cos.dims(), keys.dims())
    else {
        return Err(Refused::Rank(k.layout.rank()));
    };
    let call = cache::RopeCacheWrite {
        dims: [n, h, d, dv],
        k: k.view(),
        v: v.view(),
        queries,
        norm: at.norm.and_then(|place| p.get(place)).map(Bound::view),
        eps,
        cos: cos.view(),
        sin: p.at(at.tables + 1).view(),
        positions: p.at(at.tables + 2).view(),
        slots: p.at(at.tables + 3).view(),
        k_cache: keys.view(),
        v_cache: p.at(at.caches + 1).view(),
        tables: [rows, half],
        cache_slots: slots,
        interleaved: order == RopeOrder::Interleaved,
        reports: [of_positions, of_slots],
    };
    plan.add(cache::rope_write(&call, p.device())?)
}

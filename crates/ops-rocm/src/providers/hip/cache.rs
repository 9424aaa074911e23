//! Writing rows to key and value caches.
use super::matmul::bias_of;
use super::{Bound, HipOp, Indices, Problem};
use crate::choice::Target;
use ops_core::ops::{
    CacheWrite, QkNormRopeCacheWrite, RmsNormLinearRopeCacheWrite, RopeCacheWrite, RopeOrder,
    RopeQkCacheWrite,
};
use ops_core::{Determinism, Float, Operands};
use ops_kernels::cache::{self, Queries, projected};
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
        let q = p.at(0);
        let &[_, heads, _] = q.dims() else { return Err(Refused::Rank(q.layout.rank())) };
        let queries = Queries { heads, q: q.view(), norm: p.get(3).map(Bound::view) };
        write_keys(places, Some((queries, p.at(11))), (self.order, self.eps), p, plan)
    }
}

impl<T: Float> HipOp for RmsNormLinearRopeCacheWrite<T> {
    const INDICES: Indices = &[("positions", 6), ("slots", 7)];

    /// Few rows. More rows than the kernels support are computed as parts, which sum in another order.
    fn rows_level(&self, _: &Target, _: &dyn Operands) -> Determinism {
        Determinism::Run
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, norm, weight, y) = (p.at(0), p.at(1), p.at(2), p.at(10));
        let (&[n, k], &[o, _], &[_, q_heads, _]) = (x.dims(), weight.dims(), y.dims()) else {
            return Err(Refused::Rank(x.layout.rank()));
        };
        let call = projected::Projected {
            dims: [n, o, k],
            q_heads,
            x: x.view(),
            norm: (norm.view(), self.eps),
            weight: weight.view(),
            bias: p.get(3).map(|bias| bias_of(x, bias)).transpose()?,
            to: target((4, 8), Some(y), self.order, p)?,
        };
        projected::prepare(&call, p.device(), plan)
    }

    fn how(&self, _: &Target, _: &Plan) -> Option<String> {
        None
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
    queries: Option<(Queries<'_>, &Bound)>,
    (order, eps): (RopeOrder, f64),
    p: &Problem<'_>,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let (k, v) = (p.at(at.k), p.at(at.v));
    let call = cache::RopeCacheWrite {
        n: k.dims().first().copied().unwrap_or(0),
        k: k.view(),
        v: v.view(),
        queries: queries.map(|(queries, _)| queries),
        norm: at.norm.and_then(|place| p.get(place)).map(Bound::view),
        eps,
        to: target((at.tables, at.caches), queries.map(|(_, y)| y), order, p)?,
    };
    plan.add(cache::rope_write(&call, p.device())?)
}

/// How heads are rotated, and where they go: by the places of the first table and of the keys' cache.
fn target<'p>(
    (tables, caches): (usize, usize),
    y: Option<&'p Bound>,
    order: RopeOrder,
    p: &'p Problem<'_>,
) -> Result<cache::Target<'p>, Refused> {
    let [of_positions, of_slots, _] = p.reports();
    let (cos, keys, values) = (p.at(tables), p.at(caches), p.at(caches + 1));
    let (&[slots, h, d], &[.., dv], &[rows, half]) = (keys.dims(), values.dims(), cos.dims()) else {
        return Err(Refused::Rank(keys.layout.rank()));
    };
    Ok(cache::Target {
        dims: [h, d, dv],
        cos: cos.view(),
        sin: p.at(tables + 1).view(),
        positions: p.at(tables + 2).view(),
        slots: p.at(tables + 3).view(),
        k_cache: keys.view(),
        v_cache: values.view(),
        y: y.map(Bound::view),
        tables: [rows, half],
        cache_slots: slots,
        interleaved: order == RopeOrder::Interleaved,
        reports: [of_positions, of_slots],
    })
}

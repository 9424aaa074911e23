//! Writing rows to key and value caches.
use crate::index::{Report, kind_of};
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::qk_norm_rope::lanes_of_packs;
use crate::shape::per_pack;
use crate::{
    Device, Divider, ElementType, Family, Launch, OperandView, Refused, Shape, StridedPointer, elementwise,
};

pub mod projected;

const BLOCK: u32 = 256;

arguments! {
    /// Arguments of cache_write.
    pub struct CacheWriteArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub cache: StridedPointer,
        pub slots: StridedPointer,
        pub place: StridedPointer,
        pub cache_row: i64,
        pub bound: u64,
        pub error: u64,
        pub slots_kind: u32,
        pub op: u32,
        pub operand: u32,
        pub reserved: u32,
    }

    /// Strides of rows \[n, h, d\].
    #[derive(Default)]
    pub struct HeadRows {
        pub row: i64,
        pub head: i64,
        pub step: i64,
    }
}
impl HeadRows {
    fn of(view: OperandView<'_>) -> Result<Self, Refused> {
        match *view.strides {
            [row, head, step] => Ok(HeadRows { row, head, step }),
            _ => Err(Refused::Rank(view.strides.len())),
        }
    }
}

arguments! {
    /// How the heads of tokens are rotated, and where they go.
    pub struct CacheTarget {
        pub cos: u64,
        pub sin: u64,
        pub positions: u64,
        pub slots: u64,
        pub k_cache: u64,
        pub v_cache: u64,
        pub y: u64,
        pub of_k_cache: HeadRows,
        pub of_v_cache: HeadRows,
        pub of_y: HeadRows,
        pub cos_row: i64,
        pub cos_step: i64,
        pub sin_row: i64,
        pub sin_step: i64,
        pub positions_step: i64,
        pub slots_step: i64,
        pub d: u64,
        pub dv: u64,
        pub half: u64,
        pub interleaved: u64,
        pub tables_are_f32: u64,
        pub table_rows: u64,
        pub cache_slots: u64,
        pub error: u64,
        pub positions_kind: u32,
        pub slots_kind: u32,
        pub op_of_positions: u32,
        pub op_of_slots: u32,
    }

    /// Arguments of rope_cache_write, with and without a norm.
    pub struct RopeCacheArgs {
        pub k: u64,
        pub v: u64,
        pub weight: u64,
        pub of_k: HeadRows,
        pub of_v: HeadRows,
        pub weight_step: i64,
        pub weight_is_f32: u64,
        pub heads: Divider,
        pub rows: u64,
        pub lanes: u64,
        pub eps: f64,
        pub q: u64,
        pub q_weight: u64,
        pub of_q: HeadRows,
        pub q_weight_step: i64,
        pub q_weight_is_f32: u64,
        pub q_heads: Divider,
        pub q_rows: u64,
        pub to: CacheTarget,
    }
}

pub(crate) fn declare(table: &mut Table) {
    projected::declare(table);
    let mut writes = table.of::<CacheWriteArgs>(Family::Cache, BLOCK);
    for bits in [ElementType::B16, ElementType::B32, ElementType::B64] {
        writes.add("cache_write", &[bits, bits], "cache_write", &[]);
    }
    for t in ElementType::FLOATS {
        writes.add("cache_write", &[t, ElementType::F8E4M3], "cache_write", &[]);
    }
    let mut keys = table.of::<RopeCacheArgs>(Family::Cache, BLOCK);
    for t in ElementType::FLOATS {
        for cache in [t, ElementType::F8E4M3] {
            keys.part("rope").add("rope_cache_write", &[t, cache], "rope_cache_write", &[]);
            if t != ElementType::F64 {
                keys.add_variant("rope_cache_write", "packs", &[t, cache], "rope_cache_write_packs", &[], 0);
            }
        }
    }
}

/// Operands of cache_write: `x` with the shape `dims`, and the cache, whose first dimension is its slots.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct CacheWrite<'a> {
    pub x: OperandView<'a>,
    pub slots: OperandView<'a>,
    pub cache: OperandView<'a>,
    /// Number of slots in the cache.
    pub bound: u64,
    pub report: Report,
}

/// Prepares cache_write.
pub fn write(
    dims: &[u64],
    call: &CacheWrite<'_>,
    device: &Device,
) -> Result<(Launch, CacheWriteArgs), Refused> {
    let &[cache_row, ..] = call.cache.strides else { return Err(Refused::Rank(0)) };
    let types = match call.x.dtype.bits() {
        Some(bits) if call.cache.dtype == call.x.dtype => [bits; 2],
        _ => [call.x.dtype, call.cache.dtype],
    };
    let instance = need("cache_write", "", &types)?;
    // Slots only along the rows. Their type does not limit the width of accesses.
    let mut along = crate::shape::list(dims)?.iter().map(|_| 0).collect::<crate::shape::List<i64>>();
    let mut places = along.clone();
    along[0] = call.slots.strides.first().copied().unwrap_or(0);
    places[0] = 1;
    let slots = OperandView { data: call.slots.data, strides: &along, dtype: ElementType::U8 };
    let place = OperandView { data: 0, strides: &places, dtype: ElementType::U8 };
    let (mut shape, [x, mut cache, slots, place]) = elementwise(dims, [call.x, call.cache, slots, place])?;
    let pack = shape.pack();
    let in_packs = cache_row % i64::from(pack) == 0 && shape.inner().is_multiple_of(u64::from(pack));
    if place.stride[5] != 0 || !in_packs {
        shape = shape.unpacked();
    }
    if dims.first() != Some(&1) {
        // The slot replaces the row.
        cache.stride[crate::MAX_RANK - shape.rank() as usize] = 0;
    }
    let args = CacheWriteArgs {
        shape,
        x,
        cache,
        slots,
        place,
        cache_row,
        bound: call.bound,
        error: call.report.error,
        slots_kind: kind_of(call.slots.dtype)?,
        op: call.report.op,
        operand: call.report.operand,
        reserved: 0,
    };
    Ok((Launch::elementwise(instance, &shape, device), args))
}

/// How the heads of tokens are rotated, and where they go: caches with slots instead of rows, and y, the rotated queries
/// \[n, heads, d\].
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Target<'a> {
    /// h, d and dv.
    pub dims: [u64; 3],
    pub cos: OperandView<'a>,
    pub sin: OperandView<'a>,
    pub positions: OperandView<'a>,
    pub slots: OperandView<'a>,
    pub k_cache: OperandView<'a>,
    pub v_cache: OperandView<'a>,
    pub y: Option<OperandView<'a>>,
    /// Rows and columns of the tables.
    pub tables: [u64; 2],
    pub cache_slots: u64,
    pub interleaved: bool,
    /// For positions and for slots.
    pub reports: [Report; 2],
}

fn no_kernel(op: &'static str, types: [ElementType; 2]) -> Refused {
    Refused::NoKernel { op: op.into(), types: types.to_vec() }
}

/// 1 for f32, and 0 for `t`.
fn is_f32(op: &'static str, t: ElementType, view: OperandView<'_>) -> Result<u64, Refused> {
    match view.dtype {
        same if same == t => Ok(0),
        ElementType::F32 => Ok(1),
        other => Err(no_kernel(op, [t, other])),
    }
}

fn last_stride(view: OperandView<'_>) -> i64 {
    view.strides.last().copied().unwrap_or(0)
}

impl Target<'_> {
    /// The arguments for rows of type `t`.
    fn args(&self, op: &'static str, t: ElementType) -> Result<CacheTarget, Refused> {
        if self.cos.dtype != self.sin.dtype {
            return Err(no_kernel(op, [t, self.sin.dtype]));
        }
        let table = |view: OperandView<'_>| match *view.strides {
            [row, step] => Ok((row, step)),
            _ => Err(Refused::Rank(view.strides.len())),
        };
        let ((cos_row, cos_step), (sin_row, sin_step)) = (table(self.cos)?, table(self.sin)?);
        let ([_, d, dv], [table_rows, half]) = (self.dims, self.tables);
        Ok(CacheTarget {
            cos: self.cos.data,
            sin: self.sin.data,
            positions: self.positions.data,
            slots: self.slots.data,
            k_cache: self.k_cache.data,
            v_cache: self.v_cache.data,
            y: self.y.map_or(0, |y| y.data),
            of_k_cache: HeadRows::of(self.k_cache)?,
            of_v_cache: HeadRows::of(self.v_cache)?,
            of_y: self.y.map_or(Ok(HeadRows::default()), HeadRows::of)?,
            cos_row,
            cos_step,
            sin_row,
            sin_step,
            positions_step: last_stride(self.positions),
            slots_step: last_stride(self.slots),
            d,
            dv,
            half,
            interleaved: u64::from(self.interleaved),
            tables_are_f32: is_f32(op, t, self.cos)?,
            table_rows,
            cache_slots: self.cache_slots,
            error: self.reports[0].error,
            positions_kind: kind_of(self.positions.dtype)?,
            slots_kind: kind_of(self.slots.dtype)?,
            op_of_positions: self.reports[0].op,
            op_of_slots: self.reports[1].op,
        })
    }
}

/// Queries of rope_qk_cache_write, \[n, heads, d\], and the weight of their norm.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Queries<'a> {
    pub heads: u64,
    pub q: OperandView<'a>,
    pub norm: Option<OperandView<'a>>,
}

/// Operands of rope_cache_write: `n` keys \[n, h, d\] and values \[n, h, dv\].
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct RopeCacheWrite<'a> {
    pub n: u64,
    pub k: OperandView<'a>,
    pub v: OperandView<'a>,
    pub queries: Option<Queries<'a>>,
    /// The weight of the keys' norm.
    pub norm: Option<OperandView<'a>>,
    pub eps: f64,
    pub to: Target<'a>,
}

impl RopeCacheWrite<'_> {
    /// How many lanes share a head, if all operands can be read and written in packs.
    fn lanes_of_packs(&self, device: &Device) -> Option<u64> {
        let (to, n) = (&self.to, per_pack(self.k.dtype));
        let [_, d, dv] = to.dims;
        let of_queries = self.queries.map_or([None; 2], |of| [Some(of.q), of.norm]);
        let read = [Some(to.cos), Some(to.sin), self.norm, Some(self.k), Some(self.v), to.y];
        let aligned = read.into_iter().chain(of_queries).flatten().all(|view| view.in_full_packs());
        let whole = dv.is_multiple_of(n) && aligned && to.k_cache.in_packs(n) && to.v_cache.in_packs(n);
        lanes_of_packs(self.k.dtype, d, to.tables[1], device).filter(|_| whole)
    }
}

/// Prepares rope_cache_write.
pub fn rope_write(call: &RopeCacheWrite<'_>, device: &Device) -> Result<(Launch, RopeCacheArgs), Refused> {
    const OP: &str = "rope_cache_write";
    let ([h, d, dv], n, t) = (call.to.dims, call.n, call.k.dtype);
    let rows = n.checked_mul(h).filter(|rows| *rows < 1 << 62).ok_or(Refused::Size)?;
    let (variant, lanes) = match call.lanes_of_packs(device) {
        Some(lanes) => ("packs", lanes),
        None => ("", (d.max(dv) / 4).max(1).next_power_of_two().min(u64::from(device.wave))),
    };
    let instance = need(OP, variant, &[t, call.to.k_cache.dtype])?;
    let g = call.queries.map_or(0, |of| of.heads);
    let q_rows = n.checked_mul(g).filter(|rows| *rows < 1 << 62).ok_or(Refused::Size)?;
    let launch = Launch::over(instance, 2 * rows + q_rows, u64::from(BLOCK) / lanes, device.row_blocks());
    let q_norm = call.queries.and_then(|of| of.norm);
    let args = RopeCacheArgs {
        to: call.to.args(OP, t)?,
        k: call.k.data,
        v: call.v.data,
        weight: call.norm.map_or(0, |weight| weight.data),
        of_k: HeadRows::of(call.k)?,
        of_v: HeadRows::of(call.v)?,
        weight_step: call.norm.map_or(0, last_stride),
        weight_is_f32: call.norm.map_or(Ok(0), |weight| is_f32(OP, t, weight))?,
        heads: Divider::new(h.max(1)),
        rows,
        lanes,
        eps: call.eps,
        q: call.queries.map_or(0, |of| of.q.data),
        q_weight: q_norm.map_or(0, |weight| weight.data),
        of_q: call.queries.map_or(Ok(HeadRows::default()), |of| HeadRows::of(of.q))?,
        q_weight_step: q_norm.map_or(0, last_stride),
        q_weight_is_f32: q_norm.map_or(Ok(0), |weight| is_f32(OP, t, weight))?,
        q_heads: Divider::new(g.max(1)),
        q_rows,
    };
    Ok((launch, args))
}

//! A product whose heads are rotated and written to caches.
use super::{RmsNormLinearRopeCacheWrite, RopeOrder, RopeQkCacheWrite, Rows, args};
use crate::ops::RmsNormLinear;
use crate::ops::matmul::{rows_times, summed_with};
use crate::ops::norm::{valid_eps, weights};
use crate::parts::{Planned, made};
use crate::{
    DType, Error, Execute, Float, Layout, Op, Operand, Operands, Packing, Parts, Reason, Result, Role, Shape,
    Tolerance,
};

impl<T> RmsNormLinearRopeCacheWrite<T> {
    /// Rotates pairs of this order.
    pub fn order(self, order: RopeOrder) -> Self {
        RmsNormLinearRopeCacheWrite { order, ..self }
    }
}
impl<T: Float> Op for RmsNormLinearRopeCacheWrite<T> {
    fn infer(&self, on: &args::rms_norm_linear_rope_cache_write::Shapes<'_>) -> Result<[Shape; 1]> {
        let op = self.name();
        valid_eps(op, self.eps)?;
        on.weight.require(op, DType::is_real, "f16, bf16, f32, f64 or a block format")?;
        let heads = Heads::of(op, on.weight.layout, [on.k_cache.layout, on.v_cache.layout])?;
        let &[n, _] = on.x.dims() else { return Err(Error::shape(op, "x", on.x, "[n, m]")) };
        rows_times(op, on.x, heads.columns(), on.weight)?;
        weights(op, Some(on.norm), on.x.last())?;
        weights(op, on.bias, heads.columns())?;
        let product = Layout::of(Shape::new(&[n, heads.columns()])?);
        let [_, k, v] = heads.views(product)?;
        let rows = Rows {
            op,
            k: &k,
            v: &v,
            tables: [&on.cos, &on.sin],
            positions: &on.positions,
            slots: &on.slots,
            caches: [&on.k_cache, &on.v_cache],
        };
        rows.check::<T>()?;
        Ok([Shape::new(&[n, heads.queries, heads.d])?])
    }
    /// That of the product. Queries and keys may be rounded to `T` before the rotation and after it: two errors of half a unit in the last
    /// place add to one unit.
    fn tolerance(&self, output: &'static str, dtype: DType, on: &dyn Operands) -> Tolerance {
        let unit: f64 = match T::DTYPE {
            _ if output == "v_cache" && dtype == T::DTYPE => 0.0,
            DType::F16 => 2f64.powi(-10),
            DType::BF16 => 2f64.powi(-7),
            _ => 0.0,
        };
        match summed_with(on.get("weight"), dtype) {
            Tolerance::Nmse { base, rounding } => Tolerance::Nmse { base: base + unit.powi(2), rounding },
            exact => exact,
        }
    }
}

/// How the columns of a product divide into heads.
pub(super) struct Heads {
    queries: usize,
    heads: usize,
    d: usize,
    dv: usize,
}
impl Heads {
    /// Those of a weight `[o, m]`, for caches `[slots, h, d]` and `[slots, h, dv]`.
    pub(super) fn of(op: &'static str, weight: &Layout, [keys, values]: [&Layout; 2]) -> Result<Self> {
        let (heads, d) = match *keys.dims() {
            [_, heads, d] if d % 2 == 0 => (heads, d),
            _ => return Err(Error::shape(op, "k_cache", keys, "[slots, h, d] with d even")),
        };
        let dv = match *values.dims() {
            [_, of_values, dv] if of_values == heads => dv,
            _ => return Err(Error::shape(op, "v_cache", values, format!("[slots, {heads}, dv]"))),
        };
        let of_rows = heads.saturating_mul(d.saturating_add(dv));
        match *weight.dims() {
            [o, _] if o >= of_rows && (o - of_rows).checked_rem(d).unwrap_or(o - of_rows) == 0 => {
                Ok(Heads { queries: (o - of_rows).checked_div(d).unwrap_or(0), heads, d, dv })
            }
            _ => {
                let want = format!(
                    "[{of_rows} + {d} · (heads of queries), m], for {heads} heads of keys and values"
                );
                Err(Error::shape(op, "weight", weight, want))
            }
        }
    }
    fn columns(&self) -> usize {
        self.queries * self.d + self.heads * (self.d + self.dv)
    }
    /// The shape of `n` rows of queries.
    pub(super) fn of_queries(&self, n: usize) -> Result<Shape> {
        Shape::new(&[n, self.queries, self.d])
    }
    /// Queries, keys and values `[n, heads, features]` in a product `[n, o]`.
    fn views(&self, product: Layout) -> Result<[Layout; 3]> {
        let n = product.dims()[0];
        let part = |at, heads: usize, width: usize| {
            product.narrow(1, at, heads * width)?.reshape(&[n, heads, width])
        };
        let (keys, values) = (self.queries * self.d, (self.queries + self.heads) * self.d);
        Ok([
            part(0, self.queries, self.d)?,
            part(keys, self.heads, self.d)?,
            part(values, self.heads, self.dv)?,
        ])
    }
}

impl<T: Float, B> Parts<B> for RmsNormLinearRopeCacheWrite<T>
where
    B: Execute<RmsNormLinear<T>> + Execute<RopeQkCacheWrite<T>>,
{
    fn parts_support(&self, backend: &B, on: &dyn Operands) -> Result<(), Reason> {
        let given = |name: &str| on.get(name).ok_or(Reason::Missing);
        let because = |error: Error| Reason::Because(error.to_string());
        let (x, weight, keys, values) = (given("x")?, given("weight")?, given("k_cache")?, given("v_cache")?);
        let heads = Heads::of(self.name(), weight.layout, [keys.layout, values.layout]).map_err(because)?;
        let product = x.layout.shape().with_last(heads.columns()).map(Layout::of).map_err(because)?;
        let read = [Some(x), Some(given("norm")?), Some(weight), on.get("bias")];
        let y = made("y", Role::Out, T::DTYPE, &product);
        backend.support(&RmsNormLinear::<T>::eps(self.eps), &Planned { read: &read, written: &[y] })?;
        let of_parts = heads.views(product).map_err(because)?;
        let [q, k, v] = [0, 1, 2].map(|i| Some(made(["q", "k", "v"][i], Role::In, T::DTYPE, &of_parts[i])));
        let [cos, sin, positions, slots] = ["cos", "sin", "positions", "slots"].map(|name| on.get(name));
        let read = [q, k, v, None, None, cos, sin, positions, slots];
        let op = RopeQkCacheWrite::<T>::eps(0.0).order(self.order);
        backend.support(&op, &Planned { read: &read, written: &[keys, values, given("y")?] })
    }

    fn run_parts(
        &self,
        backend: &B,
        args: &mut args::rms_norm_linear_rope_cache_write::Args<'_, B::Space, T>,
    ) -> Result<()> {
        use crate::ops::args::{rms_norm_linear, rope_qk_cache_write};
        let caches = [args.k_cache.layout(), args.v_cache.layout()];
        let heads = Heads::of(self.name(), args.weight.layout(), caches)?;
        let mut product = backend.empty::<T>(args.x.layout().shape().with_last(heads.columns())?)?;
        let of_product = rms_norm_linear::Args {
            x: args.x.shorten(),
            norm: args.norm.shorten(),
            weight: args.weight.shorten(),
            bias: args.bias.as_ref().map(|bias| bias.shorten()),
            y: product.as_mut(),
        };
        let done = backend.run(&RmsNormLinear::<T>::eps(self.eps), of_product);
        done.map_err(|error| error.of_call(self.name()))?;
        let product = product.as_ref();
        let [q, k, v] = heads.views(*product.layout())?;
        let (q, k, v) = (product.with_layout(q)?, product.with_layout(k)?, product.with_layout(v)?);
        let of_rows = rope_qk_cache_write::Args {
            q,
            k,
            v,
            q_norm: None,
            k_norm: None,
            cos: args.cos.shorten(),
            sin: args.sin.shorten(),
            positions: args.positions.shorten(),
            slots: args.slots.shorten(),
            k_cache: args.k_cache.reborrow(),
            v_cache: args.v_cache.reborrow(),
            y: args.y.reborrow(),
        };
        let done = backend.run(&RopeQkCacheWrite::<T>::eps(0.0).order(self.order), of_rows);
        done.map_err(|error| error.of_call(self.name()))
    }

    fn parts_read(&self, backend: &B, operand: &'static str, packing: &'static Packing) -> bool {
        operand == "weight"
            && Execute::<RmsNormLinear<T>>::reads(backend, &RmsNormLinear::eps(self.eps), operand, packing)
    }
}

/// Whether `backend` has fused kernels for `op` on these operands. `y` is derived from them.
pub(super) fn fuses<T: Float, B: Execute<RmsNormLinearRopeCacheWrite<T>>>(
    backend: &B,
    op: &RmsNormLinearRopeCacheWrite<T>,
    read: &[Option<Operand<'_>>],
    [keys, values]: [Operand<'_>; 2],
) -> bool {
    let (Some(Some(x)), Some(Some(weight))) = (read.first(), read.get(2)) else { return false };
    let of_queries = || {
        let heads = Heads::of(op.name(), weight.layout, [keys.layout, values.layout])?;
        heads.of_queries(x.dims().first().copied().unwrap_or(0))
    };
    let Ok(y) = of_queries().map(Layout::of) else { return false };
    backend.fuses(op, &Planned { read, written: &[keys, values, made("y", Role::Out, T::DTYPE, &y)] })
}

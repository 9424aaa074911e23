//! What fused products consist of, for calls that no single kernel computes.
use super::{LinearAdd, LinearSwiglu, RmsNormLinear, RmsNormLinearSwiglu, args};
use crate::ops::{
    ActivationMethods, ActivationOps, Binary, BinaryFn, Cast, CastMethods, CastOps, ElementwiseMethods,
    ElementwiseOps, Glu, GluFn, Linear, LinearMethods, LinearOps, NormMethods, NormOps, RmsNorm,
};
use crate::parts::{Planned, made};
use crate::{
    AnyRef, Backend, Element, Execute, Float, Layout, Mut, Op, Operand, Operands, Packing, Parts, Reason,
    Ref, Result, Role, TensorOf,
};

/// `x` in the type in which sums are kept.
pub(in crate::ops) enum Wide<'x, B: Backend, A: Element> {
    Same(Ref<'x, B, A>),
    Cast(TensorOf<B, A>),
}
impl<B: Backend, A: Element> Wide<'_, B, A> {
    pub(in crate::ops) fn as_ref(&self) -> Ref<'_, B, A> {
        match self {
            Wide::Same(x) => x.shorten(),
            Wide::Cast(x) => x.as_ref(),
        }
    }
}

/// Calls `compute` with `y`, or, if `T` is narrower, with a tensor that is then rounded to `y`.
pub(in crate::ops) fn rounded<T: Float, B: CastOps<T> + CastOps<T::Acc>>(
    b: &B,
    mut y: Mut<'_, B, T>,
    compute: impl FnOnce(Mut<'_, B, T::Acc>) -> Result<()>,
) -> Result<()> {
    if let Some(y) = y.reborrow().any().typed::<T::Acc>() {
        return compute(y);
    }
    let mut wide = b.empty(y.shape())?;
    compute(wide.as_mut())?;
    b.cast_into(&wide, y)
}

pub(in crate::ops) fn wide<'x, T: Float, B: CastOps<T::Acc>>(
    b: &B,
    x: Ref<'x, B, T>,
) -> Result<Wide<'x, B, T::Acc>> {
    Ok(match x.any().typed::<T::Acc>() {
        Some(same) => Wide::Same(same),
        None => Wide::Cast(b.cast::<T::Acc>(x)?),
    })
}

/// A backend that is asked whether it supports the parts of a call: operands that exist, and layouts of `x` and `y`, which the parts
/// have in a wider type.
pub(in crate::ops) struct Asked<'o, B> {
    backend: &'o B,
    pub(in crate::ops) on: &'o dyn Operands,
    pub(in crate::ops) x: Layout,
    pub(in crate::ops) y: Layout,
}
impl<'o, B> Asked<'o, B> {
    pub(in crate::ops) fn new(backend: &'o B, on: &'o dyn Operands) -> Result<Self, Reason> {
        let packed = |name| on.get(name).map(|x| Layout::of(x.layout.shape())).ok_or(Reason::Missing);
        Ok(Asked { backend, on, x: packed("x")?, y: packed("y")? })
    }
    pub(in crate::ops) fn given(&self, name: &str, part: &'static str) -> Result<Operand<'_>, Reason> {
        self.on.get(name).map(|of| Operand { name: part, ..of }).ok_or(Reason::Missing)
    }
    pub(in crate::ops) fn part<O: Op>(
        &self,
        op: &O,
        read: &[Option<Operand<'_>>],
        y: Operand<'_>,
    ) -> Result<(), Reason>
    where
        B: Execute<O>,
    {
        self.backend.support(op, &Planned { read, written: &[y] })
    }
    /// Casts of x and y, if `T` is not the wider type.
    pub(in crate::ops) fn casts<T: Float>(&self) -> Result<(), Reason>
    where
        B: CastOps<T> + CastOps<T::Acc>,
    {
        if T::DTYPE == T::Acc::DTYPE {
            return Ok(());
        }
        let (x, y) = (self.given("x", "x")?, self.given("y", "y")?);
        self.part(&Cast::<T::Acc>::OP, &[Some(x)], made("y", Role::Out, T::Acc::DTYPE, &self.x))?;
        self.part(&Cast::<T>::OP, &[Some(made("x", Role::In, T::Acc::DTYPE, &self.y))], y)
    }
    fn norm<A: Float>(&self, eps: f64) -> Result<(), Reason>
    where
        B: NormOps<A>,
    {
        let read = [Some(made("x", Role::In, A::DTYPE, &self.x)), Some(self.given("norm", "weight")?)];
        self.part(&RmsNorm::<A>::eps(eps), &read, made("y", Role::Out, A::DTYPE, &self.x))
    }
    fn product<A: Float>(&self, weight: &str) -> Result<(), Reason>
    where
        B: LinearOps<A>,
    {
        let x = made("x", Role::In, A::DTYPE, &self.x);
        let read = [Some(x), Some(self.given(weight, "weight")?), self.on.get("bias")];
        self.part(&Linear::<A>::OP, &read, made("y", Role::Out, A::DTYPE, &self.y))
    }
    fn gated<A: Float>(&self) -> Result<(), Reason>
    where
        B: LinearOps<A> + ActivationOps<A>,
    {
        self.product::<A>("gate")?;
        self.product::<A>("up")?;
        let read = ["gate", "up"].map(|name| Some(made(name, Role::In, A::DTYPE, &self.y)));
        self.part(&Glu::<A>::of(GluFn::Swiglu), &read, made("y", Role::Out, A::DTYPE, &self.y))
    }
}

/// `y = silu(x · gateᵀ) · (x · upᵀ)`
fn gated<A: Float, B: LinearOps<A> + ActivationOps<A>>(
    b: &B,
    x: Ref<'_, B, A>,
    [gate, up]: [AnyRef<'_, B::Space>; 2],
    y: Mut<'_, B, A>,
) -> Result<()> {
    let gate = b.linear(x, gate)?;
    b.swiglu_into(&gate, &b.linear(x, up)?, y)
}

fn reads_weight<A: Float, B: LinearOps<A>>(b: &B, packing: &'static Packing) -> bool {
    Execute::<Linear<A>>::reads(b, &Linear::OP, "weight", packing)
}

impl<T: Float, B> Parts<B> for LinearSwiglu<T>
where
    B: LinearOps<T::Acc> + ActivationOps<T::Acc> + CastOps<T> + CastOps<T::Acc>,
{
    fn parts_support(&self, backend: &B, on: &dyn Operands) -> Result<(), Reason> {
        let asked = Asked::new(backend, on)?;
        asked.gated::<T::Acc>()?;
        asked.casts::<T>()
    }
    fn run_parts(&self, b: &B, args: &mut args::linear_swiglu::Args<'_, B::Space, T>) -> Result<()> {
        let x = wide(b, args.x)?;
        rounded(b, args.y.reborrow(), |y| gated(b, x.as_ref(), [args.gate, args.up], y))
    }
    fn parts_read(&self, backend: &B, operand: &'static str, packing: &'static Packing) -> bool {
        matches!(operand, "gate" | "up") && reads_weight::<T::Acc, B>(backend, packing)
    }
}

impl<T: Float, B> Parts<B> for LinearAdd<T>
where
    B: LinearOps<T::Acc> + ElementwiseOps<T::Acc> + CastOps<T> + CastOps<T::Acc>,
{
    fn parts_support(&self, backend: &B, on: &dyn Operands) -> Result<(), Reason> {
        let asked = Asked::new(backend, on)?;
        asked.product::<T::Acc>("weight")?;
        let read = ["a", "b"].map(|name| Some(made(name, Role::In, T::Acc::DTYPE, &asked.y)));
        let sum = made("c", Role::Out, T::Acc::DTYPE, &asked.y);
        asked.part(&Binary::<T::Acc>::of(BinaryFn::Add), &read, sum)?;
        asked.casts::<T>()
    }
    fn run_parts(&self, b: &B, args: &mut args::linear_add::Args<'_, B::Space, T>) -> Result<()> {
        let (x, residual) = (wide(b, args.x)?, wide(b, args.residual)?);
        let product = b.linear(x.as_ref(), args.weight)?;
        rounded(b, args.y.reborrow(), |y| b.add_into(&product, residual.as_ref(), y))
    }
    fn parts_read(&self, backend: &B, operand: &'static str, packing: &'static Packing) -> bool {
        operand == "weight" && reads_weight::<T::Acc, B>(backend, packing)
    }
}

impl<T: Float, B> Parts<B> for RmsNormLinear<T>
where
    B: NormOps<T::Acc> + LinearOps<T::Acc> + CastOps<T> + CastOps<T::Acc>,
{
    fn parts_support(&self, backend: &B, on: &dyn Operands) -> Result<(), Reason> {
        let asked = Asked::new(backend, on)?;
        asked.norm::<T::Acc>(self.eps)?;
        asked.product::<T::Acc>("weight")?;
        asked.casts::<T>()
    }
    fn run_parts(&self, b: &B, args: &mut args::rms_norm_linear::Args<'_, B::Space, T>) -> Result<()> {
        let x = wide(b, args.x)?;
        let h = b.rms_norm(x.as_ref(), args.norm, self.eps)?;
        rounded(b, args.y.reborrow(), |y| b.linear_into(&h, args.weight, args.bias, y))
    }
    fn parts_read(&self, backend: &B, operand: &'static str, packing: &'static Packing) -> bool {
        operand == "weight" && reads_weight::<T::Acc, B>(backend, packing)
    }
}

impl<T: Float, B> Parts<B> for RmsNormLinearSwiglu<T>
where
    B: NormOps<T::Acc> + LinearOps<T::Acc> + ActivationOps<T::Acc> + CastOps<T> + CastOps<T::Acc>,
{
    fn parts_support(&self, backend: &B, on: &dyn Operands) -> Result<(), Reason> {
        let asked = Asked::new(backend, on)?;
        asked.norm::<T::Acc>(self.eps)?;
        asked.gated::<T::Acc>()?;
        asked.casts::<T>()
    }
    fn run_parts(&self, b: &B, args: &mut args::rms_norm_linear_swiglu::Args<'_, B::Space, T>) -> Result<()> {
        let x = wide(b, args.x)?;
        let h = b.rms_norm(x.as_ref(), args.norm, self.eps)?;
        rounded(b, args.y.reborrow(), |y| gated(b, h.as_ref(), [args.gate, args.up], y))
    }
    fn parts_read(&self, backend: &B, operand: &'static str, packing: &'static Packing) -> bool {
        matches!(operand, "gate" | "up") && reads_weight::<T::Acc, B>(backend, packing)
    }
}

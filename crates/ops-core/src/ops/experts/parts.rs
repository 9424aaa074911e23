//! What fused products of experts consist of, for calls that no single kernel computes.
use super::{ExpertMethods, ExpertOps, LinearExperts, LinearExpertsCombine, LinearExpertsSwiglu, args};
use crate::ops::matmul::parts::{Asked, rounded, wide};
use crate::ops::{
    ActivationMethods, ActivationOps, CastOps, CombineExperts, GatedMethods, GatedOps, Glu, GluFn,
    RoutingMethods, RoutingOps, SwigluClamped,
};
use crate::parts::made;
use crate::{Element, Float, Layout, Operand, Operands, Parts, Reason, Result, Role};

impl<T: Float, B> Parts<B> for LinearExpertsSwiglu<T>
where
    B: ExpertOps<T::Acc> + ActivationOps<T::Acc> + GatedOps<T::Acc> + CastOps<T> + CastOps<T::Acc>,
{
    fn parts_support(&self, backend: &B, on: &dyn Operands) -> Result<(), Reason> {
        let asked = Asked::new(backend, on)?;
        for (weight, bias) in [("gate", "gate_bias"), ("up", "up_bias")] {
            products::<T::Acc, B>(&asked, weight, bias, &asked.y)?;
        }
        let read = ["gate", "up"].map(|name| Some(made(name, Role::In, T::Acc::DTYPE, &asked.y)));
        let y = made("y", Role::Out, T::Acc::DTYPE, &asked.y);
        match self.limit {
            None => asked.part(&Glu::<T::Acc>::of(GluFn::Swiglu), &read, y)?,
            Some(limit) => asked.part(&SwigluClamped::<T::Acc>::new(self.alpha, limit), &read, y)?,
        }
        asked.casts::<T>()
    }
    fn run_parts(&self, b: &B, args: &mut args::linear_experts_swiglu::Args<'_, B::Space, T>) -> Result<()> {
        let x = wide(b, args.x)?;
        let gate = b.linear_experts(x.as_ref(), args.gate, args.ids, args.gate_bias)?;
        let up = b.linear_experts(x.as_ref(), args.up, args.ids, args.up_bias)?;
        rounded(b, args.y.reborrow(), |y| match self.limit {
            None => b.swiglu_into(&gate, &up, y),
            Some(limit) => b.swiglu_clamped_into(&gate, &up, y, SwigluClamped::new(self.alpha, limit)),
        })
    }
}

impl<T: Float, B> Parts<B> for LinearExpertsCombine<T>
where
    B: ExpertOps<T::Acc> + RoutingOps<T::Acc> + CastOps<T> + CastOps<T::Acc>,
{
    fn parts_support(&self, backend: &B, on: &dyn Operands) -> Result<(), Reason> {
        let asked = Asked::new(backend, on)?;
        let (&[n, k], &[_, o]) = (asked.given("ids", "ids")?.dims(), asked.y.dims()) else {
            return Err(Reason::Missing);
        };
        let each = Layout::contiguous(&[n, k, o]).map_err(|_| Reason::Missing)?;
        products::<T::Acc, B>(&asked, "weight", "bias", &each)?;
        let x = made("x", Role::In, T::Acc::DTYPE, &each);
        let read = [Some(x), Some(asked.given("weights", "weights")?)];
        let y = made("y", Role::Out, T::Acc::DTYPE, &asked.y);
        asked.part(&CombineExperts::<T::Acc>::OP, &read, y)?;
        asked.casts::<T>()
    }
    fn run_parts(&self, b: &B, args: &mut args::linear_experts_combine::Args<'_, B::Space, T>) -> Result<()> {
        let x = wide(b, args.x)?;
        let each = b.linear_experts(x.as_ref(), args.weight, args.ids, args.bias)?;
        rounded(b, args.y.reborrow(), |y| b.combine_experts_into(&each, args.weights, y))
    }
}

/// Asks for the products with one weight.
fn products<A: Float, B: ExpertOps<A>>(
    asked: &Asked<'_, B>,
    weight: &str,
    bias: &str,
    y: &Layout,
) -> Result<(), Reason> {
    let x = made("x", Role::In, A::DTYPE, &asked.x);
    let bias = asked.on.get(bias).map(|of| Operand { name: "bias", ..of });
    let read = [Some(x), Some(asked.given(weight, "weight")?), Some(asked.given("ids", "ids")?), bias];
    asked.part(&LinearExperts::<A>::OP, &read, made("y", Role::Out, A::DTYPE, y))
}

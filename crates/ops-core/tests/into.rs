//! Methods come in pairs from one declaration: one allocates its outputs, the other writes into given views.
use ops_core::ops::*;
use ops_core::{
    Backend, Call, Element, Error, Execute, IntoShape, Layout, Operands, Reason, Result, Space, Tensor,
    TensorOf,
};
use ops_cpu::{Cpu, Host};

#[test]
fn both_methods_of_a_pair_compute_the_same() -> Result<()> {
    let b = &Cpu::new();
    let x = b.tensor(&[2, 2], &[1.0f32, 7.0, -2.0, 4.0])?;
    let weight = b.tensor(&[2], &[1.0f32, 2.0])?;

    let (mut y, mut sum) = (b.zeros(&[2, 2])?, b.zeros(&[2, 2])?);
    b.rms_norm_into(&x, &weight, &mut y, RmsNorm::eps(0.5))?;
    assert_eq!(y.to_vec(b)?, b.rms_norm(&x, &weight, RmsNorm::eps(0.5))?.to_vec(b)?);
    b.layer_norm_into(&x, None, &weight, &mut y, LayerNorm::eps(0.5))?;
    assert_eq!(y.to_vec(b)?, b.layer_norm(&x, None, &weight, LayerNorm::eps(0.5))?.to_vec(b)?);
    b.add_rms_norm_into(&x, &x, &weight, &mut y, &mut sum, AddRmsNorm::eps(0.5))?;
    let (of_y, of_sum) = b.add_rms_norm(&x, &x, &weight, AddRmsNorm::eps(0.5))?;
    assert_eq!((y.to_vec(b)?, sum.to_vec(b)?), (of_y.to_vec(b)?, of_sum.to_vec(b)?));

    b.linear_into(&x, &x, &weight, &mut y)?;
    assert_eq!(y.to_vec(b)?, b.linear_bias(&x, &x, &weight)?.to_vec(b)?);
    b.powf_into(&x, &mut y, 2.0)?;
    assert_eq!(y.to_vec(b)?, b.powf(&x, 2.0)?.to_vec(b)?);
    let (mut values, mut indices) = (b.zeros(&[2, 1])?, b.zeros(&[2, 1])?);
    b.topk_into(&x, &mut values, &mut indices, 1)?;
    let (of_values, of_indices) = b.topk(&x, 1)?;
    assert_eq!((values.to_vec(b)?, indices.to_vec(b)?), (of_values.to_vec(b)?, of_indices.to_vec(b)?));
    let mut row = b.zeros(&[2, 1])?;
    b.sum_into(&x, &mut row, Axes::from(1).keep_dims())?;
    assert_eq!(row.to_vec(b)?, b.sum(&x, -1)?.to_vec(b)?);
    Ok(())
}

#[test]
fn a_state_is_updated_by_both() -> Result<()> {
    let b = &Cpu::new();
    let (x, weight) = (b.tensor(&[1, 1, 1], &[3.0f32])?, b.tensor(&[1, 2], &[10.0f32, 1.0])?);
    let mut states = [b.tensor(&[1, 1, 1], &[2.0f32])?, b.tensor(&[1, 1, 1], &[2.0f32])?];
    let mut y = b.zeros(&[1, 1, 1])?;
    let [first, second] = &mut states;
    b.conv1d_update_into(&x, &weight, None, first, &mut y, Conv1dUpdate::plain())?;
    let allocated = b.conv1d_update(&x, &weight, None, second, Conv1dUpdate::plain())?;
    assert_eq!((y.to_vec(b)?, allocated.to_vec(b)?), (vec![23.0], vec![23.0]));
    for state in states {
        assert_eq!(state.to_vec(b)?, [3.0]);
    }
    Ok(())
}

#[test]
fn both_methods_apply_the_rule() -> Result<()> {
    let b = &Cpu::new();
    let (x, weight) = (b.zeros::<f32>(&[2, 3])?, b.zeros::<f32>(&[2])?);
    let mut y = b.zeros(&[2, 3])?;
    let want = "rms_norm: weight has shape [2], expected [3]";
    for result in [
        b.rms_norm(&x, &weight, RmsNorm::eps(0.0)).map(drop),
        b.rms_norm_into(&x, &weight, &mut y, RmsNorm::eps(0.0)),
    ] {
        assert_eq!(result.unwrap_err().to_string(), want);
    }
    let short = b.rms_norm_into(&x, b.zeros::<f32>(&[3])?, b.zeros(&[2, 2])?, RmsNorm::eps(0.0));
    assert_eq!(short.unwrap_err().to_string(), "rms_norm: y has shape [2, 2], expected [2, 3]");
    let negative = b.rms_norm(&x, b.zeros::<f32>(&[3])?, RmsNorm::eps(-1.0));
    assert!(matches!(negative, Err(Error::Param { param: "eps", .. })));
    Ok(())
}

#[test]
fn rules_by_declared_extents_say_what_is_known() -> Result<()> {
    let b = &Cpu::new();
    let t = |dims: &[usize]| b.zeros::<f32>(dims);
    let told = |result: Result<()>| result.unwrap_err().to_string();
    // Nothing is known of the first operand, and `dv` is free.
    let first = b.l2_norm(t(&[])?, L2Norm::eps(0.0)).map(drop);
    assert_eq!(told(first), "l2_norm: x has shape [], expected [.., n]");
    let gates = (&t(&[1, 2, 3])?, &t(&[1, 2, 3])?);
    let v = b.gated_delta_rule(
        t(&[1, 2, 3, 4])?,
        t(&[1, 2, 3, 4])?,
        t(&[1, 2, 5, 6])?,
        gates,
        t(&[1, 3, 4, 6])?,
        GatedDeltaRule::new(),
    );
    assert_eq!(told(v.map(drop)), "gated_delta_rule: v has shape [1, 2, 5, 6], expected [1, 2, 3, dv]");
    let op = MatMul::OP;
    let (a, c) = (t(&[7, 2, 3])?, t(&[7, 2, 5])?);
    let (mut c, wrong) = (c, t(&[7, 4, 5])?);
    let args = args::matmul::Args { a: a.as_ref(), b: wrong.as_ref(), c: c.as_mut() };
    assert_eq!(told(b.run(&op, args)), "matmul: b has shape [7, 4, 5], expected [7, 3, n]");
    let norm = b.group_norm(t(&[4])?, None, None, GroupNorm::new(1, 0.0)).map(drop);
    assert_eq!(told(norm), "group_norm: x has shape [4], expected [b, c, ..]");
    Ok(())
}

/// A backend whose new tensors have one element too few.
#[derive(Clone)]
struct Short(Cpu);
impl Backend for Short {
    type Space = Host;
    type Event = ();
    fn name(&self) -> &'static str {
        "short"
    }
    fn alloc<T: Element>(&self, len: usize) -> Result<<Host as Space>::Buffer<T>> {
        self.0.alloc(len)
    }
    fn empty<T: Element>(&self, shape: impl IntoShape) -> Result<TensorOf<Self, T>> {
        let len = shape.into_shape()?.len() - 1;
        Tensor::new(self.alloc(len)?, Layout::contiguous(&[len])?)
    }
    fn read<T: Element>(&self, src: <Host as Space>::Ref<'_, T>, start: usize, dst: &mut [T]) -> Result<()> {
        self.0.read(src, start, dst)
    }
    fn write<T: Element>(&self, src: &[T], dst: <Host as Space>::Mut<'_, T>, start: usize) -> Result<()> {
        self.0.write(src, dst, start)
    }
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
    fn fork(&self) -> Result<Self> {
        Ok(self.clone())
    }
    fn mark(&self) -> Result<()> {
        Ok(())
    }
    fn wait(&self, (): &()) -> Result<()> {
        Ok(())
    }
}
/// Kernels that must not be reached.
macro_rules! unreached {
    ($($op:ty),+) => {$(
        impl Execute<$op> for Short {
            fn support(&self, _: &$op, _: &dyn Operands) -> Result<(), Reason> {
                Ok(())
            }
            fn execute(&self, _: Call<'_, '_, $op, Host>) -> Result<()> {
                panic!("the call has passed the checks")
            }
        }
    )+};
}
unreached!(L2Norm<f32>, GatedRmsNorm<f32>, SwigluClamped<f32>);

#[test]
fn what_a_backend_allocates_is_checked() -> Result<()> {
    let b = Short(Cpu::new());
    let x = b.tensor(&[4], &[1.0f32; 4])?;
    let error = b.l2_norm(&x, L2Norm::eps(0.0)).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "l2_norm: y has shape [3], expected [4]");
    Ok(())
}

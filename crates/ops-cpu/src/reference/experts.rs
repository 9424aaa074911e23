//! Products of tokens with the weights of their experts.
use super::Reference;
use super::quant::values;
use crate::host::raw::{Raw, RawMut, resolve};
use crate::{Host, Kernel};
use ops_core::ops::LinearExperts;
use ops_core::{Call, DType, Float, Op, Result};

fn linear_experts(
    name: &'static str,
    x: Raw<'_>,
    weight: Raw<'_>,
    ids: Raw<'_>,
    bias: Option<Raw<'_>>,
    mut y: RawMut<'_>,
) -> Result<()> {
    let [k, m] = [ids.dims()[1], x.dims()[1]];
    for (at, expert) in resolve(name, ids, weight.dims()[0])?.into_iter().enumerate() {
        let (i, j) = (at / k, at % k);
        let mut to = y.layout.narrow(0, i, 1)?.narrow(1, j, 1)?.positions();
        let Some(expert) = expert else {
            to.for_each(|p| y.set(p, 0.0));
            continue;
        };
        let row = x.gather(x.layout.narrow(0, i, 1)?.narrow(1, j.min(m - 1), 1)?.positions());
        let matrix = weight.layout.narrow(0, expert, 1)?;
        let bias = match bias {
            Some(bias) => bias.gather(bias.layout.narrow(0, expert, 1)?.positions()),
            None => vec![0.0; weight.dims()[1]],
        };
        for (o, bias) in bias.into_iter().enumerate() {
            let output = matrix.narrow(1, o, 1)?;
            let w = match weight.dtype {
                DType::Block(format) => values(format, weight, &output),
                _ => weight.gather(output.positions()),
            };
            let dot: f64 = row.iter().zip(&w).map(|(x, w)| x * w).sum();
            to.by_ref().take(1).for_each(|p| y.set(p, dot + bias));
        }
    }
    Ok(())
}

impl<T: Float> Kernel<LinearExperts<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, LinearExperts<T>, Host>) -> Result<()> {
        let name = call.op().name();
        let (_, a) = call.into_parts();
        let (x, weight, ids) = (Raw::of(&a.x), Raw::any(&a.weight), Raw::any(&a.ids));
        linear_experts(name, x, weight, ids, Raw::any_if(&a.bias), RawMut::of(&mut a.y))
    }
}

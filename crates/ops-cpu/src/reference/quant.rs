//! Quantized tensors.
use super::Reference;
use crate::host::raw::{Raw, RawMut, block_info};
use crate::{Host, Kernel};
use ops_core::ops::{Dequantize, Quantize};
use ops_core::{BlockInfo, Call, Error, Layout, Result};

/// Decodes the blocks of a view, in order.
pub(super) fn values(format: &BlockInfo, x: Raw<'_>, layout: &Layout) -> Vec<f64> {
    let mut block = vec![0.0; format.values()];
    let blocks = layout.positions().flat_map(|p| {
        format.decode(x.element(p), &mut block);
        block.iter().copied().map(f64::from).collect::<Vec<_>>()
    });
    blocks.collect()
}

fn quantize(x: Raw<'_>, mut y: RawMut<'_>) -> Result<()> {
    let format = block_info("quantize", y.dtype)?;
    let mut positions = x.layout.positions();
    for q in y.layout.positions() {
        let block: Vec<f32> = positions.by_ref().take(format.values()).map(|p| x.f64(p) as f32).collect();
        if !format.encode(&block, y.element(q)) {
            let status = format!("{} is read-only", format.name());
            return Err(Error::Device { backend: "reference", call: "quantize", status });
        }
    }
    Ok(())
}

impl Kernel<Quantize> for Reference {
    fn compute(&self, call: Call<'_, '_, Quantize, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        quantize(Raw::of(&a.x), RawMut::any(&mut a.y))
    }
}
impl Kernel<Dequantize> for Reference {
    fn compute(&self, call: Call<'_, '_, Dequantize, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        let (x, mut y) = (Raw::any(&a.x), RawMut::of(&mut a.y));
        y.scatter(y.layout.positions(), values(block_info("dequantize", x.dtype)?, x, &x.layout));
        Ok(())
    }
}

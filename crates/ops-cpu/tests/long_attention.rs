//! One query and many keys: the keys are split over threads.
use ops_core::combine::Checked;
use ops_core::ops::{Attention, AttentionMethods};
use ops_core::{Backend, Float, Result, f16};
use ops_cpu::{Cpu, Reference};

fn wave<T: Float>(n: usize, step: f64) -> Vec<T> {
    (0..n).map(|i| T::from_f64((i as f64 * step).sin())).collect()
}

fn decode<T: Float>(heads: usize, kv_heads: usize, t: usize, s: usize, d: usize) -> Result<Vec<f64>> {
    // `Checked` compares every op with the reference as it runs.
    let b = Checked::new(Cpu::new(), Reference::new());
    let q = b.tensor(&[1, heads, t, d], &wave::<T>(heads * t * d, 0.7))?;
    let k = b.tensor(&[1, kv_heads, s, d], &wave::<T>(kv_heads * s * d, 0.37))?;
    let v = b.tensor(&[1, kv_heads, s, d], &wave::<T>(kv_heads * s * d, 0.11))?;
    let o = b.attention(q.as_ref(), k.as_ref(), v.as_ref(), Attention::<T>::causal())?;
    Ok(o.buffer().iter().map(|v| v.to_f64()).collect())
}

#[test]
fn keys_in_pieces_give_the_whole() {
    for (heads, kv_heads, t, s, d) in [(4, 1, 1, 1500, 64), (8, 2, 1, 4097, 32), (2, 1, 3, 2100, 64)] {
        let o = decode::<f32>(heads, kv_heads, t, s, d).unwrap();
        assert!(o.iter().any(|v| *v != 0.0));
        decode::<f16>(heads, kv_heads, t, s, d).unwrap();
    }
}

//! Products with uploaded weights, and with those of experts.
use crate::compare::*;
use candle_core::DType;
use rocm_ops::backend::Tolerance;
use rocm_ops::ops::*;
use rocm_ops::prelude::{Cpu, Reference};
use rocm_ops::quant::Q4_0;

in_every_type! {
    fn linear<T>() {
        // Large enough to be packed.
        let (x, weight, bias) = (of::<T>(&[2, 3, 256], 1), of::<f32>(&[48, 256], 2), of::<T>(&[48], 3));
        let r = Reference::new();
        let want = r.linear_bias(ours::<T>(&x), ours::<f32>(&weight), &ours::<T>(&bias)).unwrap();
        let weight = if candle_has::<T>() { weight } else { weight.to_dtype(DType::F64).unwrap() };
        let (here, there) = (cpu().upload(&weight).unwrap(), copying().upload(&weight).unwrap());
        for (layout, x) in layouts(&x) {
            matches::<T>(&cpu().linear(&x, &here, Some(&bias)).unwrap(), &want, layout);
            matches::<T>(&copying().linear(&x, &there, Some(&bias)).unwrap(), &want, layout);
        }
        let turned = cpu().upload(&weight.t().unwrap().force_contiguous().unwrap().t().unwrap()).unwrap();
        matches::<T>(&cpu().linear(&x, &turned, Some(&bias)).unwrap(), &want, "weight transposed");
        let theirs = x.broadcast_matmul(&weight.to_dtype(x.dtype()).unwrap().t().unwrap()).unwrap();
        let theirs = theirs.broadcast_add(&bias).unwrap();
        // candle multiplies 16-bit types with a rounded weight.
        if x.dtype() == DType::F32 || x.dtype() == DType::F64 {
            matches_candle::<T>(&cpu().linear(&x, &here, Some(&bias)).unwrap(), &theirs, "candle");
        }
    }
}

in_every_type! {
    fn linear_experts<T>() {
        let (x, weight, bias) = (of::<T>(&[4, 2, 8], 1), of::<T>(&[3, 5, 8], 2), of::<T>(&[3, 5], 3));
        let ids = indices(&[4, 2], &[0, 2, 1, u32::MAX, 2, 2, 0, 1]);
        let want = Reference::new()
            .linear_experts(ours::<T>(&x), ours::<T>(&weight), ours::<u32>(&ids), &ours::<T>(&bias))
            .unwrap();
        let (here, there) = (cpu().upload(&weight).unwrap(), copying().upload(&weight).unwrap());
        for (layout, x) in layouts(&x) {
            matches::<T>(&cpu().linear_experts(&x, &here, &ids, Some(&bias)).unwrap(), &want, layout);
            matches::<T>(&copying().linear_experts(&x, &there, &ids, Some(&bias)).unwrap(), &want, layout);
        }
        // The same with candle: one matrix for each row.
        let ids = indices(&[4, 2], &[0, 2, 1, 1, 2, 2, 0, 1]);
        let chosen = weight.index_select(&ids.flatten_all().unwrap(), 0).unwrap();
        let rows = x.reshape((8, 1, 8)).unwrap();
        let theirs = rows.matmul(&chosen.t().unwrap()).unwrap().reshape((4, 2, 5)).unwrap();
        matches_candle::<T>(&cpu().linear_experts(&x, &here, &ids, None).unwrap(), &theirs, "candle");
        let none = of::<T>(&[0, 1, 8], 1);
        assert_eq!(cpu().linear_experts(&none, &here, &indices(&[0, 2], &[]), None).unwrap().dims(), [0, 2, 5]);
    }
}

/// A weight in blocks, of which each product rounds the activations.
#[test]
fn experts_in_blocks() {
    let (r, b) = (Reference::new(), Cpu::new());
    let blocks = b.quantize(ours::<f32>(&of::<f32>(&[96, 64], 2)), rocm_ops::DType::Block(&Q4_0)).unwrap();
    let weight = blocks.reshape([3, 32, 2]).unwrap();
    let (x, ids) = (of::<f32>(&[4, 1, 64], 1), indices(&[4, 2], &[0, 2, 1, 1, 2, 0, 0, 1]));
    let want = r.linear_experts(ours::<f32>(&x), &weight, ours::<u32>(&ids), None).unwrap();
    let within = Tolerance::Nmse { base: Q4_0.error_budget().any, rounding: 2.0 };
    let got = cpu().linear_experts(&x, &weight, &ids, None).unwrap();
    assert_close::<f32>(&got, &[4, 2, 32], &want.to_vec(&r).unwrap(), within, "blocks");
}

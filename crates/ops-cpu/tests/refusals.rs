//! Options and operands that an op must refuse, with messages that name the call.
use ops_core::model::KvCache;
use ops_core::ops::*;
use ops_core::{Backend, Error, TensorOf};
use ops_cpu::Cpu;

#[test]
fn a_norm_takes_no_eps_that_makes_its_root_nan() -> ops_core::Result<()> {
    let b = Cpu::new();
    let (x, weight) = (b.tensor(&[1, 2], &[1.0f32, 2.0])?, b.tensor(&[2], &[1.0f32, 1.0])?);
    for eps in [f64::NAN, -1e-9, f64::NEG_INFINITY] {
        let results = [
            ("rms_norm", b.rms_norm(&x, &weight, RmsNorm::eps(eps)).map(|_| ())),
            ("layer_norm", b.layer_norm(&x, None, None, LayerNorm::eps(eps)).map(|_| ())),
            ("add_rms_norm", b.add_rms_norm(&x, &x, &weight, AddRmsNorm::eps(eps)).map(|_| ())),
            ("group_norm", b.group_norm(&x, None, None, GroupNorm::new(1, eps)).map(|_| ())),
            ("l2_norm", b.l2_norm(&x, L2Norm::eps(eps)).map(|_| ())),
            ("gated_rms_norm", b.gated_rms_norm(&x, &x, &weight, GatedRmsNorm::eps(eps)).map(|_| ())),
        ];
        for (name, result) in results {
            let refused = matches!(result, Err(Error::Param { op, param: "eps", .. }) if op == name);
            assert!(refused, "{name} with eps {eps}: {result:?}");
        }
    }
    assert!(b.rms_norm(&x, &weight, RmsNorm::eps(-0.0)).is_ok());
    Ok(())
}

#[test]
fn messages_name_the_call() -> ops_core::Result<()> {
    let b = Cpu::new();
    let (table, ids) = (b.zeros::<f32>(&[2, 2])?, b.tensor(&[1, 1], &[0u32])?);
    let lookup: Result<TensorOf<Cpu, f32>, _> = b.embedding(&table, &ids);
    assert_eq!(lookup.unwrap_err().to_string(), "embedding: ids has shape [1, 1], expected [n]");
    let mut cache = KvCache::<_, f32>::new(&b, [1, 2, 4, 3])?;
    let (good, bad) = (b.zeros::<f32>(&[1, 2, 1, 3])?, b.zeros::<f32>(&[1, 1, 1, 3])?);
    let error = cache.append(&b, bad.as_ref(), good.as_ref()).unwrap_err().to_string();
    assert_eq!(error, "KvCache::append: keys has shape [1, 1, 1, 3], expected [1, 2, 1, 3]");
    let error = cache.append(&b, good.as_ref(), bad.as_ref()).unwrap_err().to_string();
    assert_eq!(error, "KvCache::append: values has shape [1, 1, 1, 3], expected [1, 2, 1, 3]");
    assert!(cache.is_empty());
    cache.append(&b, good.as_ref(), good.as_ref())
}

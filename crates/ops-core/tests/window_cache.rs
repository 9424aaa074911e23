//! `WindowCache` against a plain cache of the whole text: keys inside the window are the same.
use ops_core::model::{KvCache, WindowCache};
use ops_core::ops::*;
use ops_core::{Backend, Ref, TensorOf};
use ops_cpu::Cpu;
use proptest::prelude::*;

const HEADS: usize = 2;
const D: usize = 3;

/// Tokens `start..start + t` of a text, `[1, HEADS, t, D]`, from a seed.
fn rows(cpu: &Cpu, seed: usize, start: usize, t: usize) -> TensorOf<Cpu, f32> {
    let value = |i: usize| ((i * 7919 + seed * 104_729) % 1009) as f32 / 1009.0 - 0.5;
    let at = |head: usize, token: usize, i: usize| value((token * HEADS + head) * D + i);
    let all: Vec<f32> = (0..HEADS)
        .flat_map(|head| (start..start + t).flat_map(move |token| (0..D).map(move |i| at(head, token, i))))
        .collect();
    cpu.tensor(&[1, HEADS, t, D], &all).unwrap()
}

fn values(cpu: &Cpu, x: Ref<'_, Cpu, f32>) -> Vec<f32> {
    cpu.copy_of(x).unwrap().to_vec(cpu).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_window_sees_what_it_sees_of_the_whole_text(
        window in 1..9usize,
        most in 1..7usize,
        steps in prop::collection::vec((0..7usize, 0..6usize), 1..40),
        is_latent: bool,
    ) {
        let cpu = Cpu::new();
        let mut whole = KvCache::new(&cpu, [1, HEADS, 240, D]).unwrap();
        let mut cache = match is_latent {
            true => WindowCache::latent(&cpu, [1, HEADS, D], 2, window, most),
            false => WindowCache::new(&cpu, [1, HEADS, D], window, most),
        }
        .unwrap();
        for (step, (t, cut)) in steps.into_iter().enumerate() {
            let t = t.min(most);
            let len = whole.len();
            let (k, v) = (rows(&cpu, step, len, t), rows(&cpu, step + 99, len, t));
            whole.append(&cpu, k.as_ref(), v.as_ref()).unwrap();
            match is_latent {
                true => cache.append_keys(&cpu, k.as_ref()).unwrap(),
                false => cache.append(&cpu, k.as_ref(), v.as_ref()).unwrap(),
            }
            prop_assert_eq!(cache.len(), whole.len());
            if t > 0 {
                let kept = cache.kept();
                prop_assert_eq!(kept, (len + t).min(window - 1 + t).min(len + t));
                let last = |x: Ref<'_, Cpu, f32>| values(&cpu, x.narrow(2, len + t - kept, kept).unwrap());
                prop_assert_eq!(values(&cpu, cache.keys().unwrap()), last(whole.keys().unwrap()));
                let want = match is_latent {
                    true => last(whole.keys().unwrap().narrow(3, 0, 2).unwrap()),
                    false => last(whole.values().unwrap()),
                };
                prop_assert_eq!(values(&cpu, cache.values().unwrap()), want);
                // So attention over the kept tokens equals attention over all.
                if !is_latent {
                    let op = || Attention::causal().window(Some(window - 1), None);
                    let got = cpu.attention(&k, cache.keys().unwrap(), cache.values().unwrap(), op()).unwrap();
                    let want = cpu.attention(&k, whole.keys().unwrap(), whole.values().unwrap(), op()).unwrap();
                    let (got, want) = (got.to_vec(&cpu).unwrap(), want.to_vec(&cpu).unwrap());
                    prop_assert!(got.iter().zip(&want).all(|(g, w)| (g - w).abs() < 1e-6));
                }
            }
            // Only the last step's tokens, or all tokens, can be removed.
            let cut = cut.min(t);
            cache.truncate(len + t - cut).unwrap();
            whole.truncate(len + t - cut);
            if cut == 5 {
                cache.truncate(0).unwrap();
                whole.truncate(0);
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_an_error_and_changes_nothing() {
    let cpu = Cpu::new();
    assert!(WindowCache::<_, f32>::new(&cpu, [1, 1, 1], 0, 1).unwrap_err().to_string().contains("window"));
    assert!(WindowCache::<_, f32>::new(&cpu, [1, 1, 1], 1, 0).unwrap_err().to_string().contains("step"));
    assert!(WindowCache::<_, f32>::new(&cpu, [1, 1, 1], usize::MAX, usize::MAX).is_err());
    let mut cache = WindowCache::new(&cpu, [1, HEADS, D], 3, 2).unwrap();
    let (one, three) = (rows(&cpu, 0, 0, 1), rows(&cpu, 0, 0, 3));
    for _ in 0..5 {
        cache.append(&cpu, one.as_ref(), one.as_ref()).unwrap();
    }
    let error = cache.append(&cpu, three.as_ref(), three.as_ref()).unwrap_err().to_string();
    assert!(
        error.contains("WindowCache::append: keys") && error.contains("at most 2 tokens in a step"),
        "{error}"
    );
    assert!(cache.append_keys(&cpu, one.as_ref()).unwrap_err().to_string().contains("call append"));
    let error = cache.truncate(3).unwrap_err().to_string();
    assert!(error.contains("at least 4"), "{error}");
    assert_eq!((cache.len(), cache.kept()), (5, 3));
    cache.truncate(4).unwrap();
    assert_eq!((cache.len(), cache.kept()), (4, 2));
    assert!(cache.truncate(3).is_err(), "only one step is kept");
}

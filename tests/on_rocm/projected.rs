//! Projections that the kernels rotate and write to caches: by one product, or with the values by a product of their own.
use rocm_ops::model::{CacheRotation, KvCache, PagedCache, Projection};
use rocm_ops::ops::{CacheOps, NormedProduct, RopeOrder};
use rocm_ops::{Backend, Cpu, Rocm, TensorOf};
use standin_testing::with_standin;

const FEATURES: usize = 24;
const HEADS: [usize; 2] = [3, 2];
const D: usize = 8;
const TOKENS: usize = 5;

fn numbers<B: Backend>(b: &B, dims: &[usize], seed: usize) -> TensorOf<B, f32> {
    let n = dims.iter().product::<usize>();
    b.tensor(dims, &(0..n).map(|i| ((i * 37 + seed * 11) % 19) as f32 / 9.0 - 1.0).collect::<Vec<_>>())
        .unwrap()
}

/// Queries, and the keys and values that a cache holds after them.
type Step = (Vec<f32>, [Vec<f32>; 2]);

/// How a cache takes a projection, and what it holds afterwards.
trait Cache<B: Backend> {
    fn take(
        &mut self,
        b: &B,
        of: Projection<'_, B::Space, f32>,
        by: CacheRotation<'_, B::Space>,
    ) -> Option<TensorOf<B, f32>>;
    fn held(&self, b: &B) -> [Vec<f32>; 2];
}
impl<B: CacheOps<f32>> Cache<B> for KvCache<B::Space, f32> {
    fn take(
        &mut self,
        b: &B,
        of: Projection<'_, B::Space, f32>,
        by: CacheRotation<'_, B::Space>,
    ) -> Option<TensorOf<B, f32>> {
        let (before, n) = (self.len(), of.product.x.dims()[0]);
        let queries = self.append_projected(b, of, by).unwrap();
        assert_eq!(self.len(), before + if queries.is_some() { n } else { 0 });
        queries
    }
    fn held(&self, b: &B) -> [Vec<f32>; 2] {
        [self.keys().unwrap(), self.values().unwrap()].map(|of| of.to_vec(b).unwrap())
    }
}
impl<B: CacheOps<f32>> Cache<B> for PagedCache<B::Space, f32> {
    fn take(
        &mut self,
        b: &B,
        of: Projection<'_, B::Space, f32>,
        by: CacheRotation<'_, B::Space>,
    ) -> Option<TensorOf<B, f32>> {
        self.write_projected(b, of, by).unwrap()
    }
    fn held(&self, b: &B) -> [Vec<f32>; 2] {
        [self.keys().to_vec(b).unwrap(), self.values().unwrap().to_vec(b).unwrap()]
    }
}

/// The queries of the tokens `at`, and what the cache holds after them; `None` without a kernel.
fn taken<B: CacheOps<f32>, C: Cache<B>>(b: &B, cache: &mut C, at: &[u32], apart: bool) -> Option<Step> {
    let ([g, h], d, n) = (HEADS, D, at.len());
    let (x, norm) = (numbers(b, &[n, FEATURES], 1 + at[0] as usize), numbers(b, &[FEATURES], 2));
    let columns = (g + 2 * h) * d;
    let (weight, bias) = (numbers(b, &[columns, FEATURES], 3), numbers(b, &[columns], 4));
    let (cos, sin) = (numbers(b, &[TOKENS, d / 2], 5), numbers(b, &[TOKENS, d / 2], 6));
    let positions = b.tensor(&[n], at).unwrap();
    let rows = |from: usize, to: usize| NormedProduct {
        x: x.as_ref(),
        norm: norm.any(),
        weight: weight.any().narrow(0, from, to - from).unwrap(),
        bias: Some(bias.any().narrow(0, from, to - from).unwrap()),
    };
    let of_values = (g + h) * d;
    let product = rows(0, if apart { of_values } else { columns });
    let projection = Projection { product, values: apart.then(|| rows(of_values, columns)), eps: 1e-5 };
    let rotation = CacheRotation {
        cos: cos.any(),
        sin: sin.any(),
        positions: positions.any(),
        slots: positions.any(),
        order: RopeOrder::Half,
        norm: None,
    };
    let queries = cache.take(b, projection, rotation)?;
    assert_eq!(queries.dims(), [n, g, d]);
    Some((queries.to_vec(b).unwrap(), cache.held(b)))
}

/// Three tokens, then one.
fn steps<B: CacheOps<f32>, C: Cache<B>>(b: &B, cache: &mut C, apart: bool) -> Option<[Step; 2]> {
    Some([taken(b, cache, &[0, 1, 2], apart)?, taken(b, cache, &[3], apart)?])
}

#[test]
fn values_by_a_product_of_their_own_are_the_same() {
    with_standin("projected::values_by_a_product_of_their_own_are_the_same", &[], |_| {
        let (rocm, cpu, [_, h]) = (Rocm::new().unwrap(), Cpu::new(), HEADS);
        let joint = [false, true].map(|apart| {
            let mut text = KvCache::new(&rocm, [1, h, TOKENS, D]).unwrap();
            let mut pages = PagedCache::new(&rocm, [TOKENS, 1, h, D]).unwrap();
            let (of_text, of_pages) =
                (steps(&rocm, &mut text, apart).unwrap(), steps(&rocm, &mut pages, apart).unwrap());
            assert_eq!(
                of_text.each_ref().map(|(queries, _)| queries),
                of_pages.each_ref().map(|(queries, _)| queries)
            );
            (of_text, of_pages)
        });
        assert_eq!(joint[0], joint[1]);
        let [first, last] = &joint[0].0;
        assert!(first.0.iter().chain(&last.0).all(|v| *v != 0.0));
        let [keys, values] = &last.1;
        assert!(
            keys.len() == 4 * h * D && keys.iter().chain(values).all(|v| *v != 0.0),
            "four tokens are held"
        );

        // A backend without the kernel changes nothing.
        let mut text = KvCache::new(&cpu, [1, h, TOKENS, D]).unwrap();
        assert!(
            [false, true].iter().all(|apart| steps(&cpu, &mut text, *apart).is_none()) && text.is_empty()
        );
    });
}

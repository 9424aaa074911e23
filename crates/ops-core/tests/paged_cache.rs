//! `PagedCache` against a plain cache for each text: reads and attention give the same results.
use ops_core::model::{Blocks, PagedCache, Sequence};
use ops_core::ops::*;
use ops_core::{Backend, Error, Ref};
use ops_cpu::{Cpu, Host, Reference};
use proptest::prelude::*;

const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const D: usize = 6;
const DV: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    New,
    Append(Vec<(usize, usize)>),
    Fork(usize, usize),
    Truncate(usize, usize),
    Drop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let some = 0..6usize;
    let step = prop_oneof![
        2 => Just(Step::New),
        6 => prop::collection::vec((some.clone(), 0..7usize), 1..4).prop_map(Step::Append),
        3 => (some.clone(), 0..20usize).prop_map(|(i, n)| Step::Fork(i, n)),
        2 => (some.clone(), 0..20usize).prop_map(|(i, n)| Step::Truncate(i, n)),
        1 => some.prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 1..25)
}

/// A sequence, and the keys and values of its tokens: `KV_HEADS · D` numbers each.
struct Text {
    sequence: Sequence,
    keys: Vec<f32>,
    values: Vec<f32>,
}

const ROW: usize = KV_HEADS * D;

/// Numbers that are different for every call.
fn numbers(n: usize, seed: &mut u32) -> Vec<f32> {
    let mut next = || {
        *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (*seed >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..n).map(|_| next()).collect()
}

struct Pages {
    b: Cpu,
    blocks: Blocks,
    cache: PagedCache<Host, f32>,
    is_latent: bool,
    texts: Vec<Text>,
    seed: u32,
}

impl Pages {
    fn new(count: usize, size: usize, is_latent: bool) -> Self {
        let (b, dims) = (Cpu::new(), [count, size, KV_HEADS, D]);
        let cache = match is_latent {
            true => PagedCache::latent(&b, dims, DV),
            false => PagedCache::new(&b, dims),
        };
        let (cache, blocks) = (cache.unwrap(), Blocks::new(count, size).unwrap());
        Pages { b, blocks, cache, is_latent, texts: Vec::new(), seed: 1 }
    }

    fn append(&mut self, wanted: &[(usize, usize)]) -> Result<(), TestCaseError> {
        let Pages { b, blocks, cache, texts, seed, .. } = self;
        let count = |i: usize| wanted.iter().find(|(at, _)| *at == i).map(|(_, n)| *n);
        let (mut rows, mut stored) = (Vec::new(), Vec::new());
        for (i, Text { sequence, keys, values }) in texts.iter_mut().enumerate() {
            if let Some(n) = count(i) {
                rows.push((sequence, n));
                stored.push((n, keys, values));
            }
        }
        let slots = match blocks.append(&mut rows, |copies| cache.copy_blocks(b, copies)) {
            Ok(slots) => slots,
            Err(Error::OutOfBlocks { .. }) => return Ok(()),
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        };
        let (keys, values) = (numbers(slots.len() * ROW, seed), numbers(slots.len() * ROW, seed));
        let dims = [slots.len(), KV_HEADS, D];
        let (k, v) = (b.tensor(&dims, &keys).unwrap(), b.tensor(&dims, &values).unwrap());
        let at = b.tensor(&[slots.len()], &slots).unwrap();
        match self.is_latent {
            true => cache.write_keys(b, k.as_ref(), &at).unwrap(),
            false => cache.write(b, k.as_ref(), v.as_ref(), &at).unwrap(),
        }
        let mut from = 0;
        for (n, of_text, values_of_text) in stored {
            of_text.extend_from_slice(&keys[from * ROW..(from + n) * ROW]);
            values_of_text.extend_from_slice(&values[from * ROW..(from + n) * ROW]);
            from += n;
        }
        Ok(())
    }

    /// Reads every text through its blocks.
    fn check(&self) -> Result<(), TestCaseError> {
        let flat = |x: Ref<'_, Cpu, f32>| self.b.copy_of(x).unwrap().to_vec(&self.b).unwrap();
        let (keys, values) = (flat(self.cache.keys()), flat(self.cache.values().unwrap()));
        let size = self.blocks.size();
        for Text { sequence, keys: want, values: want_values } in &self.texts {
            for at in 0..sequence.len() {
                let slot = sequence.blocks()[at / size] as usize * size + at % size;
                let of = |all: &[f32], at: usize| all[at * ROW..(at + 1) * ROW].to_vec();
                prop_assert_eq!(of(&keys, slot), of(want, at));
                if self.is_latent {
                    let want: Vec<f32> =
                        of(want, at).chunks(D).flat_map(|head| head[..DV].to_vec()).collect();
                    prop_assert_eq!(&values[slot * KV_HEADS * DV..(slot + 1) * KV_HEADS * DV], want);
                } else {
                    prop_assert_eq!(of(&values, slot), of(want_values, at));
                }
            }
        }
        Ok(())
    }

    /// Attention over pages, for the last tokens of all texts, against attention over each text's keys.
    fn check_attention(&mut self) -> Result<(), TestCaseError> {
        let texts: Vec<&Text> = self.texts.iter().filter(|text| !text.sequence.is_empty()).collect();
        let (mut table, mut lengths, mut cu_q, mut queries) = (vec![], vec![], vec![0_u32], vec![]);
        let width = texts.iter().map(|text| text.sequence.blocks().len()).max().unwrap_or(0);
        for Text { sequence, .. } in &texts {
            table.extend_from_slice(sequence.blocks());
            table.resize(table.len() + width - sequence.blocks().len(), u32::MAX);
            lengths.push(sequence.len() as u32);
            queries.push(sequence.len().min(3));
            cu_q.push(cu_q[cu_q.len() - 1] + sequence.len().min(3) as u32);
        }
        let n = cu_q[texts.len()] as usize;
        let b = &self.b;
        let q = b.tensor(&[n, HEADS, D], &numbers(n * HEADS * D, &mut self.seed)).unwrap();
        let table = b.tensor(&[texts.len(), width], &table).unwrap();
        let (lengths, cu_q) =
            (b.tensor(&[texts.len()], &lengths).unwrap(), b.tensor(&[texts.len() + 1], &cu_q).unwrap());
        let (paging, extras) =
            (Paging { block_table: &table, lengths: &lengths, cu_q: &cu_q }, AttentionExtras::new());
        let (keys, values) = (self.cache.keys(), self.cache.values().unwrap());
        let got = b.attention_paged(&q, keys, values, paging, extras, Attention::causal()).unwrap();
        let mut at = 0;
        for (text, t) in texts.iter().zip(queries) {
            let dims = [1, text.sequence.len(), KV_HEADS, D];
            let (k, v) = (b.tensor(&dims, &text.keys).unwrap(), b.tensor(&dims, &text.values).unwrap());
            let v = if self.is_latent { k.as_ref().narrow(3, 0, DV).unwrap() } else { v.as_ref() };
            let q = q.as_ref().narrow(0, at, t).unwrap().unsqueeze(0).unwrap();
            let want = Reference::new();
            let want = want
                .attention(
                    q.transpose(1, 2).unwrap(),
                    k.transpose(1, 2).unwrap(),
                    v.transpose(1, 2).unwrap(),
                    Attention::<f32>::causal(),
                )
                .unwrap();
            let want = b.copy_of(want.transpose(1, 2).unwrap()).unwrap().to_vec(b).unwrap();
            let got = b.copy_of(got.as_ref().narrow(0, at, t).unwrap()).unwrap().to_vec(b).unwrap();
            prop_assert!(got.iter().zip(&want).all(|(g, w)| (g - w).abs() < 1e-5), "{:?} {:?}", got, want);
            at += t;
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn texts_read_what_was_written(count in 1..20usize, size in 1..6usize, is_latent: bool, steps in steps()) {
        let mut pages = Pages::new(count, size, is_latent);
        for step in steps {
            let there = pages.texts.len();
            let at = |i: usize| i % there.max(1);
            match step {
                Step::New => {
                    let sequence = pages.blocks.sequence();
                    pages.texts.push(Text { sequence, keys: Vec::new(), values: Vec::new() });
                }
                _ if there == 0 => {}
                Step::Append(wanted) => {
                    let wanted: Vec<_> = wanted.into_iter().map(|(i, n)| (at(i), n)).collect();
                    pages.append(&wanted)?;
                }
                Step::Fork(i, len) => {
                    let Text { sequence, keys, values } = &pages.texts[at(i)];
                    let numbers = len.min(sequence.len()) * ROW;
                    let (keys, values) = (keys[..numbers].to_vec(), values[..numbers].to_vec());
                    let sequence = sequence.fork(len);
                    pages.texts.push(Text { sequence, keys, values });
                }
                Step::Truncate(i, len) => {
                    let Text { sequence, keys, values } = &mut pages.texts[at(i)];
                    sequence.truncate(len);
                    keys.truncate(len * ROW);
                    values.truncate(len * ROW);
                }
                Step::Drop(i) => drop(pages.texts.swap_remove(at(i))),
            }
            pages.check()?;
        }
        pages.check_attention()?;
        pages.texts.clear();
        prop_assert_eq!(pages.blocks.free(), count);
    }
}

#[test]
fn what_a_cache_does_not_have_is_an_error() {
    let b = Cpu::new();
    let mut both = PagedCache::<_, f32>::new(&b, [2, 2, 1, 3]).unwrap();
    let mut latent = PagedCache::<_, f32>::latent(&b, [2, 2, 1, 3], 2).unwrap();
    let row = b.zeros::<f32>(&[1, 1, 3]).unwrap();
    let slot = |slot: u32| b.tensor(&[1], &[slot]).unwrap();
    let error = latent.write(&b, row.as_ref(), row.as_ref(), &slot(0)).unwrap_err().to_string();
    assert!(error.contains("write_keys"), "{error}");
    assert!(latent.slots_mut().is_err());
    let error = both.write_keys(&b, row.as_ref(), &slot(0)).unwrap_err().to_string();
    assert!(error.contains("separate values"), "{error}");
    let error = both.write(&b, row.as_ref(), row.as_ref(), &slot(4)).unwrap_err();
    assert!(matches!(error, Error::Index { index: 4, bound: 4, .. }), "{error}");
    both.write(&b, row.as_ref(), row.as_ref(), &slot(u32::MAX)).unwrap();
    let error = both.copy_blocks(&b, &[(0, 1), (1, 2)]).unwrap_err();
    assert!(matches!(error, Error::Index { position: 3, index: 2, bound: 2, .. }), "{error}");
    assert!(PagedCache::<_, f32>::latent(&b, [2, 2, 1, 3], 4).is_err());
    // No blocks at all.
    let mut none = PagedCache::<_, f32>::new(&b, [0, 2, 1, 3]).unwrap();
    none.copy_blocks(&b, &[]).unwrap();
    assert!(none.write(&b, row.as_ref(), row.as_ref(), &slot(0)).is_err());
}

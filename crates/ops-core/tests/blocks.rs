//! `Blocks` against plain lists: whatever is done to sequences, each reads back what was written to it.
use ops_core::Error;
use ops_core::model::{BlockCopy, Blocks, Sequence};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

/// One step. It chooses among the sequences that exist.
#[derive(Clone, Debug)]
enum Step {
    New,
    /// Appends a number of tokens to each of several sequences, in one call.
    Append(Vec<(usize, usize)>),
    /// An append whose copy fails.
    Fail(usize, usize),
    Fork(usize, usize),
    Truncate(usize, usize),
    Drop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let some = 0..8usize;
    let step = prop_oneof![
        2 => Just(Step::New),
        6 => prop::collection::vec((some.clone(), 0..9usize), 1..5).prop_map(Step::Append),
        1 => (some.clone(), 1..9usize).prop_map(|(i, n)| Step::Fail(i, n)),
        4 => (some.clone(), 0..24usize).prop_map(|(i, n)| Step::Fork(i, n)),
        2 => (some.clone(), 0..24usize).prop_map(|(i, n)| Step::Truncate(i, n)),
        2 => some.prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 1..60)
}

/// A sequence and what it must hold.
type Text = (Sequence, Vec<u64>);

/// Memory of one layer, with one number per token.
struct Memory {
    size: usize,
    slots: HashMap<u32, u64>,
    written: u64,
}

impl Memory {
    fn copy(&mut self, copies: &[(u32, u32)]) {
        for (from, to) in copies {
            for row in 0..self.size as u32 {
                let value = self.slots.get(&(from * self.size as u32 + row)).copied();
                value.map(|v| self.slots.insert(to * self.size as u32 + row, v));
            }
        }
    }
    fn read(&self, text: &Sequence) -> Vec<u64> {
        let slot = |at: usize| text.blocks()[at / self.size] * self.size as u32 + (at % self.size) as u32;
        (0..text.len()).map(|at| self.slots[&slot(at)]).collect()
    }
}

/// Appends to several sequences at once, or checks that blocks are missing and nothing has changed.
fn append(
    blocks: &Blocks,
    memory: &mut Memory,
    texts: &mut [Text],
    wanted: &[(usize, usize)],
) -> Result<(), TestCaseError> {
    let mut rows: Vec<(&mut Text, usize)> = Vec::new();
    for (i, text) in texts.iter_mut().enumerate() {
        if let Some((_, n)) = wanted.iter().find(|(at, _)| *at == i) {
            rows.push((text, *n));
        }
    }
    let needed = blocks.needed(rows.iter().map(|(text, n)| (&text.0, *n)));
    let free = blocks.free();
    let before: Vec<(Vec<u32>, usize)> =
        rows.iter().map(|(text, _)| (text.0.blocks().to_vec(), text.0.len())).collect();
    let mut sequences: Vec<(&mut Sequence, usize)> =
        rows.iter_mut().map(|(text, n)| (&mut text.0, *n)).collect();
    let copy = |copies: &[BlockCopy]| {
        memory.copy(copies);
        Ok(())
    };
    match blocks.append(&mut sequences, copy) {
        Ok(slots) => {
            prop_assert!(needed <= free);
            prop_assert_eq!(blocks.free(), free - needed);
            prop_assert_eq!(slots.iter().collect::<HashSet<_>>().len(), slots.len(), "slots are distinct");
            let mut slots = slots.into_iter();
            for (text, n) in rows {
                for slot in slots.by_ref().take(n) {
                    memory.written += 1;
                    memory.slots.insert(slot, memory.written);
                    text.1.push(memory.written);
                }
            }
            prop_assert_eq!(slots.next(), None);
        }
        Err(Error::OutOfBlocks { wanted, free: said, count }) => {
            prop_assert_eq!((wanted, said, count), (needed, free, blocks.count()));
            prop_assert!(needed > free);
            prop_assert_eq!(blocks.free(), free);
            for ((text, _), before) in rows.iter().zip(before) {
                prop_assert_eq!((text.0.blocks().to_vec(), text.0.len()), before);
            }
        }
        Err(other) => prop_assert!(false, "{}", other),
    }
    Ok(())
}

fn check(blocks: &Blocks, memory: &Memory, texts: &[Text]) -> Result<(), TestCaseError> {
    let mut holders: HashMap<u32, usize> = HashMap::new();
    for (text, want) in texts {
        prop_assert_eq!(&memory.read(text), want);
        prop_assert_eq!(text.blocks().len(), text.len().div_ceil(blocks.size()));
        text.blocks().iter().for_each(|block| *holders.entry(*block).or_default() += 1);
    }
    prop_assert!(holders.keys().all(|block| (*block as usize) < blocks.count()));
    prop_assert_eq!(blocks.free(), blocks.count() - holders.len());
    prop_assert_eq!(blocks.shared(), holders.values().filter(|n| **n > 1).count());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn sequences_hold_what_was_written(count in 0..24usize, size in 1..6usize, steps in steps()) {
        let blocks = Blocks::new(count, size).unwrap();
        let mut memory = Memory { size, slots: HashMap::new(), written: 0 };
        let mut texts: Vec<Text> = Vec::new();
        for step in steps {
            let at = |i: usize| i % texts.len().max(1);
            match step {
                Step::New => texts.push((blocks.sequence(), Vec::new())),
                _ if texts.is_empty() => {}
                Step::Append(wanted) => {
                    let wanted: Vec<_> = wanted.into_iter().map(|(i, n)| (at(i), n)).collect();
                    append(&blocks, &mut memory, &mut texts, &wanted)?;
                }
                Step::Fail(i, n) => {
                    let (i, free) = (at(i), blocks.free());
                    let before = (texts[i].0.blocks().to_vec(), texts[i].0.len());
                    let failed = || Err(Error::param("test", "copy", 0, "fails"));
                    prop_assert!(blocks.append(&mut [(&mut texts[i].0, n)], |_| failed()).is_err());
                    prop_assert_eq!((texts[i].0.blocks().to_vec(), texts[i].0.len()), before);
                    prop_assert_eq!(blocks.free(), free);
                }
                Step::Fork(i, len) => {
                    let (text, values) = &texts[at(i)];
                    let fork = (text.fork(len), values[..len.min(values.len())].to_vec());
                    texts.push(fork);
                }
                Step::Truncate(i, len) => {
                    let i = at(i);
                    texts[i].0.truncate(len);
                    texts[i].1.truncate(len);
                }
                Step::Drop(i) => drop(texts.swap_remove(at(i))),
            }
            check(&blocks, &memory, &texts)?;
        }
        drop(texts);
        prop_assert_eq!(blocks.free(), count);
    }
}

#[test]
fn absurd_budgets_are_errors_or_cost_nothing() {
    assert!(Blocks::new(1, 0).unwrap_err().to_string().contains("size"));
    assert!(Blocks::new(usize::MAX, 16).unwrap_err().to_string().contains("blocks of 16 tokens"));
    assert!(Blocks::new(1, usize::MAX).is_err());
    // The largest index of u32 means "none", so it is not a slot.
    assert!(Blocks::new(u32::MAX as usize + 1, 1).is_err());
    let blocks = Blocks::new(u32::MAX as usize, 1).unwrap();
    let mut text = blocks.sequence();
    assert_eq!(blocks.needed([(&text, usize::MAX)]), usize::MAX);
    assert!(matches!(
        blocks.append(&mut [(&mut text, usize::MAX)], |_| Ok(())),
        Err(Error::OutOfBlocks { wanted: usize::MAX, .. })
    ));
    assert_eq!(blocks.append(&mut [(&mut text, 2)], |_| Ok(())).unwrap(), [0, 1]);
}

#[test]
fn a_sequence_of_other_blocks_is_refused() {
    let (blocks, others) = (Blocks::new(4, 2).unwrap(), Blocks::new(4, 2).unwrap());
    let (mut text, mut stranger) = (blocks.sequence(), others.sequence());
    let error = blocks.append(&mut [(&mut text, 1), (&mut stranger, 1)], |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("of another cache"), "{error}");
    assert_eq!((blocks.free(), others.free(), text.len()), (4, 4, 0));
}

/// If two sequences write to the same shared block in one step, one takes a copy and the other keeps the
/// block.
#[test]
fn the_last_holder_of_a_block_keeps_it() {
    let blocks = Blocks::new(2, 4).unwrap();
    let mut one = blocks.sequence();
    blocks.append(&mut [(&mut one, 3)], |_| Ok(())).unwrap();
    let mut two = one.fork(3);
    assert_eq!((blocks.shared(), blocks.needed([(&one, 1), (&two, 1)])), (1, 1));
    let mut copied = Vec::new();
    let slots = blocks
        .append(&mut [(&mut one, 1), (&mut two, 1)], |copies| {
            copied.extend_from_slice(copies);
            Ok(())
        })
        .unwrap();
    assert_eq!((slots, copied), (vec![7, 3], vec![(0, 1)]));
    assert_eq!((one.blocks(), two.blocks(), blocks.free()), (&[1][..], &[0][..], 0));
}

#[test]
fn sequences_may_be_dropped_on_other_threads() {
    let blocks = Blocks::new(64, 4).unwrap();
    let mut text = blocks.sequence();
    blocks.append(&mut [(&mut text, 30)], |_| Ok(())).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (blocks, mut fork) = (blocks.clone(), text.fork(30));
            scope.spawn(move || {
                for n in 1..100 {
                    blocks.append(&mut [(&mut fork, n % 5)], |_| Ok(())).unwrap();
                    fork.truncate(30 - n % 7);
                }
            });
        }
    });
    assert_eq!((blocks.free(), blocks.shared(), text.len()), (56, 0, 30));
}

//! The memories of sequences against a plain account: who has one, and what each append says.
use ops_core::Error;
use ops_core::model::{Blocks, Sequence};
use proptest::prelude::*;
use std::collections::HashSet;

/// One step. It chooses among the sequences that exist.
#[derive(Clone, Debug)]
enum Step {
    New,
    Append(Vec<(usize, usize)>),
    Fork(usize, usize),
    Truncate(usize, usize),
    GiveBack(usize, usize),
    Drop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (some, len) = (0..8usize, 0..12usize);
    let step = prop_oneof![
        3 => Just(Step::New),
        6 => prop::collection::vec((some.clone(), 0..5usize), 1..5).prop_map(Step::Append),
        1 => (some.clone(), len.clone()).prop_map(|(i, n)| Step::Fork(i, n)),
        2 => (some.clone(), len.clone()).prop_map(|(i, n)| Step::Truncate(i, n)),
        1 => (some.clone(), len).prop_map(|(i, n)| Step::GiveBack(i, n)),
        2 => some.prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 1..60)
}

/// A sequence, and whether it has a memory.
type Text = (Sequence, bool);

fn append(
    blocks: &Blocks,
    memories: usize,
    texts: &mut [Text],
    wanted: &[(usize, usize)],
) -> Result<(), TestCaseError> {
    let mut rows: Vec<(&mut Text, usize)> = Vec::new();
    let held = texts.iter().filter(|(_, has)| *has).count();
    for (i, text) in texts.iter_mut().enumerate() {
        if let Some((_, n)) = wanted.iter().find(|(at, _)| *at == i) {
            rows.push((text, *n));
        }
    }
    let needs = |(text, n): &&(&mut Text, usize)| *n > 0 && !text.1;
    let lost = rows.iter().filter(needs).any(|(text, _)| !text.0.is_empty());
    let joining = rows.iter().filter(needs).count();
    let before: Vec<_> = rows.iter().map(|(text, _)| (text.0.len(), text.0.memory())).collect();
    let mut sequences: Vec<_> = rows.iter_mut().map(|(text, n)| (&mut text.0, *n)).collect();
    let refusal = match blocks.append(&mut sequences, |_| Ok(())) {
        Ok(_) => {
            prop_assert!(!lost && joining <= memories - held);
            rows.into_iter().for_each(|(text, n)| text.1 |= n > 0);
            return Ok(());
        }
        Err(error) => error,
    };
    match refusal {
        Error::Param { .. } => prop_assert!(lost),
        Error::OutOfMemories { wanted, free, count } => {
            prop_assert!(!lost && joining > memories - held);
            prop_assert_eq!((wanted, free, count), (joining, memories - held, memories));
        }
        other => prop_assert!(false, "{}", other),
    }
    for ((text, _), before) in rows.iter().zip(before) {
        prop_assert_eq!((text.0.len(), text.0.memory()), before);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_memory_has_one_sequence(memories in 0..5usize, steps in steps()) {
        let blocks = Blocks::with_memories(4000, 2, memories).unwrap();
        let mut texts: Vec<Text> = Vec::new();
        for step in steps {
            let at = |i: usize| i % texts.len().max(1);
            match step {
                Step::New => texts.push((blocks.sequence(), false)),
                _ if texts.is_empty() => {}
                Step::Append(wanted) => {
                    let wanted: Vec<_> = wanted.into_iter().map(|(i, n)| (at(i), n)).collect();
                    append(&blocks, memories, &mut texts, &wanted)?;
                }
                Step::Fork(i, len) => texts.push((texts[at(i)].0.fork(len), false)),
                Step::Truncate(i, len) => {
                    let i = at(i);
                    let (text, has) = &mut texts[i];
                    *has &= len >= text.len();
                    text.truncate(len);
                }
                Step::GiveBack(i, len) => {
                    let i = at(i);
                    let (text, has) = &mut texts[i];
                    text.give_back(len);
                    *has &= !text.is_empty();
                }
                Step::Drop(i) => drop(texts.swap_remove(at(i))),
            }
            let held: Vec<u32> = texts.iter().filter_map(|(text, _)| text.memory()).collect();
            prop_assert_eq!(held.len(), texts.iter().filter(|(_, has)| *has).count());
            prop_assert!(texts.iter().all(|(text, has)| text.memory().is_some() == *has));
            prop_assert!(held.iter().all(|memory| (*memory as usize) < memories));
            prop_assert_eq!(held.iter().collect::<HashSet<_>>().len(), held.len());
        }
    }
}

/// If the blocks do not suffice, no memory is taken.
#[test]
fn an_append_that_fails_takes_no_memory() {
    let blocks = Blocks::with_memories(2, 2, 1).unwrap();
    let mut text = blocks.sequence();
    assert!(blocks.append(&mut [(&mut text, 5)], |_| Ok(())).is_err());
    let failed = || Err(Error::param("test", "copy", 0, "fails"));
    assert!(blocks.append(&mut [(&mut text, 1)], |_| failed()).is_err());
    assert_eq!(text.memory(), None);
    blocks.append(&mut [(&mut text, 1)], |_| Ok(())).unwrap();
    assert_eq!(text.memory(), Some(0));
}

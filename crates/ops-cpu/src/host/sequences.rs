//! The sequences of an attention call: their rows of `q`, and where their keys are.
use super::raw::Raw;
use core::ops::Range;
use ops_core::{Error, Index, Result, with_type};

/// One sequence of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sequence {
    /// Its rows of `q` and `o`.
    pub(crate) queries: Range<usize>,
    /// Number of keys.
    pub(crate) keys: usize,
    /// The index in [`Sequences::table`] of its first block.
    first: usize,
    /// Number of rows in its first block before its first key.
    skip: usize,
}

/// The sequences of a call. Their keys are rows of blocks; a tensor of concatenated keys is a single block.
#[derive(Debug)]
pub(crate) struct Sequences {
    pub(crate) list: Vec<Sequence>,
    /// The blocks of all sequences, concatenated.
    table: Vec<usize>,
    /// Number of rows in a block.
    pub(crate) block: usize,
}

impl Sequences {
    /// Batch entries of `t` queries and `s` keys each. Rows of `q` are counted over all entries.
    pub(crate) fn batch(batch: usize, t: usize, s: usize) -> Result<Self> {
        let mut list = reserved(batch)?;
        list.extend((0..batch).map(|i| Sequence { queries: i * t..(i + 1) * t, keys: s, first: i, skip: 0 }));
        let mut table = reserved(batch)?;
        table.extend(0..batch);
        Ok(Sequences { list, table, block: s.max(1) })
    }

    /// Concatenated sequences, in a call on `n` queries and `m` keys. All entries of `cu_q` and `cu_k` are
    /// checked.
    pub(crate) fn varlen(
        op: &'static str,
        (cu_q, n): (Raw<'_>, usize),
        (cu_k, m): (Raw<'_>, usize),
    ) -> Result<Self> {
        let (queries, keys) = (starts(op, "cu_q", cu_q, n)?, starts(op, "cu_k", cu_k, m)?);
        let mut list = reserved(queries.len())?;
        list.extend(queries.windows(2).zip(keys.windows(2)).map(|(q, k)| Sequence {
            queries: q[0]..q[1],
            keys: k[1] - k[0],
            first: 0,
            skip: k[0],
        }));
        Ok(Sequences { list, table: vec![0], block: m.max(1) })
    }

    /// Sequences in `blocks` blocks of `block` keys, in a call on `n` queries. All entries in use are checked, and no others are
    /// read.
    pub(crate) fn paged(
        op: &'static str,
        [blocks, block]: [usize; 2],
        block_table: Raw<'_>,
        lengths: Raw<'_>,
        (cu_q, n): (Raw<'_>, usize),
    ) -> Result<Self> {
        let queries = starts(op, "cu_q", cu_q, n)?;
        let &[b, width] = block_table.dims() else {
            return Err(Error::shape(op, "block_table", &block_table.layout, "[b, width]"));
        };
        let (mut list, mut table) = (reserved(b)?, Vec::new());
        let (bound, blocks) =
            (width.saturating_mul(block).saturating_add(1), blocks.min(last_index(&block_table)));
        for (i, queries) in queries.windows(2).map(|q| q[0]..q[1]).enumerate() {
            let wrong = |index| Error::Index { op, operand: "lengths", position: i, index, bound };
            let keys = below(bound, &lengths, lengths.layout.position(&[i])).map_err(wrong)?;
            if keys < queries.len() {
                return Err(wrong(keys as i64));
            }
            list.push(Sequence { queries, keys, first: table.len(), skip: 0 });
            let used = keys.div_ceil(block);
            reserve(&mut table, used)?;
            for j in 0..used {
                let (operand, position) = ("block_table", i * width + j);
                let wrong = |index| Error::Index { op, operand, position, index, bound: blocks };
                table.push(below(blocks, &block_table, block_table.layout.position(&[i, j])).map_err(wrong)?);
            }
        }
        Ok(Sequences { list, table, block })
    }

    /// The block that holds key `j` of a sequence, and its row there.
    #[inline]
    pub(crate) fn place(&self, sequence: &Sequence, j: usize) -> [usize; 2] {
        let row = sequence.skip + j;
        [self.table[sequence.first + row / self.block], row % self.block]
    }

    /// The given keys of a sequence, in runs that each lie in one block: the block, the row of the first key,
    /// and the keys.
    pub(crate) fn runs(
        &self,
        sequence: &Sequence,
        keys: Range<usize>,
    ) -> impl Iterator<Item = ([usize; 2], Range<usize>)> {
        let mut next = keys.start;
        core::iter::from_fn(move || {
            let start = next;
            if start >= keys.end {
                return None;
            }
            let place = self.place(sequence, start);
            next = keys.end.min(start + (self.block - place[1]));
            Some((place, start..next))
        })
    }
}

/// The number at position `p`, or an error with it if it is not below `bound`.
#[inline]
fn below(bound: usize, ids: &Raw<'_>, p: usize) -> Result<usize, i64> {
    with_type!(indices, ids.dtype, I => {
        let id = ids.slice::<I>()[p].to_i64();
        usize::try_from(id).ok().filter(|id| *id < bound).ok_or(id)
    }, _ => no_index(ids))
}

/// One past the largest value of an index type that may be a block: the type's largest value never is.
fn last_index(ids: &Raw<'_>) -> usize {
    with_type!(indices, ids.dtype, I => usize::try_from(I::NONE.to_i64()).unwrap_or(usize::MAX), _ => no_index(ids))
}

#[cold]
fn no_index(ids: &Raw<'_>) -> ! {
    unreachable!("{} is not an index type, and the op's rule requires one", ids.dtype)
}

/// The entries of `cu`, which begin with 0, never fall, and end with `rows`.
fn starts(op: &'static str, operand: &'static str, cu: Raw<'_>, rows: usize) -> Result<Vec<usize>> {
    let (entries, data) = (cu.layout.len(), cu.slice::<u32>());
    let mut starts = reserved(entries)?;
    for (position, p) in cu.layout.positions().enumerate() {
        let index = data[p] as usize;
        let least = if position + 1 == entries { rows } else { starts.last().copied().unwrap_or(0) };
        let most = if position == 0 { 0 } else { rows };
        if !(least..=most).contains(&index) {
            return Err(Error::Index { op, operand, position, index: index as i64, bound: most + 1 });
        }
        starts.push(index);
    }
    Ok(starts)
}

/// Room for `len` more elements, or an error where `Vec` would abort.
fn reserve<T>(list: &mut Vec<T>, len: usize) -> Result<()> {
    list.try_reserve(len).map_err(|_| Error::OutOfMemory {
        backend: "cpu",
        bytes: len.saturating_mul(size_of::<T>()),
        detail: "the list of sequences".into(),
    })
}

fn reserved<T>(len: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    reserve(&mut list, len)?;
    Ok(list)
}

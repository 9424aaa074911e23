//! What one rank of a group computes of a model.
use super::{Config, HeadShape, Recurrent};
use crate::share::only;
use std::ops::Range;

impl Config {
    /// The configuration of a rank with these query heads and these key heads of recurrent layers, of which `regroups` says whether each
    /// is followed by its value heads.
    pub(crate) fn with_heads(&self, own: &Range<usize>, recurrent: &Range<usize>, regroups: bool) -> Config {
        let mut config = self.clone();
        config.heads = own.len();
        if self.latent.is_none() {
            config.kv_heads = self.kv_heads_for(own, self.kv_heads).len();
        }
        if let Some(HeadShape { kv_heads, .. }) =
            config.window.as_mut().and_then(|window| window.heads.as_mut())
        {
            *kv_heads = self.kv_heads_for(own, *kv_heads).len();
        }
        if let Some(plan) = &mut config.recurrent {
            plan.value_heads = plan.value_heads / plan.key_heads * recurrent.len();
            plan.key_heads = recurrent.len();
            plan.tiled &= !regroups;
        }
        config
    }

    /// The key heads, of `kv_heads` in all, that these query heads read: each is listed as often as it takes to have equally many query
    /// heads for every one.
    pub(crate) fn kv_heads_for(&self, own: &Range<usize>, kv_heads: usize) -> Vec<usize> {
        let group = (self.heads / kv_heads.max(1)).max(1);
        let readers = |kv: usize| own.end.min((kv + 1) * group).saturating_sub(own.start.max(kv * group));
        let read: Vec<usize> = (0..kv_heads).filter(|kv| readers(*kv) > 0).collect();
        let each = read.iter().map(|kv| readers(*kv)).fold(0, gcd).max(1);
        read.iter().flat_map(|kv| std::iter::repeat_n(*kv, readers(*kv) / each)).collect()
    }
}

/// Some key heads of a recurrent layer, with their value heads.
pub(crate) struct KeyHeads<'p> {
    /// Of the whole model.
    pub(crate) plan: &'p Recurrent,
    pub(crate) heads: Range<usize>,
    /// Whether these are all heads, as they are in the file. Otherwise value heads come in the order of their key heads.
    pub(crate) is_whole: bool,
}

impl Recurrent {
    /// Total widths of the queries (and of the keys, which is the same) and of the values.
    pub(crate) fn widths(&self) -> (usize, usize) {
        (self.key_heads * self.key_dim, self.value_heads * self.value_dim)
    }
}

impl KeyHeads<'_> {
    /// The places of the value heads of some of them, if each takes `width`.
    pub(crate) fn values(&self, heads: &Range<usize>, width: usize) -> Vec<Range<usize>> {
        let &Recurrent { key_heads, value_heads, tiled, .. } = self.plan;
        let served = value_heads / key_heads;
        if self.is_whole || !tiled {
            return only(heads.start * served * width..heads.end * served * width);
        }
        let values = heads.clone().flat_map(|key| (0..served).map(move |i| i * key_heads + key));
        values.map(|value| value * width..(value + 1) * width).collect()
    }
    /// The places of their queries, keys and values.
    pub(crate) fn mixed(&self) -> Vec<Range<usize>> {
        let (Range { start, end }, (keys, values)) = (self.heads.clone(), self.plan.widths());
        if self.is_whole {
            return only(0..2 * keys + values);
        }
        let key = self.plan.key_dim;
        let values = self.values(&self.heads, self.plan.value_dim).into_iter();
        let values = values.map(|range| 2 * keys + range.start..2 * keys + range.end);
        [start * key..end * key, keys + start * key..keys + end * key].into_iter().chain(values).collect()
    }
}

/// The greatest common divisor.
pub(crate) fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use crate::{Config, open};

    #[test]
    fn key_heads_are_copied_where_they_do_not_divide() {
        let model =
            open(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/families/llama-f16.gguf")).unwrap();
        let config = Config { heads: 12, ..Config::new(model.metadata()).unwrap() };
        for (own, kv_heads, want) in [
            (0..12, 4, vec![0, 1, 2, 3]),
            (3..6, 4, vec![1]),
            (4..5, 4, vec![1]),
            (0..6, 1, vec![0]),
            (0..4, 4, vec![0, 0, 0, 1]),
            (6..12, 3, vec![1, 2, 2]),
        ] {
            assert_eq!(config.kv_heads_for(&own, kv_heads), want, "{own:?} of 12 on {kv_heads}");
        }
    }
}

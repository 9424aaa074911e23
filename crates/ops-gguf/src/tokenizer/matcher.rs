//! Finds whole tokens in a text.

use std::ops::Range;

/// Finds the leftmost of several strings in a text; at the same position, the longest.
pub(super) struct Matcher {
    /// The strings with their ids, sorted by bytes. None is empty.
    texts: Vec<(Box<str>, u32)>,
    /// Whether any string starts with this byte.
    starts: Box<[bool; 256]>,
}

impl Matcher {
    pub(super) fn new(texts: impl Iterator<Item = (u32, String)>) -> Self {
        let mut texts: Vec<(Box<str>, u32)> =
            texts.filter(|(_, text)| !text.is_empty()).map(|(id, text)| (text.into(), id)).collect();
        texts.sort();
        texts.dedup_by(|later, first| later.0 == first.0);
        let mut starts = Box::new([false; 256]);
        texts.iter().for_each(|(text, _)| starts[usize::from(text.as_bytes()[0])] = true);
        Self { texts, starts }
    }

    /// Splits the text into the tokens found (`Some(id)`) and the text between them (`None`), in order.
    pub(super) fn split<'t>(
        &'t self,
        text: &'t str,
    ) -> impl Iterator<Item = (Range<usize>, Option<u32>)> + 't {
        let mut at = 0;
        let mut found = None;
        std::iter::from_fn(move || {
            if let Some(item) = found.take() {
                return Some(item);
            }
            let start = at;
            let next = if self.texts.is_empty() { None } else { self.find(text, start) };
            let (token, id) = match next {
                Some((range, id)) => (range, id),
                None if start < text.len() => {
                    at = text.len();
                    return Some((start..at, None));
                }
                None => return None,
            };
            at = token.end;
            if start == token.start {
                return Some((token, Some(id)));
            }
            let before = start..token.start;
            found = Some((token, Some(id)));
            Some((before, None))
        })
    }

    fn find(&self, text: &str, from: usize) -> Option<(Range<usize>, u32)> {
        let bytes = text.as_bytes();
        (from..bytes.len()).find_map(|start| {
            if !self.starts[usize::from(bytes[start])] {
                return None;
            }
            let (len, id) = self.longest_prefix(&bytes[start..])?;
            Some((start..start + len, id))
        })
    }

    /// The longest string that `bytes` starts with. The candidates are a range of the sorted strings, narrowed byte by byte;
    /// a string that ends here is the first in the range.
    fn longest_prefix(&self, bytes: &[u8]) -> Option<(usize, u32)> {
        let mut candidates = self.texts.as_slice();
        let mut best = None;
        for depth in 0.. {
            if let Some((text, id)) = candidates.first()
                && text.len() == depth
            {
                best = Some((depth, *id));
                candidates = &candidates[1..];
            }
            let Some(&byte) = bytes.get(depth) else { break };
            let next = |t: &(Box<str>, u32)| t.0.as_bytes().get(depth).copied();
            let low = candidates.partition_point(|t| next(t) < Some(byte));
            let high = candidates.partition_point(|t| next(t) <= Some(byte));
            candidates = &candidates[low..high];
            if candidates.is_empty() {
                break;
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut<'t>(texts: &[&str], text: &'t str) -> Vec<(&'t str, Option<u32>)> {
        let matcher = Matcher::new((0..).zip(texts.iter().map(|t| (*t).to_owned())));
        let split: Vec<_> = matcher.split(text).collect();
        split.into_iter().map(|(range, id)| (&text[range], id)).collect()
    }

    #[test]
    fn the_longest_of_the_leftmost() {
        let texts = ["<|", "<|end|>", "<|end|>x", "  ", "    ", "é", ""];
        assert_eq!(cut(&texts, "a<|end|>b"), [("a", None), ("<|end|>", Some(1)), ("b", None)]);
        assert_eq!(cut(&texts, "<|end|"), [("<|", Some(0)), ("end|", None)]);
        assert_eq!(cut(&texts, "<|end|>xé"), [("<|end|>x", Some(2)), ("é", Some(5))]);
        assert_eq!(cut(&texts, "       "), [("    ", Some(4)), ("  ", Some(3)), (" ", None)]);
        assert_eq!(cut(&texts, ""), []);
        assert_eq!(cut(&[], "plain"), [("plain", None)]);
        assert_eq!(cut(&["è"], "é"), [("é", None)]);
    }
}

//! The operands of an op in one line. The shapes of operands that were not given follow from it, as do the
//! axes along which a problem may be cut.
//!
//! `x[..,n] weight[n] bias?[n] -> y[..,n]` reads: `x` has any number of axes and then one of extent `n`;
//! `weight` has the same extent; `bias` is optional and present only if its shape is given; `y` is written.
//! `d/2` is half of `d`; `k/B` is `k` divided by the values in a block. `s:t` is `s`, which defaults to the
//! extent `t` (or to a number).
use std::collections::BTreeMap;

/// The operands of an op.
pub(crate) struct Contract {
    text: &'static str,
    operands: Vec<Operand>,
}

/// One operand.
pub(crate) struct Operand {
    /// Its name.
    pub(crate) name: &'static str,
    /// Whether it is absent unless its shape is given.
    pub(crate) optional: bool,
    /// Whether it is written, so that the op determines its shape.
    pub(crate) output: bool,
    /// Its extents in the contract's notation.
    pub(crate) extents: &'static str,
    terms: Vec<Term>,
}

#[derive(Clone, Copy)]
enum Term {
    /// Any number of axes.
    Dots,
    /// One axis: a symbol, optionally divided, optionally with a default.
    Extent { symbol: &'static str, over: Option<&'static str>, default: Option<&'static str> },
}

/// Extents known so far.
struct Known {
    symbols: BTreeMap<&'static str, usize>,
    dots: Vec<usize>,
    block: usize,
}

impl Contract {
    /// Parses the notation described above.
    pub(crate) fn parse(text: &'static str) -> Self {
        let (inputs, outputs) = text.split_once("->").unwrap_or((text, ""));
        let operands = |list: &'static str, output| {
            list.split_whitespace().filter_map(move |text| Operand::parse(text, output))
        };
        Contract { text, operands: operands(inputs, false).chain(operands(outputs, true)).collect() }
    }

    /// The contract in its notation.
    pub(crate) fn text(&self) -> &'static str {
        self.text
    }
    /// All operands, outputs last.
    pub(crate) fn operands(&self) -> &[Operand] {
        &self.operands
    }
    /// The operands whose shapes may be given.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Operand> {
        self.operands.iter().filter(|o| !o.output)
    }

    /// The shapes of all inputs: those given, and those that follow from them.
    ///
    /// # Errors
    /// A given shape has the wrong number of axes, or a shape does not follow from those given.
    pub(crate) fn shapes(
        &self,
        given: &BTreeMap<String, Vec<usize>>,
        block: usize,
    ) -> Result<Vec<(&'static str, Vec<usize>)>, String> {
        let mut known = Known { symbols: BTreeMap::new(), dots: Vec::new(), block };
        let mut shapes = Vec::new();
        for operand in self.inputs() {
            let dims = match given.get(operand.name) {
                Some(dims) => {
                    known.learn(operand, dims)?;
                    dims.clone()
                }
                None if operand.optional => continue,
                None => known.derive(operand)?,
            };
            shapes.push((operand.name, dims));
        }
        Ok(shapes)
    }

    /// The axis of an operand with this symbol; `..` means the outermost of any number of axes.
    pub(crate) fn axis(&self, name: &str, symbol: &str, rank: usize) -> Option<usize> {
        let terms = &self.operands.iter().find(|o| o.name == name)?.terms;
        let dots = rank.checked_sub(terms.iter().filter(|t| !matches!(t, Term::Dots)).count())?;
        let mut axis = 0;
        for term in terms {
            match term {
                Term::Dots if symbol == ".." => return (dots > 0).then_some(axis),
                Term::Dots => axis += dots,
                Term::Extent { symbol: s, over: None, .. } if *s == symbol => return Some(axis),
                Term::Extent { .. } => axis += 1,
            }
        }
        None
    }
}

impl Operand {
    fn parse(text: &'static str, output: bool) -> Option<Self> {
        let (name, extents) = text.strip_suffix(']')?.split_once('[')?;
        let terms = extents.split(',').filter(|t| !t.is_empty()).map(Term::parse).collect();
        let optional = name.ends_with('?');
        Some(Operand { name: name.trim_end_matches('?'), optional, output, extents, terms })
    }
}

impl Term {
    fn parse(text: &'static str) -> Self {
        if text == ".." {
            return Term::Dots;
        }
        let (text, default) = text.split_once(':').map_or((text, None), |(t, d)| (t, Some(d)));
        let (symbol, over) = text.split_once('/').map_or((text, None), |(s, o)| (s, Some(o)));
        Term::Extent { symbol, over, default }
    }
}

impl Known {
    /// Records the extents of a given shape, unless they are known already. The op's own rule reports contradictions, with a
    /// better message.
    fn learn(&mut self, operand: &Operand, dims: &[usize]) -> Result<(), String> {
        let fixed = operand.terms.iter().filter(|t| !matches!(t, Term::Dots)).count();
        let dots = dims.len().checked_sub(fixed).filter(|n| *n == 0 || fixed < operand.terms.len());
        let Some(dots) = dots else {
            let (name, extents) = (operand.name, operand.extents);
            return Err(format!("{name} has shape {dims:?}, expected [{extents}]"));
        };
        let mut rest = dims;
        for term in &operand.terms {
            let (here, after) = rest.split_at(if matches!(term, Term::Dots) { dots } else { 1 });
            rest = after;
            match term {
                Term::Dots if self.dots.is_empty() => self.dots = here.to_vec(),
                Term::Extent { symbol, over: None, .. } => {
                    self.symbols.entry(symbol).or_insert(here[0]);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn derive(&mut self, operand: &Operand) -> Result<Vec<usize>, String> {
        let mut dims = Vec::new();
        for term in &operand.terms {
            let Term::Extent { symbol, over, default } = *term else {
                dims.extend(&self.dots);
                continue;
            };
            let default = || default.and_then(|d| self.value(d));
            let Some(extent) = self.value(symbol).or_else(default) else {
                let (name, extents) = (operand.name, operand.extents);
                return Err(format!(
                    "the shape of {name}, [{extents}], does not follow: give --shape {name}=..."
                ));
            };
            self.symbols.entry(symbol).or_insert(extent);
            dims.push(extent / over.and_then(|o| self.value(o)).unwrap_or(1).max(1));
        }
        Ok(dims)
    }

    fn value(&self, text: &str) -> Option<usize> {
        if text == "B" {
            return Some(self.block);
        }
        text.parse().ok().or_else(|| self.symbols.get(text).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(
        text: &'static str,
        given: &[(&str, &[usize])],
    ) -> Result<Vec<(&'static str, Vec<usize>)>, String> {
        let given = given.iter().map(|(n, d)| (n.to_string(), d.to_vec())).collect();
        Contract::parse(text).shapes(&given, 32)
    }

    #[test]
    fn shapes_follow_from_the_first_operand() {
        let norm = "x[..,n] weight[n] bias?[n] -> y[..,n]";
        assert_eq!(shapes(norm, &[("x", &[2, 3, 8])]).unwrap()[1..], [("weight", vec![8])]);
        assert_eq!(shapes(norm, &[("x", &[8]), ("bias", &[8])]).unwrap().len(), 3);
        let linear = "x[..,k] weight[n:k,k/B] -> y[..,n]";
        assert_eq!(shapes(linear, &[("x", &[1, 4096])]).unwrap()[1].1, [4096, 128]);
        assert_eq!(shapes("x[r,..] ids[n:7] -> y[n,..]", &[("x", &[5, 2])]).unwrap()[1].1, [7]);
    }

    #[test]
    fn given_shapes_carry_on() {
        let attention = "q[b,h,t,d] k[b,g:h,s:t,d] v[b,g,s,d] -> o[b,h,t,d]";
        let alone = shapes(attention, &[("q", &[1, 32, 5, 128])]).unwrap();
        assert_eq!(alone[2], ("v", vec![1, 32, 5, 128]));
        let grouped = shapes(attention, &[("q", &[1, 32, 1, 128]), ("k", &[1, 8, 4096, 128])]).unwrap();
        assert_eq!(grouped[2], ("v", vec![1, 8, 4096, 128]));
    }

    #[test]
    fn wrong_ranks_are_told_with_what_was_expected() {
        let e = shapes("x[b,h,t,d] cos[t,d/2]", &[("x", &[4, 4])]).unwrap_err();
        assert_eq!(e, "x has shape [4, 4], expected [b,h,t,d]");
        assert!(shapes("x[..,n] weight[n]", &[("x", &[])]).is_err());
    }

    #[test]
    fn axes_are_found_by_symbol() {
        let c = Contract::parse("a[..,m,k] b[..,k,n:k] -> c[..,m,n]");
        assert_eq!(c.axis("a", "m", 4), Some(2));
        assert_eq!(c.axis("c", "m", 2), Some(0));
        assert_eq!(c.axis("b", "m", 2), None);
        assert_eq!(c.axis("a", "..", 2), None, "there are no more axes");
        assert_eq!(c.axis("a", "..", 3), Some(0));
    }
}

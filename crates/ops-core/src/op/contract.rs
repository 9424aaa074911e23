//! Extents of operands as they are declared, and the shape rule that follows from them.
//!
//! `x: in T [.., n], weight: in any(floats) [n], y: out T [.., n]` says that `x` has any number of axes and then one
//! of extent `n`, that `weight` has the same extent, and that `y` has the shape of `x`. The texts are parsed at
//! compile time, so that a call compares numbers only.
use crate::{DType, Error, Layout, MAX_RANK, OperandSlot, Result, Role, Shape, Signature};

/// Largest number of operands that an op with a contract may have.
const MAX_OPERANDS: usize = 12;
/// Largest number of different extents in a contract.
const MAX_SYMBOLS: usize = 8;
/// `..`: any number of axes, the same ones for all operands.
const DOTS: u8 = u8::MAX;

/// The declared extents of an op's operands: [`DOTS`] or the number of a symbol, for each axis.
struct Contract {
    operands: [Extents; MAX_OPERANDS],
}

#[derive(Clone, Copy)]
struct Extents {
    list: [u8; MAX_RANK + 1],
    len: usize,
    /// Whether the extents are those of the first operand.
    like_first: bool,
}

impl Extents {
    fn list(&self) -> &[u8] {
        &self.list[..self.len]
    }
}

impl Contract {
    /// Parses the declarations.
    const fn of(slots: &[OperandSlot]) -> Self {
        let none = Extents { list: [0; MAX_RANK + 1], len: 0, like_first: false };
        let mut contract = Contract { operands: [none; MAX_OPERANDS] };
        let (mut symbols, mut known): ([&[u8]; MAX_SYMBOLS], usize) = ([b""; MAX_SYMBOLS], 0);
        let mut at = 0;
        while at < slots.len() {
            let Some(text) = slots[at].extents else {
                panic!("declare the extents of every operand, or write the shape rule `infer`");
            };
            let (mut list, mut len, mut rest) = (none.list, 0, text.as_bytes().trim_ascii());
            while !rest.is_empty() {
                let (word, after) = next_word(rest);
                rest = after;
                list[len] = if equal(word, b"..") { DOTS } else { number(&mut symbols, &mut known, word) };
                len += 1;
            }
            let like_first = at > 0
                && equal(
                    list.split_at(len).0,
                    contract.operands[0].list.split_at(contract.operands[0].len).0,
                );
            contract.operands[at] = Extents { list, len, like_first };
            at += 1;
        }
        contract
    }
}

/// The text before the first comma, and the text after it.
const fn next_word(text: &[u8]) -> (&[u8], &[u8]) {
    let mut end = 0;
    while end < text.len() && text[end] != b',' {
        end += 1;
    }
    let (word, rest) = text.split_at(end);
    (word.trim_ascii(), rest.split_at(if rest.is_empty() { 0 } else { 1 }).1.trim_ascii())
}

/// The number of a symbol, which is added if it is new.
const fn number<'t>(symbols: &mut [&'t [u8]; MAX_SYMBOLS], known: &mut usize, word: &'t [u8]) -> u8 {
    let mut at = 0;
    while at < *known {
        if equal(symbols[at], word) {
            return at as u8;
        }
        at += 1;
    }
    at = 0;
    while at < word.len() {
        assert!(
            word[at].is_ascii_alphanumeric() || word[at] == b'_',
            "only `infer` can express such an extent"
        );
        at += 1;
    }
    symbols[*known] = word;
    *known += 1;
    (*known - 1) as u8
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// The shape rule that the declared extents and types of `O`'s operands amount to.
///
/// # Errors
/// [`Error::Shape`] or [`Error::DType`] for the first operand that breaks it.
#[inline]
pub(super) fn infer<O: Signature>(op: &'static str, on: &O::Shapes<'_>) -> Result<O::Outputs> {
    let contract = const { &Contract::of(O::SLOTS) };
    let mut known = Known { op, contract, first: None, symbols: [0; MAX_SYMBOLS], bound: 0, dots: None };
    O::for_each_shape(on, |place, layout, dtype| known.operand(place, &O::SLOTS[place], layout, dtype))?;
    let mut outputs = O::Outputs::default();
    let mut rest = outputs.as_mut().iter_mut();
    for (place, slot) in O::SLOTS.iter().enumerate() {
        if slot.role == Role::Out
            && let Some(shape) = rest.next()
        {
            *shape = match known.first {
                Some(first) if contract.operands[place].like_first => first.shape(),
                _ => known.shape(place)?,
            };
        }
    }
    Ok(outputs)
}

/// The extents of the operands seen so far.
struct Known<'s> {
    op: &'static str,
    contract: &'static Contract,
    first: Option<&'s Layout>,
    symbols: [usize; MAX_SYMBOLS],
    /// A bit for each symbol that has an extent.
    bound: u32,
    dots: Option<&'s [usize]>,
}

impl<'s> Known<'s> {
    fn operand(&mut self, place: usize, slot: &OperandSlot, layout: &'s Layout, dtype: DType) -> Result<()> {
        if let Some(types) = slot.types {
            let (allowed, want) = types.requirement();
            if !allowed(dtype) {
                return Err(Error::DType { op: self.op, operand: slot.name, got: dtype, want });
            }
        }
        let declared = &self.contract.operands[place];
        let before = (self.bound, self.dots);
        let fits = match self.first {
            Some(first) if declared.like_first => layout.dims().iter().eq(first.dims()),
            _ => self.fits(declared.list(), layout.dims()),
        };
        if place == 0 {
            self.first = Some(layout);
        }
        if fits {
            return Ok(());
        }
        (self.bound, self.dots) = before;
        Err(self.refusal(place, slot, layout))
    }

    /// Whether these are the declared extents. Records those that are new.
    fn fits(&mut self, declared: &[u8], mut dims: &'s [usize]) -> bool {
        for (at, term) in declared.iter().enumerate() {
            if *term == DOTS {
                let Some(axes) = dims.len().checked_sub(declared.len() - at - 1) else { return false };
                let (outer, rest) = dims.split_at(axes);
                match self.dots {
                    None => self.dots = Some(outer),
                    Some(dots) if !dots.iter().eq(outer) => return false,
                    Some(_) => {}
                }
                dims = rest;
                continue;
            }
            let Some((extent, rest)) = dims.split_first() else { return false };
            let symbol = usize::from(*term);
            if self.bound & 1 << symbol == 0 {
                (self.symbols[symbol], self.bound) = (*extent, self.bound | 1 << symbol);
            }
            if self.symbols[symbol] != *extent {
                return false;
            }
            dims = rest;
        }
        dims.is_empty()
    }

    /// The error for an operand that does not fit: the extents in numbers as far as they are known.
    #[cold]
    #[inline(never)]
    fn refusal(&self, place: usize, slot: &OperandSlot, layout: &Layout) -> Error {
        let words = slot.extents.unwrap_or_default().split(',');
        let known = self.contract.operands[place].list().iter().zip(words).map(|(term, word)| match *term {
            DOTS => {
                self.dots.map_or_else(|| vec!["..".to_owned()], |d| d.iter().map(usize::to_string).collect())
            }
            symbol if self.bound & 1 << symbol == 0 => vec![word.trim().to_owned()],
            symbol => vec![self.symbols[usize::from(symbol)].to_string()],
        });
        Error::shape(
            self.op,
            slot.name,
            layout,
            format!("[{}]", known.flatten().collect::<Vec<_>>().join(", ")),
        )
    }

    /// The shape of an output.
    fn shape(&self, place: usize) -> Result<Shape> {
        let (mut dims, mut rank) = ([0; MAX_RANK], 0);
        let too_many = |got| Error::Rank { got, max: MAX_RANK };
        for term in self.contract.operands[place].list() {
            let extents = match *term {
                DOTS => self.dots.unwrap_or_default(),
                symbol => core::slice::from_ref(&self.symbols[usize::from(symbol)]),
            };
            let end = rank + extents.len();
            dims.get_mut(rank..end).ok_or_else(|| too_many(end))?.copy_from_slice(extents);
            rank = end;
        }
        Shape::new(&dims[..rank])
    }
}

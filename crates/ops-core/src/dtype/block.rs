//! Block formats as values.
use crate::Element;
use core::cmp::Ordering;
use core::fmt::{self, Debug};
use core::hash::{Hash, Hasher};

/// A block of values that are stored together.
pub trait Block: Element {
    /// Number of values in a block.
    const LEN: usize;
    /// Decodes the block into the first [`LEN`](Block::LEN) elements of `values`.
    fn dequantize(&self, values: &mut [f32]);
}

/// A block that values can be quantized to. Some formats are read-only.
pub trait Encode: Block {
    /// Encodes the first [`LEN`](Block::LEN) values of `values`. Values beyond the end count as 0.
    ///
    /// q4_0, q4_1, q5_0, q5_1, q8_0 and mxfp4 are encoded bit for bit like the public reference. The other formats leave a choice
    /// of scales, which is made by least squares.
    fn quantize(values: &[f32]) -> Self;
}

/// Encodes values to the bytes of a block.
type EncodeFn = fn(&[f32], &mut [u8]);

/// How far products with a weight in a block format may be from exact, as data.
///
/// Numbers are NMSE against the product in f64 with the decoded weight: blocks themselves add no error. Rounding of the result to
/// its type comes on top.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ErrorBudget {
    /// With unmodified activations and f32 sums.
    pub floats: f64,
    /// With normally distributed activations rounded to 8 bits in blocks of 32, and a weight that is rounded
    /// too unless its format is [exact in bytes](BlockInfo::exact_in_bytes). The suite checks this.
    pub bytes: f64,
    /// The same with outliers among the activations: the mean square may be a hundredth of the largest
    /// square. [`Linear`](crate::ops::Linear) uses this as its tolerance.
    pub any: f64,
}

/// A block format as a value: everything that core, the reference and the combinators need to know about it.
///
/// A format is one `static` of this type, its row, and one [`Block`]. No trait, bound or `match` of this crate names a format.
/// The constructors take sizes from the block type, so the numbers always match it.
///
/// ```
/// use rocm_ops::{DType, quant::BlockQ8_0};
///
/// let DType::Block(info) = DType::of::<BlockQ8_0>() else { unreachable!("a block format") };
/// assert_eq!((info.name(), info.values(), info.bytes()), ("q8_0", 32, 34));
/// ```
pub struct BlockInfo {
    pub(super) name: &'static str,
    pub(super) values: usize,
    pub(super) bytes: usize,
    pub(super) align: usize,
    decode: fn(&[u8], &mut [f32]),
    encode: Option<EncodeFn>,
    exact_in_bytes: bool,
    /// Of a format of this crate: its place in the list, and GGML's number.
    listed: Option<(u8, u32)>,
}

impl BlockInfo {
    /// Describes the format of `Q`, with this name.
    pub const fn of<Q: Encode>(name: &'static str) -> Self {
        let encode: EncodeFn =
            |values, bytes| bytes.copy_from_slice(bytemuck::bytes_of(&Q::quantize(values)));
        BlockInfo { encode: Some(encode), ..Self::read_only::<Q>(name) }
    }
    /// Describes the format of `Q`, with this name. Values cannot be quantized to it.
    pub const fn read_only<Q: Block>(name: &'static str) -> Self {
        const { assert!(Q::LEN > 0 && size_of::<Q>() > 0, "a block has no values or no bytes") }
        BlockInfo {
            name,
            values: Q::LEN,
            bytes: size_of::<Q>(),
            align: align_of::<Q>(),
            decode: |bytes, values| bytemuck::pod_read_unaligned::<Q>(bytes).dequantize(values),
            encode: None,
            exact_in_bytes: false,
            listed: None,
        }
    }
    /// A format of this crate, at this place in its list, with GGML's number.
    pub(crate) const fn listed(self, index: u8, ggml: u32) -> Self {
        BlockInfo { listed: Some((index, ggml)), ..self }
    }
    /// Declares that each code fits a byte, after multiplication by the integer scale of its group if the
    /// group has fewer than 32 values. Products in bytes then need not round the weight.
    pub const fn exact_in_bytes(self) -> Self {
        BlockInfo { exact_in_bytes: true, ..self }
    }
    /// The allowed error of products with a weight of this format.
    pub const fn error_budget(&self) -> ErrorBudget {
        let bytes = if self.exact_in_bytes { 6e-5 } else { 8e-5 };
        ErrorBudget { floats: 1e-10, bytes, any: 5e-4 }
    }
    /// The name in commands, files and messages: `"q8_0"`.
    pub const fn name(&self) -> &'static str {
        self.name
    }
    /// The format's place in [`FORMATS`](crate::quant::FORMATS): backends keep what they have for a format in tables with this index.
    /// `None` for formats of other crates.
    pub const fn index(&self) -> Option<usize> {
        match self.listed {
            Some((index, _)) => Some(index as usize),
            None => None,
        }
    }
    /// GGML's number, by which files identify the format. `None` for formats of other crates.
    pub const fn ggml(&self) -> Option<u32> {
        match self.listed {
            Some((_, number)) => Some(number),
            None => None,
        }
    }
    /// Number of values in a block; never 0.
    pub const fn values(&self) -> usize {
        self.values
    }
    /// Size of a block in bytes; never 0.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
    /// Alignment of a block in bytes.
    pub const fn align(&self) -> usize {
        self.align
    }
    /// Decodes `block` into the first [`values`](BlockInfo::values) elements of `values`.
    ///
    /// # Panics
    /// Panics if `block` is not exactly [`bytes`](BlockInfo::bytes) long.
    pub fn decode(&self, block: &[u8], values: &mut [f32]) {
        (self.decode)(block, values);
    }
    /// Whether values can be quantized to this format.
    pub const fn encodes(&self) -> bool {
        self.encode.is_some()
    }
    /// Encodes `values` as a block. Missing values count as 0. Returns `false`, and writes nothing, if the format is
    /// [read-only](BlockInfo::encodes).
    ///
    /// # Panics
    /// Panics if `block` is not exactly [`bytes`](BlockInfo::bytes) long.
    #[must_use]
    pub fn encode(&self, values: &[f32], block: &mut [u8]) -> bool {
        self.encode.map(|encode| encode(values, block)).is_some()
    }

    fn key(&self) -> impl Ord + Hash {
        (self.name, self.values, self.bytes, self.align, self.listed)
    }
}

// Does not compare addresses alone: the linker may duplicate a `static`, so equal formats can have different ones. The index of a
// format of this crate says all of its key.
impl PartialEq for BlockInfo {
    fn eq(&self, other: &Self) -> bool {
        match (self.listed, other.listed) {
            (Some(a), Some(b)) => a == b,
            _ => core::ptr::eq(self, other) || self.key() == other.key(),
        }
    }
}
impl Eq for BlockInfo {}
impl PartialOrd for BlockInfo {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for BlockInfo {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}
impl Hash for BlockInfo {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.listed {
            Some((index, _)) => index.hash(state),
            None => self.key().hash(state),
        }
    }
}
impl Debug for BlockInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

//! Tensors that are a rule instead of memory: what problems are made of before they have a backend.
//!
//! A problem on [`Synthetic`] costs nothing, whatever its shapes are, so it can be explained without
//! a device. Mirrored to a backend it gets its values: the same ones on every backend, also for a
//! part of a tensor, since each follows from its position.
use ops_core::{Backend, BlockInfo, DType, Element, Error, Result, Scalar, Space, with_type};
use rayon::prelude::*;

/// What the elements of a tensor are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fill {
    /// Uniform in −1..1; integers in −100..=100.
    Signed,
    /// Uniform in 1/2..3/2, for logarithms, roots and divisors; integers from 50 to 150.
    Positive,
    /// 0 or 1.
    Flag,
    /// Integers below this bound.
    Below(usize),
    /// Cosines of angles.
    Cos,
    /// Sines of the same angles.
    Sin,
}

/// Elements by rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe {
    start: usize,
    len: usize,
    seed: u64,
    fill: Fill,
    /// Of bytes: the type of the elements that they make up. `start` and `len` then count bytes.
    bytes_of: Option<DType>,
}

impl Recipe {
    /// `len` elements; operands of unlike names differ.
    pub(crate) fn new(len: usize, operand: &str, fill: Fill) -> Self {
        let name = if matches!(fill, Fill::Cos | Fill::Sin) { "angle" } else { operand };
        let seed =
            name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        Recipe { start: 0, len, seed, fill, bytes_of: None }
    }

    /// The value at a position, `integer` for a type of whole numbers.
    fn value(&self, at: usize, integer: bool) -> f64 {
        let hash = mix(self.seed.wrapping_add(at as u64));
        // 53 bits make a float in 0..1.
        let unit = (hash >> 11) as f64 / (1u64 << 53) as f64;
        let scale = if integer { 100.0 } else { 1.0 };
        match self.fill {
            Fill::Signed => (2.0 * unit - 1.0) * scale,
            Fill::Positive => (unit + 0.5) * scale,
            Fill::Flag => f64::from(hash & 1 == 1),
            Fill::Below(bound) => (hash % bound.max(1) as u64) as f64,
            Fill::Cos => (unit * core::f64::consts::TAU).cos(),
            Fill::Sin => (unit * core::f64::consts::TAU).sin(),
        }
    }

    /// Elements of a type, as bytes, from the one at this position on.
    fn make(&self, dtype: DType, first: usize, dst: &mut [u8]) {
        const PIECE: usize = 1 << 16;
        dst.par_chunks_mut(PIECE * dtype.size()).enumerate().for_each(|(i, piece)| {
            let at = first + i * PIECE;
            match dtype {
                DType::Block(info) => self.blocks(info, at, piece),
                // A type that the list of ops does not know cannot get here; zeros would do for one.
                scalar => with_type!(scalars, scalar, T => self.scalars::<T>(at, piece), _ => piece.fill(0)),
            }
        });
    }

    fn scalars<T: Scalar>(&self, first: usize, dst: &mut [u8]) {
        let integer = T::DTYPE.precision().is_none();
        for (i, element) in dst.chunks_exact_mut(size_of::<T>()).enumerate() {
            let value = T::from_f64(self.value(first + i, integer));
            element.copy_from_slice(bytemuck::bytes_of(&value));
        }
    }

    fn blocks(&self, info: &BlockInfo, first: usize, dst: &mut [u8]) {
        let mut values = vec![0.0f32; info.values()];
        for (i, block) in dst.chunks_exact_mut(info.bytes()).enumerate() {
            let start = (first + i) * info.values();
            for (k, value) in values.iter_mut().enumerate() {
                *value = self.value(start + k, false) as f32;
            }
            info.encode(&values, block);
        }
    }

    /// The same elements as bytes.
    pub(crate) fn as_bytes(self, dtype: DType) -> Self {
        let size = dtype.size();
        let (start, len) = (self.start.saturating_mul(size), self.len.saturating_mul(size));
        Recipe { start, len, bytes_of: Some(dtype), ..self }
    }

    /// The bytes of this recipe as elements of `T`, where they are that.
    fn as_elements<T: Element>(self) -> Option<Self> {
        let size = size_of::<T>();
        if self.bytes_of != Some(DType::of::<T>()) {
            return None;
        }
        Some(Recipe { start: self.start / size, len: self.len / size, bytes_of: None, ..self })
    }
}

/// Scatters the bits of a counter (splitmix64).
fn mix(counter: u64) -> u64 {
    let mut z = counter.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The space of [`Recipe`]s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules;

impl Space for Rules {
    type Buffer<T: Element> = Recipe;
    type Ref<'a, T: Element> = Recipe;
    type Mut<'a, T: Element> = Recipe;

    fn len<T: Element>(view: Recipe) -> usize {
        view.len
    }
    fn borrow<T: Element>(buffer: &Recipe) -> Recipe {
        *buffer
    }
    fn borrow_mut<T: Element>(buffer: &mut Recipe) -> Recipe {
        *buffer
    }
    fn share<T: Element>(view: &Recipe) -> Recipe {
        *view
    }
    fn reborrow<T: Element>(view: &mut Recipe) -> Recipe {
        *view
    }
    fn shorten<'s, 'l: 's, T: Element>(view: Recipe) -> Recipe {
        view
    }
    fn split_at<T: Element>(view: Self::Mut<'_, T>, mid: usize) -> (Self::Mut<'_, T>, Self::Mut<'_, T>) {
        let right = Recipe { start: view.start + mid, len: view.len - mid, ..view };
        (Recipe { len: mid, ..view }, right)
    }
    fn bytes<'a, T: Element>(view: Recipe) -> Self::Ref<'a, u8> {
        view.as_bytes(DType::of::<T>())
    }
    fn bytes_mut<'a, T: Element>(view: Recipe) -> Self::Mut<'a, u8> {
        view.as_bytes(DType::of::<T>())
    }
    fn typed<'a, T: Element>(bytes: Recipe) -> Option<Self::Ref<'a, T>> {
        bytes.as_elements::<T>()
    }
    fn typed_mut<'a, T: Element>(bytes: Recipe) -> Option<Self::Mut<'a, T>> {
        bytes.as_elements::<T>()
    }
    fn into_bytes<T: Element>(buffer: Recipe) -> Recipe {
        buffer.as_bytes(DType::of::<T>())
    }
    fn aligned(_: Recipe, _: usize) -> bool {
        true
    }
}

/// Reads from rules. It runs no op.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Synthetic;

impl Backend for Synthetic {
    type Space = Rules;
    type Event = ();

    fn name(&self) -> &'static str {
        "synthetic"
    }
    fn alloc<T: Element>(&self, len: usize) -> Result<Recipe> {
        Ok(Recipe::new(len, "", Fill::Signed))
    }
    fn read<T: Element>(&self, src: Recipe, start: usize, dst: &mut [T]) -> Result<()> {
        ops_core::range("read", start, dst.len(), src.len)?;
        // Of bytes, whole elements are asked for.
        let (dtype, unit) = src.bytes_of.map_or((DType::of::<T>(), 1), |dtype| (dtype, dtype.size()));
        src.make(dtype, (src.start + start) / unit, bytemuck::cast_slice_mut(dst));
        Ok(())
    }
    fn write<T: Element>(&self, _: &[T], _: Recipe, _: usize) -> Result<()> {
        let status = "the values of a synthetic tensor follow from a rule".to_owned();
        Err(Error::Device { backend: "synthetic", call: "write", status })
    }
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
    fn fork(&self) -> Result<Self> {
        Ok(*self)
    }
    fn record(&self) -> Result<()> {
        Ok(())
    }
    fn wait(&self, (): &()) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Element>(recipe: Recipe, start: usize, len: usize) -> Vec<T> {
        Synthetic.read_vec::<T>(recipe, start, len).unwrap()
    }

    #[test]
    fn a_part_has_the_values_of_the_whole() {
        let recipe = Recipe::new(200_000, "x", Fill::Signed);
        let whole = read::<f32>(recipe, 0, 200_000);
        assert_eq!(read::<f32>(recipe, 70_000, 5), whole[70_000..70_005]);
        let (_, right) = Rules::split_at::<f32>(recipe, 65_000);
        assert_eq!(read::<f32>(right, 5_000, 5), whole[70_000..70_005]);
        assert!(whole.iter().any(|v| *v < -0.9) && whole.iter().any(|v| *v > 0.9));
        assert!(whole.iter().all(|v| v.abs() <= 1.0));
    }

    #[test]
    fn values_keep_to_their_fill() {
        let ids = read::<u32>(Recipe::new(1000, "ids", Fill::Below(7)), 0, 1000);
        assert!(ids.iter().all(|i| *i < 7) && ids.contains(&6));
        let positive = read::<u8>(Recipe::new(1000, "x", Fill::Positive), 0, 1000);
        assert!(positive.iter().all(|v| (50..=150).contains(v)));
        let (cos, sin) = (Recipe::new(9, "cos", Fill::Cos), Recipe::new(9, "sin", Fill::Sin));
        for (c, s) in read::<f64>(cos, 0, 9).iter().zip(read::<f64>(sin, 0, 9)) {
            assert!((c * c + s * s - 1.0).abs() < 1e-12);
        }
    }
}

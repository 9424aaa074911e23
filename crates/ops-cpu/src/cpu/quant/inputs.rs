//! The rows that are multiplied by a quantized weight.
use super::super::rows::{gathered, packed, widened};
use super::super::threads;
use super::super::vectors::{on_vector, report, unsupported_dtype};
use crate::host::raw::Raw;
use ops_core::{Layout, Result};
use ops_simd::quant::{Activations, Outliers};
use ops_simd::{Element, Error, Isa};
use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};

/// All rows of an operand, or some of them.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Inputs<'a> {
    x: Raw<'a>,
    picked: Option<(&'a [usize], &'a Quantized)>,
}

/// All rows of an operand, quantized to 8 bits when the first of several products needs them.
#[derive(Default)]
pub(in crate::cpu) struct Quantized {
    rounded: OnceCell<Activations>,
    /// With their outliers set aside.
    set_aside: OnceCell<Activations>,
}

/// Up to this many elements, one thread quantizes faster than several.
const MIN_SPLIT_ELEMENTS: usize = 1 << 15;

thread_local! {
    /// Activations of the last product, kept to reuse their memory.
    static ACTIVATIONS: RefCell<Activations> = RefCell::default();
}

impl<'a> Inputs<'a> {
    pub(in crate::cpu) fn all(x: Raw<'a>) -> Self {
        Inputs { x, picked: None }
    }
    /// These rows of `x`, in row-major order, whose products share `quantized`.
    pub(in crate::cpu) fn picked(x: Raw<'a>, rows: &'a [usize], quantized: &'a Quantized) -> Self {
        Inputs { x, picked: Some((rows, quantized)) }
    }

    /// Length of a row.
    pub(super) fn k(&self) -> usize {
        self.x.layout.last()
    }

    /// The rows in f32.
    pub(super) fn widened(&self) -> Result<Cow<'a, [f32]>> {
        let Some((rows, _)) = self.picked else { return widened(&self.x) };
        let memory = gathered(&self.x, rows)?;
        let layout = Layout::contiguous(&[rows.len(), self.k()])?;
        let wide = widened(&Raw { bytes: &memory, layout, ..self.x })?;
        Ok(Cow::Owned(wide.into_owned()))
    }

    /// Calls `product` with the rows quantized to 8 bits.
    pub(in crate::cpu) fn quantized(
        &self,
        outliers: Outliers,
        product: impl FnOnce(&Activations) -> core::result::Result<(), Error>,
    ) -> Result<()> {
        // Taken, not borrowed: while this thread waits, it may run a job of another caller that also needs them.
        let mut activations = ACTIVATIONS.take();
        let done =
            self.fill(outliers, &mut activations).and_then(|()| report("qlinear", product(&activations)));
        ACTIVATIONS.set(activations);
        done
    }

    fn fill(&self, outliers: Outliers, activations: &mut Activations) -> Result<()> {
        let Some((rows, all)) = self.picked else { return quantize(&self.x, outliers, activations) };
        let all = match outliers {
            Outliers::Rounded => &all.rounded,
            Outliers::SetAside => &all.set_aside,
        };
        let all = match all.get() {
            Some(all) => all,
            None => {
                let mut first = Activations::default();
                quantize(&self.x, outliers, &mut first)?;
                all.get_or_init(|| first)
            }
        };
        report("qlinear", activations.gather(all, rows))
    }
}

fn quantize(x: &Raw<'_>, outliers: Outliers, to: &mut Activations) -> Result<()> {
    on_vector!(x.dtype, T => {
        let rows = packed::<T>(x)?;
        report("qlinear", split_rows(&rows, x.layout.last(), outliers, to))
    }, else report("qlinear", Err(unsupported_dtype(x.dtype))))
}

/// Quantizes rows of length `k`, on threads if there are many.
fn split_rows<T: Element>(
    x: &[T],
    k: usize,
    outliers: Outliers,
    to: &mut Activations,
) -> core::result::Result<(), Error> {
    let count = x.len().checked_div(k).unwrap_or(0);
    let tasks = if x.len() > MIN_SPLIT_ELEMENTS { threads::tasks() } else { 1 };
    let parts = to.parts(count, k, count.div_ceil(tasks))?;
    threads::for_each_part(parts, &|part| part.quantize(Isa::best(), x, outliers))
}

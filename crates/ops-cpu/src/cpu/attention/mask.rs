//! Masks.
use crate::host::raw::Raw;
use ops_core::DType;

/// Applies the mask's elements, from position `first` on, to a row of scores.
pub(super) fn add_mask(mask: &Raw<'_>, first: usize, scores: &mut [f32]) {
    let step = mask.layout.strides()[3];
    let position = |j: usize| first.wrapping_add_signed(j as isize * step);
    let hide = |visible: u8, score: &mut f32| *score = if visible == 0 { f32::NEG_INFINITY } else { *score };
    match (mask.dtype, step) {
        (DType::U8, 1) => {
            let visible = &mask.slice::<u8>()[first..][..scores.len()];
            visible.iter().zip(scores).for_each(|(visible, score)| hide(*visible, score));
        }
        (DType::U8, _) => {
            let visible = mask.slice::<u8>();
            scores.iter_mut().enumerate().for_each(|(j, score)| hide(visible[position(j)], score));
        }
        (DType::F32, 1) => {
            let added = &mask.slice::<f32>()[first..][..scores.len()];
            scores.iter_mut().zip(added).for_each(|(score, added)| *score += added);
        }
        _ => {
            let add = |(j, score): (usize, &mut f32)| *score += mask.f64(position(j)) as f32;
            scores.iter_mut().enumerate().for_each(add);
        }
    }
}

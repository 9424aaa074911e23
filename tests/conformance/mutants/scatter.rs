//! Wrong ops that read and write elements by index.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::ops::*;
use rocm_ops::{AnyTensor, DType, Host, Layout};
use std::collections::{HashMap, HashSet};

const F32: DType = DType::F32;

/// Replaces "no element" by another index, in u32 indices.
fn without_none(ids: &mut AnyTensor<Host>, instead: u32) {
    edit_if::<u32>(ids, |_, id| if id == u32::MAX { instead } else { id });
}

/// Replaces repeated u32 indices of one element by "no element", except the first or the last.
fn keep_one(ids: &mut AnyTensor<Host>, axis: isize, last: bool) {
    let of = Layout::contiguous(ids.dims()).expect("extents of a tensor");
    let axis = if axis < 0 { axis + of.rank() as isize } else { axis } as usize;
    let mut kept = HashMap::new();
    for (at, id) in values(&*ids).into_iter().enumerate() {
        let mut place = of.index_of(at);
        place[axis] = id as usize;
        if last {
            kept.insert(place, at);
        } else {
            kept.entry(place).or_insert(at);
        }
    }
    let kept: HashSet<usize> = kept.into_values().collect();
    edit_if::<u32>(ids, |at, id| if kept.contains(&at) { id } else { u32::MAX });
}

pub(super) fn mutants() -> Vec<Mutant> {
    vec![
        Mutant::before::<Gather>("\"no element\" is the first", "gather", F32, |op, o| {
            let axis = if op.axis < 0 { op.axis + o["x"].dims().len() as isize } else { op.axis };
            if o["x"].dims()[axis as usize] > 0 {
                without_none(&mut o["ids"], 0);
            }
        }),
        Mutant::before::<Gather>("another axis", "gather", F32, |op, o| {
            if o["x"].dims() == [4, 6] && op.axis == 0 {
                op.axis = 1;
            }
        }),
        Mutant::before::<Gather>("indices read without their strides", "gather", DType::U8, |_, o| {
            relayout(&mut o["ids"], forget_strides)
        }),
        Mutant::swallows_errors("gather", F32),
        Mutant::before::<Scatter>("\"no element\" is the first", "scatter", F32, |op, o| {
            let axis = if op.axis < 0 { op.axis + o["dst"].dims().len() as isize } else { op.axis };
            if o["dst"].dims()[axis as usize] > 0 {
                without_none(&mut o["ids"], 0);
            }
        }),
        Mutant::before::<Scatter>("the first of several wins", "scatter", DType::I32, |op, o| {
            keep_one(&mut o["ids"], op.axis, false);
        }),
        Mutant::after::<Scatter>("elements without an index cleared", "scatter", F32, |_, o| {
            if o["dst"].dims().len() != 1 {
                return;
            }
            let ids = values(&o["ids"]);
            edit::<f32>(&mut o["dst"], |at, v| if ids.contains(&(at as f64)) { v } else { 0.0 });
        }),
        Mutant::swallows_errors("scatter", F32),
        Mutant::before::<ScatterAdd<f32>>("dst not read", "scatter_add", F32, |_, o| {
            edit::<f32>(&mut o["dst"], |_, _| 0.0);
        }),
        Mutant::before::<ScatterAdd<f32>>("src rounded to bf16", "scatter_add", F32, |_, o| {
            edit_floats(&mut o["src"], brain);
        }),
        Mutant::before::<ScatterAdd<f32>>("one of several added", "scatter_add", F32, |op, o| {
            keep_one(&mut o["ids"], op.axis, true);
        }),
        Mutant::swallows_errors("scatter_add", F32),
        Mutant::before::<IndexAdd<i8>>("magnitudes added", "index_add", DType::I8, |_, o| {
            edit::<i8>(&mut o["src"], |_, v| v.wrapping_abs());
        }),
        Mutant::before::<IndexAdd<f32>>("src read without its strides", "index_add", F32, |_, o| {
            relayout(&mut o["src"], forget_strides)
        }),
        Mutant::before::<IndexAdd<f32>>("negative indices count from the end", "index_add", F32, |op, o| {
            let axis = if op.axis < 0 { op.axis + o["dst"].dims().len() as isize } else { op.axis };
            let n = o["dst"].dims()[axis as usize] as i32;
            edit_if::<i32>(&mut o["ids"], |_, id| if id < 0 { id + n } else { id });
        }),
        Mutant::swallows_errors("index_add", F32),
    ]
}

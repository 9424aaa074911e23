//! No composition of views leads outside the buffer that the first layout fitted, whatever the numbers.
use ops_core::{Layout, MAX_RANK};
use proptest::prelude::*;
use proptest::sample::select;

const EXTREMES: [isize; 10] =
    [isize::MIN, isize::MIN + 1, -(1 << 62), -3, -1, 0, 2, 1 << 62, isize::MAX - 1, isize::MAX];

/// One view operation, with arguments that it may have to refuse.
#[derive(Clone, Debug)]
enum Step {
    Narrow(isize, usize, usize),
    Every(isize, usize),
    Split(isize, usize, bool),
    Pick(Vec<usize>),
    Permute(Vec<usize>),
    Transpose(isize, isize),
    Broadcast(Vec<usize>),
    Outer(usize),
    Squeeze(isize),
    Unsqueeze(isize),
    Reshape(Vec<usize>),
    Flatten,
    Merge(Vec<isize>),
    MergeUnlike(Vec<usize>),
    Strided(Vec<usize>, Vec<isize>),
}

fn axis() -> impl Strategy<Value = isize> {
    prop_oneof![8 => -3isize..4, 1 => select(&EXTREMES[..])]
}
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![12 => 0usize..4, 1 => select(&EXTREMES[..]).prop_map(|n| n as usize)]
}
fn stride() -> impl Strategy<Value = isize> {
    prop_oneof![4 => -4isize..5, 1 => select(&EXTREMES[..])]
}
fn sizes() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(size(), 0..5)
}
fn axes() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(0usize..4, 0..4)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (axis(), size(), size()).prop_map(|(a, start, len)| Step::Narrow(a, start, len)),
        1 => (axis(), size()).prop_map(|(a, n)| Step::Every(a, n)),
        1 => (axis(), size(), any::<bool>()).prop_map(|(a, mid, second)| Step::Split(a, mid, second)),
        3 => axes().prop_map(Step::Pick),
        1 => axes().prop_map(Step::Permute),
        1 => (axis(), axis()).prop_map(|(a, b)| Step::Transpose(a, b)),
        1 => sizes().prop_map(Step::Broadcast),
        1 => size().prop_map(Step::Outer),
        1 => axis().prop_map(Step::Squeeze),
        1 => axis().prop_map(Step::Unsqueeze),
        1 => sizes().prop_map(Step::Reshape),
        1 => Just(Step::Flatten),
        1 => proptest::collection::vec(stride(), MAX_RANK).prop_map(Step::Merge),
        1 => sizes().prop_map(Step::MergeUnlike),
        1 => (sizes(), proptest::collection::vec(stride(), 0..5)).prop_map(|(d, s)| Step::Strided(d, s)),
    ]
}

impl Step {
    /// The view, or `None` if the layout refuses it.
    fn view(&self, of: &Layout) -> Option<Layout> {
        match self {
            Step::Narrow(a, start, len) => of.narrow(*a, *start, *len).ok(),
            Step::Every(a, n) => of.step(*a, *n).ok(),
            Step::Split(a, mid, second) => {
                of.split_at(*a, *mid).ok().map(|(left, right)| if *second { right } else { left })
            }
            Step::Pick(axes) => of.pick(axes).ok(),
            Step::Permute(order) => of.permute(order).ok(),
            Step::Transpose(a, b) => of.transpose(*a, *b).ok(),
            Step::Broadcast(dims) => of.broadcast(dims).ok(),
            Step::Outer(n) => of.broadcast(&[&[*n], of.dims()].concat()).ok(),
            Step::Squeeze(a) => of.squeeze(*a).ok(),
            Step::Unsqueeze(a) => of.unsqueeze(*a).ok(),
            Step::Reshape(dims) => of.reshape(dims).ok(),
            Step::Flatten => of.reshape(&[of.len()]).ok(),
            Step::Merge(strides) => {
                let other = Layout::strided(of.dims(), &strides[..of.rank()], 1 << 61).ok()?;
                Some(Layout::merged([of, &other])[0])
            }
            Step::MergeUnlike(dims) => Some(Layout::merged([&Layout::contiguous(dims).ok()?, of])[1]),
            // What a kernel does to look at some axes of an operand.
            Step::Strided(dims, strides) => {
                let layout = Layout::strided(dims, strides, of.offset()).ok()?;
                layout.fits(of.extent().end).then_some(layout)
            }
        }
    }
}

/// The lowest and the highest position, from the definition, in arithmetic that cannot overflow; `None` without elements.
fn range(l: &Layout) -> Option<(i128, i128)> {
    let ends = |(low, high): (i128, i128), (d, s): (&usize, &isize)| {
        let last = (*d as i128 - 1) * *s as i128;
        (low + last.min(0), high + last.max(0))
    };
    let first = l.offset() as i128;
    (!l.dims().contains(&0)).then(|| l.dims().iter().zip(l.strides()).fold((first, first), ends))
}

/// Checks every position against a buffer of `len` elements, and what the layout says about itself.
fn check(l: &Layout, len: usize) {
    let Some((low, high)) = range(l) else {
        assert!(l.is_empty() && l.extent().is_empty() && l.is_injective(), "{l}");
        assert!(l.rows().take(50).all(|p| p == l.offset()), "{l}");
        return;
    };
    assert!(low >= 0 && high < len as i128, "{l} leaves a buffer of {len}: {low}..={high}");
    assert_eq!(l.extent(), low as usize..high as usize + 1, "{l}");
    assert!(l.fits(high as usize + 1) && !l.fits(high as usize), "{l}");
    let positions: Vec<usize> = l.positions().take(200).collect();
    for (n, p) in positions.iter().enumerate() {
        assert!((low..=high).contains(&(*p as i128)), "{l} at {p}");
        assert_eq!(l.position(&l.index_of(n)), *p, "{l}");
    }
    let mut distinct = positions.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(!l.is_injective() || distinct.len() == positions.len(), "{l} repeats an element");
    assert!(l.rows().take(50).all(|p| (low..=high).contains(&(p as i128))), "{l}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn composed_views_stay_in_the_buffer(
        axes in proptest::collection::vec((size(), stride()), 0..5),
        offset in prop_oneof![4 => 0usize..20, 1 => select(&EXTREMES[..]).prop_map(|n| n as usize)],
        steps in proptest::collection::vec(step(), 0..12),
    ) {
        let (dims, strides): (Vec<usize>, Vec<isize>) = axes.into_iter().unzip();
        if let Ok(first) = Layout::strided(&dims, &strides, offset) {
            // The smallest buffer that the layout fits.
            let len = first.extent().end;
            check(&first, len);
            let mut view = first;
            for step in &steps {
                view = step.view(&view).unwrap_or(view);
                check(&view, len);
            }
        }
    }
}

#[test]
fn an_axis_without_an_index_cannot_be_left_out() {
    let empty = Layout::strided(&[0, 2], &[1, -1], 0).unwrap();
    let error = empty.pick(&[1]).unwrap_err().to_string();
    assert!(error.starts_with("cannot pick [0, 2]") && error.contains("axis 0"), "{error}");
    assert!(empty.pick(&[1, 0]).unwrap().is_empty());
    assert!(empty.pick(&[]).is_err());
    // An axis of 1 has index 0.
    assert_eq!(Layout::contiguous(&[1, 2]).unwrap().pick(&[1]).unwrap().extent(), 0..2);
}

//! `Layout` against a list: every view changes positions as the same step changes a list of them.
use ops_core::{Error, Layout, MAX_RANK, Shape};
use proptest::prelude::*;

/// The positions of a view's elements, listed.
#[derive(Clone, Debug, PartialEq)]
struct List {
    dims: Vec<usize>,
    positions: Vec<usize>,
}

impl List {
    fn of(dims: &[usize], strides: &[isize], offset: usize) -> Self {
        let place = |index: Vec<usize>| {
            let steps: isize = index.iter().zip(strides).map(|(i, s)| *i as isize * s).sum();
            offset.checked_add_signed(steps).expect("a position inside memory")
        };
        List { dims: dims.to_vec(), positions: indices(dims).into_iter().map(place).collect() }
    }
    fn at(&self, index: &[usize]) -> usize {
        let flat = index.iter().zip(&self.dims).fold(0, |n, (i, d)| n * d + i);
        self.positions[flat]
    }
    /// A list with other extents, whose element at each index is the element of this one at `from(index)`.
    fn view(&self, dims: &[usize], from: impl Fn(&[usize]) -> Vec<usize>) -> Self {
        let positions = indices(dims).iter().map(|i| self.at(&from(i))).collect();
        List { dims: dims.to_vec(), positions }
    }
}

/// Every index of a shape, in row-major order.
fn indices(dims: &[usize]) -> Vec<Vec<usize>> {
    dims.iter().fold(vec![vec![]], |all, d| {
        all.iter().flat_map(|head| (0..*d).map(move |i| [head.as_slice(), &[i]].concat())).collect()
    })
}

/// One step, with numbers that are yet to be adapted to the view.
#[derive(Clone, Debug)]
enum Step {
    Narrow(usize, usize, usize),
    Every(usize, usize),
    Swap(usize, usize),
    Rotate(usize),
    Unsqueeze(usize),
    Squeeze,
    Broadcast(usize, usize),
    Split(usize, usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    let n = 0usize..24;
    prop_oneof![
        (n.clone(), n.clone(), n.clone()).prop_map(|(a, b, c)| Step::Narrow(a, b, c)),
        (n.clone(), 1usize..6).prop_map(|(a, n)| Step::Every(a, n)),
        (n.clone(), n.clone()).prop_map(|(a, b)| Step::Swap(a, b)),
        n.clone().prop_map(Step::Rotate),
        n.clone().prop_map(Step::Unsqueeze),
        Just(Step::Squeeze),
        (n.clone(), 1usize..4).prop_map(|(a, b)| Step::Broadcast(a, b)),
        (n.clone(), n, any::<bool>()).prop_map(|(a, b, c)| Step::Split(a, b, c)),
    ]
}

impl Step {
    /// Applies the step to both, or to neither if the view does not allow it.
    fn take(&self, layout: Layout, list: List) -> (Layout, List) {
        let rank = layout.rank();
        let axis = |n: usize| (rank > 0).then(|| n % rank.max(1));
        let dims = list.dims.clone();
        // Axes may count from either end.
        let named = |a: usize| if a.is_multiple_of(2) { a as isize } else { a as isize - rank as isize };
        match *self {
            Step::Narrow(a, start, len) => match axis(a) {
                Some(a) => {
                    let start = start % (dims[a] + 1);
                    let len = len % (dims[a] - start + 1);
                    (layout.narrow(named(a), start, len).unwrap(), narrowed(&list, a, start, len))
                }
                None => (layout, list),
            },
            Step::Every(a, n) => match axis(a) {
                Some(a) => (layout.step(named(a), n).unwrap(), every(&list, a, n)),
                None => (layout, list),
            },
            Step::Split(a, mid, second) => match axis(a) {
                Some(a) => {
                    let mid = mid % (dims[a] + 1);
                    let (left, right) = layout.split_at(named(a), mid).unwrap();
                    let (l, r) = (narrowed(&list, a, 0, mid), narrowed(&list, a, mid, dims[a] - mid));
                    if second { (right, r) } else { (left, l) }
                }
                None => (layout, list),
            },
            Step::Swap(a, b) => match (axis(a), axis(b)) {
                (Some(a), Some(b)) => {
                    let mut order: Vec<usize> = (0..rank).collect();
                    order.swap(a, b);
                    (layout.transpose(named(a), named(b)).unwrap(), permuted(&list, &order))
                }
                _ => (layout, list),
            },
            Step::Rotate(n) => {
                let mut order: Vec<usize> = (0..rank).collect();
                order.rotate_left(n % rank.max(1));
                (layout.permute(&order).unwrap(), permuted(&list, &order))
            }
            Step::Unsqueeze(a) if rank < MAX_RANK => {
                let a = a % (rank + 1);
                let mut to = dims;
                to.insert(a, 1);
                let axis = if a.is_multiple_of(2) { a as isize } else { a as isize - rank as isize - 1 };
                (layout.unsqueeze(axis).unwrap(), List { dims: to, ..list })
            }
            Step::Squeeze => match dims.iter().position(|d| *d == 1) {
                Some(a) => {
                    let mut to = dims;
                    to.remove(a);
                    (layout.squeeze(named(a)).unwrap(), List { dims: to, ..list })
                }
                None => (layout, list),
            },
            Step::Broadcast(a, n) => match axis(a).filter(|a| dims[*a] == 1 && list.positions.len() < 500) {
                Some(a) => {
                    let mut to = dims;
                    to[a] = n;
                    let from = |i: &[usize]| {
                        i.iter().enumerate().map(|(k, i)| if k == a { 0 } else { *i }).collect()
                    };
                    (layout.broadcast(&to).unwrap(), list.view(&to, from))
                }
                None => (layout, list),
            },
            Step::Unsqueeze(_) => (layout, list),
        }
    }
}

fn narrowed(list: &List, axis: usize, start: usize, len: usize) -> List {
    let mut dims = list.dims.clone();
    dims[axis] = len;
    list.view(&dims, |i| i.iter().enumerate().map(|(k, i)| if k == axis { i + start } else { *i }).collect())
}

fn every(list: &List, axis: usize, n: usize) -> List {
    let mut dims = list.dims.clone();
    dims[axis] = dims[axis].div_ceil(n);
    list.view(&dims, |i| i.iter().enumerate().map(|(k, i)| if k == axis { i * n } else { *i }).collect())
}

fn permuted(list: &List, order: &[usize]) -> List {
    let dims: Vec<usize> = order.iter().map(|a| list.dims[*a]).collect();
    list.view(&dims, |i| {
        let mut from = vec![0; order.len()];
        order.iter().zip(i).for_each(|(a, i)| from[*a] = *i);
        from
    })
}

/// A strided layout and its list: any strides of either sign, from an offset that keeps it in memory.
fn strided() -> impl Strategy<Value = (Layout, List)> {
    let axes = proptest::collection::vec((0usize..5, -12isize..13), 0..=4);
    (axes, 0usize..20).prop_map(|(axes, lead)| {
        let (dims, strides): (Vec<usize>, Vec<isize>) = axes.into_iter().unzip();
        let below: isize =
            dims.iter().zip(&strides).map(|(d, s)| (d.max(&1) - 1) as isize * (*s).min(0)).sum();
        let offset = lead + below.unsigned_abs();
        (Layout::strided(&dims, &strides, offset).unwrap(), List::of(&dims, &strides, offset))
    })
}

/// A layout after some steps.
fn viewed() -> impl Strategy<Value = (Layout, List)> {
    (strided(), proptest::collection::vec(step(), 0..6))
        .prop_map(|((layout, list), steps)| steps.iter().fold((layout, list), |(l, m), s| s.take(l, m)))
}

/// Extents whose product is `n`.
fn factored(n: usize, cuts: &[usize]) -> Vec<usize> {
    let (mut rest, mut dims) = (n, Vec::new());
    for cut in cuts {
        let divisors: Vec<usize> = (1..=rest.max(1)).filter(|d| rest.is_multiple_of(*d)).collect();
        let d = divisors[cut % divisors.len()];
        dims.push(d);
        rest /= d;
    }
    dims.push(rest);
    dims
}

/// The strides under which these positions are a view of these extents, if there are any.
fn strides_of(dims: &[usize], positions: &[usize]) -> Option<Vec<isize>> {
    let all = indices(dims);
    let at = |index: &[usize]| positions[all.iter().position(|i| i == index).expect("an index of the shape")];
    let first = *positions.first()? as isize;
    let unit = |axis: usize| {
        let mut index = vec![0; dims.len()];
        index[axis] = 1;
        at(&index) as isize - first
    };
    let strides: Vec<isize> = (0..dims.len()).map(|a| if dims[a] > 1 { unit(a) } else { 0 }).collect();
    let position =
        |index: &Vec<usize>| first + index.iter().zip(&strides).map(|(i, s)| *i as isize * s).sum::<isize>();
    all.iter().zip(positions).all(|(index, p)| position(index) == *p as isize).then_some(strides)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn views_do_what_the_list_does((layout, list) in viewed()) {
        prop_assert_eq!(layout.dims(), &list.dims[..]);
        prop_assert_eq!(layout.positions().collect::<Vec<_>>(), list.positions.clone());
        prop_assert_eq!(layout.len(), list.positions.len());
        prop_assert_eq!(layout.positions().len(), list.positions.len());
        for (n, index) in indices(&list.dims).iter().enumerate() {
            prop_assert_eq!(layout.position(index), list.positions[n]);
            prop_assert_eq!(&layout.index_of(n), index);
        }
    }

    #[test]
    fn extent_and_contiguity_are_those_of_the_positions((layout, list) in viewed()) {
        let (low, high) = (list.positions.iter().min(), list.positions.iter().max());
        match (low, high) {
            (Some(low), Some(high)) => {
                prop_assert_eq!(layout.extent(), *low..high + 1);
                prop_assert!(layout.fits(high + 1) && !layout.fits(*high));
                let in_a_row = list.positions.windows(2).all(|w| w[1] == w[0] + 1);
                prop_assert_eq!(layout.is_contiguous(), in_a_row);
            }
            _ => {
                prop_assert!(layout.is_empty() && layout.extent().is_empty() && layout.is_contiguous());
            }
        }
    }

    #[test]
    fn what_may_be_written_repeats_nothing((layout, list) in viewed()) {
        let mut positions = list.positions;
        positions.sort_unstable();
        let repeats = positions.windows(2).any(|w| w[0] == w[1]);
        prop_assert!(!(layout.is_injective() && repeats), "{layout}");
        // The rule is sufficient, and necessary for a single axis.
        if layout.dims().iter().filter(|d| **d > 1).count() <= 1 {
            prop_assert_eq!(layout.is_injective(), !repeats);
        }
    }

    #[test]
    fn views_of_a_contiguous_tensor_may_be_written(
        dims in proptest::collection::vec(1usize..5, 0..=4),
        steps in proptest::collection::vec(step(), 0..6),
    ) {
        let layout = Layout::contiguous(&dims).unwrap();
        let list = List::of(&dims, layout.strides(), 0);
        let steps = steps.iter().filter(|s| !matches!(s, Step::Broadcast(..)));
        let (layout, _) = steps.fold((layout, list), |(l, m), s| s.take(l, m));
        prop_assert!(layout.is_injective(), "{layout}");
    }

    #[test]
    fn rows_start_where_their_first_elements_do((layout, list) in viewed()) {
        let mut firsts = list.dims.clone();
        if let Some(last) = firsts.last_mut() { *last = (*last).min(1); }
        if !layout.is_empty() {
            let want = list.view(&firsts, <[usize]>::to_vec).positions;
            prop_assert_eq!(layout.rows().collect::<Vec<_>>(), want);
        }
    }

    #[test]
    fn reshape_succeeds_exactly_where_strides_exist(
        (layout, list) in viewed(),
        cuts in proptest::collection::vec(0usize..12, 0..4),
    ) {
        let dims = factored(layout.len(), &cuts);
        match layout.reshape(&dims) {
            Ok(view) => {
                prop_assert_eq!(view.dims(), &dims[..]);
                prop_assert_eq!(view.positions().collect::<Vec<_>>(), list.positions);
            }
            Err(e) => {
                prop_assert!(matches!(e, Error::View { view: "reshape", .. }), "{e}");
                let strides = strides_of(&dims, &list.positions);
                prop_assert!(strides.is_none(), "{layout} as {dims:?} has strides {strides:?}");
            }
        }
        let wrong = factored(layout.len() + 1, &cuts);
        prop_assert!(layout.reshape(&wrong).is_err());
    }

    #[test]
    fn halves_of_a_split_are_disjoint_and_all((layout, list) in viewed(), axis in 0usize..6, mid in 0usize..6) {
        if layout.rank() > 0 {
            let axis = axis % layout.rank();
            let mid = mid % (layout.dims()[axis] + 1);
            let (left, right) = layout.split_at(axis as isize, mid).unwrap();
            let mut both: Vec<usize> = left.positions().chain(right.positions()).collect();
            let mut all = list.positions;
            both.sort_unstable();
            all.sort_unstable();
            prop_assert_eq!(both, all);
            prop_assert!(layout.split_at(axis as isize, layout.dims()[axis] + 1).is_err());
        }
    }

    #[test]
    fn merged_layouts_walk_the_same_elements(
        (layout, list) in viewed(),
        axes in proptest::collection::vec(-9isize..9, 6),
    ) {
        // A second layout of the same shape, with different strides.
        let strides = &axes[..layout.rank()];
        let offset = 9 * layout.dims().iter().sum::<usize>();
        let other = Layout::strided(layout.dims(), strides, offset).unwrap();
        let [a, b] = Layout::merged([&layout, &other]);
        prop_assert_eq!(a.dims(), b.dims());
        prop_assert!(a.rank() <= layout.rank());
        prop_assert_eq!(a.positions().collect::<Vec<_>>(), list.positions);
        prop_assert_eq!(b.positions().collect::<Vec<_>>(), other.positions().collect::<Vec<_>>());
        let [alone] = Layout::merged([&layout]);
        prop_assert!(!layout.is_contiguous() || layout.is_empty() || alone.rank() <= 1, "{layout} gave {alone}");
    }

    /// Numbers as in a hostile file: anything may result but a panic or a position outside memory.
    #[test]
    fn absurd_numbers_are_errors_or_layouts(
        dims in proptest::collection::vec(absurd(), 0..8),
        strides in proptest::collection::vec(absurd().prop_map(|n| n as isize), 0..8),
        offset in absurd(),
        other in proptest::collection::vec(absurd(), 0..8),
        axis in any::<i8>(),
    ) {
        let _ = Shape::new(&dims);
        let given = &strides[..strides.len().min(dims.len())];
        for layout in [Layout::contiguous(&dims), Layout::strided(&dims, given, offset)].into_iter().flatten() {
            exercise(&layout, &other, axis.into());
        }
    }
}

fn absurd() -> impl Strategy<Value = usize> {
    let edge =
        prop_oneof![Just(0usize), Just(isize::MAX as usize), Just(usize::MAX), Just(1 << 31), Just(1 << 62)];
    prop_oneof![4 => 0usize..4, 2 => (edge, 0usize..5).prop_map(|(e, d)| e.wrapping_add(d).wrapping_sub(2)), 1 => any::<usize>()]
}

/// Calls every method on a layout.
fn exercise(layout: &Layout, other: &[usize], axis: isize) {
    let inside = |l: &Layout| {
        assert!(l.is_empty() || l.extent().end <= 1 << 63, "{l}");
        for p in l.positions().take(50) {
            assert!(l.extent().contains(&p), "{l} at {p}");
        }
        let _ = (l.rows().take(50).count(), l.is_injective(), l.is_contiguous(), l.is_last_contiguous());
        let _ = (l.fits(other.len()), l.index_of(other.len()), format!("{l}"));
        let _ = Layout::merged([l, l]);
    };
    inside(layout);
    let (a, b) = (other.first().copied().unwrap_or(0), other.last().copied().unwrap_or(1));
    let views = [
        layout.narrow(axis, a, b),
        layout.step(axis, a),
        layout.step(axis, b),
        layout.permute(other),
        layout.transpose(axis, a as isize),
        layout.broadcast(other),
        layout.squeeze(axis),
        layout.unsqueeze(axis),
        layout.reshape(other),
        layout.reshape(&[layout.len()]),
        layout.reshape(&[layout.len() / 2, 2]),
    ];
    views.iter().flatten().for_each(inside);
    if let Ok((left, right)) = layout.split_at(axis, a) {
        inside(&left);
        inside(&right);
    }
}

//! copy, fill, where, index_select: elements moved as bits.
use crate::data::{Buffer, Element, Layout, Random, assert_exact, check_untouched, pick, view};
use crate::host::{Record, device, run};
use half::f16;
use ops_kernels::index::{ErrorRecord, Report};
use ops_kernels::{BlockFormat, ElementType, OperandView, copy, index};

fn random<T: Element>(n: usize, seed: u64) -> Vec<T> {
    let mut random = Random::new(seed);
    (0..n).map(|_| T::from_f64(random.below(200) as f64)).collect()
}

fn layouts(dims: &[u64]) -> Vec<[Layout; 2]> {
    vec![
        [(); 2].map(|()| Layout::contiguous(dims)),
        [Layout::padded(dims, 16), Layout::padded(dims, 32)],
        [Layout::scattered(dims), Layout::contiguous(dims)],
        [Layout::padded(dims, 1), Layout::scattered(dims)],
        [Layout::new(dims, vec![0; dims.len()]), Layout::contiguous(dims)],
    ]
}

fn copies<T: Element>() {
    for dims in [&[1][..], &[1000], &[3, 5, 48], &[2, 2, 3, 2, 2, 2], &[3, 0]] {
        for (case, [x_layout, y_layout]) in layouts(dims).iter().enumerate() {
            let x = Buffer::new(&random::<T>(x_layout.len, 1), case % 2);
            let untouched = T::from_f64(201.0);
            let y = Buffer::filled(untouched, y_layout.len, 0);
            let views = (view(&x, x_layout), view(&y, y_layout));
            let (launch, args) = copy::copy(dims, views.0, views.1, &device(32)).expect("a kernel");
            run(32, &launch, &args);
            assert_exact(&format!("copy {dims:?}"), &pick(&y, y_layout), &pick(&x, x_layout));
            check_untouched(&y, y_layout, untouched);

            let value = T::from_f64(5.0);
            let mut bits = [0; 8];
            Buffer::new(&[value], 0).bytes().iter().zip(&mut bits).for_each(|(b, out)| *out = *b);
            let (launch, args) =
                copy::fill(dims, views.1, u64::from_le_bytes(bits), &device(32)).expect("a kernel");
            run(32, &launch, &args);
            assert!(pick(&y, y_layout).iter().all(|&v| v == value), "fill {dims:?}");
            check_untouched(&y, y_layout, untouched);
        }
    }
}

#[test]
fn copies_and_fills() {
    copies::<u8>();
    copies::<f16>();
    copies::<f32>();
    copies::<i64>();
}

/// Blocks move whole: two rows of three q8_0 blocks, out of a longer row.
#[test]
fn copies_blocks() {
    for t in [BlockFormat::Q4_0, BlockFormat::Q8_0].map(ElementType::Block) {
        let bytes = t.bytes();
        let x = Buffer::new(&random::<u8>(8 * bytes, 2), 2);
        let y = Buffer::filled(201u8, 6 * bytes, 4);
        let from = OperandView { data: x.address(), strides: &[4, 1], dtype: t };
        let to = OperandView { data: y.address(), strides: &[3, 1], dtype: t };
        let (launch, args) = copy::copy(&[2, 3], from, to, &device(32)).expect("a kernel");
        run(32, &launch, &args);
        let want = [&x.slice()[..3 * bytes], &x.slice()[4 * bytes..7 * bytes]].concat();
        assert_exact("copy of blocks", y.slice(), &want);
        y.check_guards();
    }
}

fn wheres<C: Element, T: Element>() {
    let dims = [3, 5, 48];
    let row = Layout::new(&dims, vec![0, 0, 1]);
    for [a, b] in layouts(&dims) {
        for cond_layout in [row.clone(), Layout::contiguous(&dims), Layout::scattered(&dims)] {
            let mut coin = Random::new(5);
            let bits: Vec<C> =
                (0..cond_layout.len).map(|_| C::from_f64((coin.below(3) / 2) as f64)).collect();
            let cond = Buffer::new(&bits, 0);
            let (yes, no) = (Buffer::new(&random::<T>(a.len, 6), 0), Buffer::new(&random::<T>(b.len, 7), 0));
            let y = Buffer::filled(T::from_f64(201.0), b.len, 0);
            let views = [view(&yes, &a), view(&no, &b), view(&y, &b)];
            let prepared = copy::select(&dims, view(&cond, &cond_layout), views, &device(64));
            let (launch, args) = prepared.expect("a kernel");
            run(64, &launch, &args);
            let (yes, no) = (pick(&yes, &a), pick(&no, &b));
            let choose = |(i, c): (usize, C)| if c.to_f64() != 0.0 { yes[i] } else { no[i] };
            let want: Vec<T> = pick(&cond, &cond_layout).into_iter().enumerate().map(choose).collect();
            assert_exact("where", &pick(&y, &b), &want);
            check_untouched(&y, &b, T::from_f64(201.0));
        }
    }
}

#[test]
fn where_of_every_condition_type() {
    wheres::<u8, u8>();
    wheres::<u8, f16>();
    wheres::<u8, f32>();
    wheres::<u8, i64>();
    wheres::<u32, f16>();
    wheres::<i32, f32>();
    wheres::<i64, u8>();
    wheres::<i64, f64>();
}

fn selects<I: Element, T: Element>(absent: I) {
    for (dims, axis, bound) in
        [([7, 48, 1], 0, 5u64), ([3, 6, 8], 1, 9), ([4, 3, 10], 2, 4), ([3, 0, 4], 1, 2)]
    {
        let mut x_dims = dims;
        x_dims[axis] = bound;
        for [x_layout, y_layout] in
            layouts(&x_dims).into_iter().zip(layouts(&dims)).map(|(a, b)| [a[0].clone(), b[1].clone()])
        {
            let mut random_ids = Random::new(8);
            let n = dims[axis] as usize;
            let mut ids: Vec<I> = (0..n).map(|_| I::from_f64(random_ids.below(bound) as f64)).collect();
            if n > 2 {
                ids[1] = absent;
                ids[2] = I::from_f64(bound as f64 + 3.0);
            }
            let x = Buffer::new(&random::<T>(x_layout.len, 9), 0);
            let y = Buffer::filled(T::from_f64(201.0), y_layout.len, 0);
            let ids_buffer = Buffer::new(&ids, 1);
            let ids_layout = Layout::contiguous(&[n as u64]);
            let record = Record::default();
            let slot = record.slot();
            let report = Report { error: slot.address(), op: 4, operand: 1 };
            let views = [view(&x, &x_layout), view(&ids_buffer, &ids_layout), view(&y, &y_layout)];
            let (launch, args) =
                index::select(&dims, axis, bound, views, report, &device(64)).expect("a kernel");
            run(64, &launch, &args);
            let inner: usize = dims[axis + 1..].iter().product::<u64>() as usize;
            let x_values = pick(&x, &x_layout);
            let count: u64 = dims.iter().product();
            let want: Vec<T> = (0..count as usize)
                .map(|i| {
                    let (outer, k, rest) = (i / inner / n, i / inner % n, i % inner);
                    let id = ids[k].to_f64();
                    if ids[k] == absent || id >= bound as f64 {
                        return T::default();
                    }
                    x_values[(outer * bound as usize + id as usize) * inner + rest]
                })
                .collect();
            assert_exact(&format!("index_select {dims:?} axis {axis}"), &pick(&y, &y_layout), &want);
            check_untouched(&y, &y_layout, T::from_f64(201.0));
            let got = record.get();
            if n > 2 {
                let parts = (got.state, got.op, got.operand, got.position, got.index, got.bound);
                assert_eq!(parts, (2, 4, 1, 2, bound as i64 + 3, bound));
            } else {
                assert_eq!(got, ErrorRecord::default());
            }
        }
    }
}

#[test]
fn index_select_of_every_index_type() {
    selects::<u8, u8>(u8::MAX);
    selects::<u32, f16>(u32::MAX);
    selects::<i32, f32>(i32::MAX);
    selects::<i64, f64>(i64::MAX);
    selects::<u32, f32>(u32::MAX);
}

#[test]
fn negative_indices_are_errors() {
    let x = Buffer::new(&[1f32, 2.0, 3.0], 0);
    let (ids, y) = (Buffer::new(&[1i64, -1], 0), Buffer::filled(9f32, 2, 0));
    let (row, pair) = (Layout::contiguous(&[3]), Layout::contiguous(&[2]));
    let record = Record::default();
    let slot = record.slot();
    let report = Report { error: slot.address(), op: 1, operand: 2 };
    let views = [view(&x, &row), view(&ids, &pair), view(&y, &pair)];
    let (launch, args) = index::select(&[2], 0, 3, views, report, &device(32)).expect("a kernel");
    run(32, &launch, &args);
    assert_eq!(y.slice(), [2.0, 0.0]);
    assert_eq!((record.get().position, record.get().index), (1, -1));
    // The slot is claimed: another launch keeps the first fault.
    let later = Report { error: slot.address(), op: 9, operand: 2 };
    let views = [view(&x, &row), view(&ids, &pair), view(&y, &pair)];
    let (launch, args) = index::select(&[2], 0, 3, views, later, &device(32)).expect("a kernel");
    run(32, &launch, &args);
    assert_eq!((slot.get().claimed, record.get().op), (1, 1));
}

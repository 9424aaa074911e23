//! gather, scatter and scatter_add, with every kind of index.
use crate::data::{Buffer, Element, Layout, check_untouched, pick, view};
use crate::host::{Record, WAVES, device, run};
use ops_kernels::OperandView;
use ops_kernels::index::Report;
use ops_kernels::scatter::{self, Plan, Step};

/// Duplicates, "no element" and, at position 4, an index out of range.
const IDS: [i32; 6] = [2, 0, i32::MAX, 2, 9, 1];

/// Runs all launches; the workspace holds what is no number before.
fn execute(wave: u32, plan: &Plan) {
    let workspace = Buffer::filled(-1i64, plan.workspace as usize / 8 + 2, 0);
    for at in 0..plan.launches {
        match plan.step(at, workspace.address()) {
            Step::Sort(launch, args) => run(wave, &launch, &args),
            Step::Scatter(launch, args) => run(wave, &launch, &args),
        }
    }
    workspace.check_guards();
}

fn reported(record: &Record) -> (u32, u64, i64, u64) {
    let got = record.get();
    (got.state, got.position, got.index, got.bound)
}

/// Rows of many elements, so that blocks take several tiles and the last ones none.
fn gather_rows<I: Element>(none: I, wrong: I, offset: usize) {
    let (rows, n, bound) = (5, 20_000usize, 5003);
    let place = |i: usize| i * 7919 % bound;
    let mut numbers: Vec<I> = (0..rows * n).map(|i| I::from_f64((place(i) % 200) as f64)).collect();
    (numbers[6], numbers[rows * n - 1], numbers[2 * n + 4321]) = (none, none, wrong);
    let ids = Buffer::new(&numbers, offset);
    let x = Buffer::new(&(0..rows * bound).map(|v| v as f32).collect::<Vec<f32>>(), 0);
    let dims = [rows as u64, n as u64];
    let (of_x, of_y) = (Layout::contiguous(&[rows as u64, bound as u64]), Layout::contiguous(&dims));
    for wave in WAVES {
        let (record, y) = (Record::default(), Buffer::filled(77f32, rows * n, 0));
        let slot = record.slot();
        let report = Report { error: slot.address(), op: 1, operand: 0 };
        let views = [view(&x, &of_x), view(&ids, &of_y), view(&y, &of_y)];
        let (launch, args) =
            scatter::gather(&dims, 1, bound as u64, views, report, &device(wave)).expect("a kernel");
        assert!(args.turns > 1 && args.ids_packs == u32::from(offset == 0));
        run(wave, &launch, &args);
        for (i, got) in y.slice().iter().enumerate() {
            let absent = numbers[i] == none || numbers[i] == wrong;
            let want = if absent { 0.0 } else { (i / n * bound + place(i) % 200) as f32 };
            assert_eq!(*got, want, "{i}");
        }
        y.check_guards();
        let (state, position, _, bound) = reported(&record);
        assert_eq!((state, position, bound), (2, 2 * n as u64 + 4321, 5003));
    }
}

#[test]
fn a_gather_of_packs_and_tiles() {
    for offset in [0, 1] {
        gather_rows::<u32>(u32::MAX, u32::MAX - 1, offset);
        gather_rows::<i32>(i32::MAX, -1, offset);
        gather_rows::<i64>(i64::MAX, i64::MIN, offset);
    }
}

#[test]
fn a_gather_reads_along_an_axis() {
    // Three rows of two, of which six are taken in each column.
    let (x_layout, y_layout) = (Layout::scattered(&[3, 2]), Layout::padded(&[6, 2], 3));
    let x = Buffer::new(&(0..x_layout.len).map(|v| v as f32).collect::<Vec<f32>>(), 1);
    let ids = Buffer::new(&IDS, 0);
    // The same indices in both columns.
    let ids_layout = Layout::new(&[6, 2], vec![1, 0]);
    for wave in WAVES {
        let (record, y) = (Record::default(), Buffer::filled(77f32, y_layout.len, 0));
        let slot = record.slot();
        let report = Report { error: slot.address(), op: 1, operand: 0 };
        let views = [view(&x, &x_layout), view(&ids, &ids_layout), view(&y, &y_layout)];
        let (launch, args) = scatter::gather(&[6, 2], 0, 3, views, report, &device(wave)).expect("a kernel");
        run(wave, &launch, &args);
        let rows = pick(&x, &x_layout);
        let row = |id: i32| usize::try_from(id).ok().filter(|id| *id < 3);
        let want: Vec<f32> =
            (0..12).map(|at| row(IDS[at / 2]).map_or(0.0, |id| rows[id * 2 + at % 2])).collect();
        assert_eq!(pick(&y, &y_layout), want);
        check_untouched(&y, &y_layout, 77.0);
        let (state, position, index, bound) = reported(&record);
        assert!((state, index, bound) == (2, 9, 3) && [8, 9].contains(&position), "{position}");
    }
}

#[test]
fn scatters_write_in_order_and_skip_what_is_no_element() {
    let layout = Layout::contiguous(&[6]);
    let src = Buffer::new(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], 0);
    let ids = Buffer::new(&IDS, 0);
    for (op, want) in [("scatter", [2.0, 6.0, 4.0, 10.0]), ("scatter_add", [12.0, 16.0, 15.0, 10.0])] {
        for wave in WAVES {
            let (record, dst) = (Record::default(), Buffer::filled(10f32, 4, 1));
            let slot = record.slot();
            let report = Report { error: slot.address(), op: 1, operand: 0 };
            let of_dst = Layout::contiguous(&[4]);
            let views: [OperandView<'_>; 3] = [view(&dst, &of_dst), view(&ids, &layout), view(&src, &layout)];
            let plan =
                scatter::scatter(op, &[6], 0, (4, false), views, report, &device(wave)).expect("a kernel");
            execute(wave, &plan);
            assert_eq!(dst.slice(), want, "{op}");
            dst.check_guards();
            assert_eq!(reported(&record), (2, 4, 9, 4));
        }
    }
}

/// Few lines of many indices are sorted first; many lines are walked. Both give the sums of whole numbers, and the last of
/// several values.
#[test]
fn few_long_lines_and_many_short_ones() {
    for (dims, axis) in [([2usize, 3001], 1), ([3001, 2], 0), ([40, 70], 0), ([70, 40], 1)] {
        let (rows, columns) = (dims[0], dims[1]);
        let len = rows * columns;
        let places: Vec<u32> = (0..len).map(|i| ((i * 7919 + i / 13) % 11) as u32).collect();
        let values: Vec<f32> = (0..len).map(|i| (i % 17) as f32).collect();
        let of_dst = if axis == 0 { [12, columns] } else { [rows, 12] };
        for (op, wave) in ["scatter", "scatter_add"].into_iter().flat_map(|op| WAVES.map(|wave| (op, wave))) {
            let mut want = vec![5f32; of_dst[0] * of_dst[1]];
            for (i, (place, v)) in places.iter().zip(&values).enumerate() {
                let (r, c) = (i / columns, i % columns);
                let (r, c) = if axis == 0 { (*place as usize, c) } else { (r, *place as usize) };
                let to = &mut want[r * of_dst[1] + c];
                *to = if op == "scatter" { *v } else { *to + v };
            }
            let (ids, src) = (Buffer::new(&places, 0), Buffer::new(&values, 1));
            let dst = Buffer::filled(5f32, want.len(), 1);
            let (layout, to) =
                (Layout::contiguous(&dims.map(|d| d as u64)), Layout::contiguous(&of_dst.map(|d| d as u64)));
            let views = [view(&dst, &to), view(&ids, &layout), view(&src, &layout)];
            let on = [rows as u64, columns as u64];
            let plan = scatter::scatter(op, &on, axis, (12, false), views, Report::default(), &device(wave));
            let plan = plan.expect("a kernel");
            assert_eq!(plan.launches > 1, rows.max(columns) > 3000, "{dims:?}");
            execute(wave, &plan);
            assert_eq!(dst.slice(), want, "{op} {dims:?} along {axis}");
            dst.check_guards();
        }
    }
}

//! Reductions, running sums and sorts of whole numbers, which no order of additions rounds: rows and columns, split into parts
//! and not, on either wave size.
use crate::data::{Buffer, Layout, Random, assert_exact, pick, view};
use crate::host::{WAVES, device, run};
use ops_kernels::reduce::{self, ReduceArgs, Reduction};
use ops_kernels::scan::{self, ScanArgs};
use ops_kernels::sort;
use ops_kernels::{ElementType, OperandView};

/// Small whole numbers, many of them equal.
fn numbers(len: usize) -> Vec<f32> {
    let mut random = Random::new(len as u64);
    (0..len).map(|_| random.below(33) as f32 - 16.0).collect()
}

/// Reduces the first or the last dimension of `[rows, n]`; returns the results as f64 and how many launches it took.
fn reduced(op: &str, x: &Buffer<f32>, [rows, n]: [u64; 2], last: bool, wave: u32) -> (Vec<f64>, usize) {
    let (kept, reduced) = if last { (rows, n) } else { (n, rows) };
    let (along_kept, along) = if last { ([n as i64], [1i64]) } else { ([1], [n as i64]) };
    let y = Buffer::filled(0i64, kept as usize, 0);
    let index = op.starts_with("arg");
    let on = Reduction {
        kept: &[kept],
        x: OperandView { data: x.address(), strides: &along_kept, dtype: ElementType::F32 },
        // Results of four bytes each, two words apart.
        y: OperandView { data: y.address(), strides: &[2], dtype: ElementType::F32 },
        reduced: &[reduced],
        along: &along,
    };
    let plan = reduce::prepare(op, &on, &device(wave)).expect("a kernel");
    let partial = Buffer::filled(-1i64, plan.workspace as usize / 8 + 1, 0);
    let args = ReduceArgs { partial: partial.address(), ..plan.args };
    run(wave, &plan.main, &args);
    if let Some(combine) = plan.combine {
        run(wave, &combine, &args.combining(wave));
    }
    let value = |word: &i64| {
        let bits = *word as u32;
        if index { f64::from(bits) } else { f64::from(f32::from_bits(bits)) }
    };
    (y.slice().iter().map(value).collect(), 1 + usize::from(plan.combine.is_some()))
}

#[test]
fn rows_and_columns_in_parts_and_whole() {
    let mut launches = [0; 2];
    for dims in
        [[1, 70_001], [1, 65_536], [3, 40], [200, 5], [9000, 40], [9000, 20], [70, 600], [9001, 33], [2, 1]]
    {
        let [rows, n] = dims;
        let values = numbers((rows * n) as usize);
        let x = Buffer::new(&values, 0);
        for (wave, last) in WAVES.into_iter().flat_map(|wave| [(wave, true), (wave, false)]) {
            let count = if last { rows } else { n };
            let group = |i: u64| -> Vec<f64> {
                let at = |j: u64| if last { i * n + j } else { j * n + i };
                (0..rows * n / count).map(|j| f64::from(values[at(j) as usize])).collect()
            };
            let first = |x: &[f64], best: f64| x.iter().position(|v| *v == best).map_or(-1.0, |i| i as f64);
            for op in ["sum", "max", "min", "argmax", "argmin"] {
                let (got, took) = reduced(op, &x, dims, last, wave);
                launches[took - 1] += 1;
                for (i, got) in (0..count).zip(got) {
                    let x = group(i);
                    let (low, high) = (
                        x.iter().copied().fold(f64::NAN, f64::min),
                        x.iter().copied().fold(f64::NAN, f64::max),
                    );
                    let want = match op {
                        "sum" => x.iter().sum(),
                        "max" => high,
                        "min" => low,
                        "argmax" => first(&x, high),
                        _ => first(&x, low),
                    };
                    assert_eq!(got, want, "{op} {dims:?} last {last} output {i} wave {wave}");
                }
            }
        }
    }
    assert!(launches.iter().all(|n| *n > 20), "with and without parts: {launches:?}");
}

#[test]
fn sums_run_across_tiles_and_parts() {
    let mut parts = 0;
    for dims in [[1, 70_001], [2, 65_536], [3, 257], [40, 9], [3, 5000]] {
        let len = (dims[0] * dims[1]) as usize;
        let values = numbers(len);
        let (x, layout) = (Buffer::new(&values, 0), Layout::contiguous(&dims));
        let want: Vec<f32> = values
            .chunks(dims[1] as usize)
            .flat_map(|row| {
                row.iter().scan(0.0, |sum, v| {
                    *sum += v;
                    Some(*sum)
                })
            })
            .collect();
        for wave in WAVES {
            let y = Buffer::filled(77f32, len, 0);
            let plan =
                scan::prepare(&dims, view(&x, &layout), view(&y, &layout), &device(wave)).expect("a kernel");
            let partial = Buffer::filled(-1i64, plan.workspace as usize / 8 + 1, 0);
            let args = ScanArgs { partial: partial.address(), ..plan.args };
            run(wave, &plan.launch, &args);
            if plan.workspace > 0 {
                run(wave, &plan.launch, &ScanArgs { totals: 0, ..args });
                parts += 1;
            }
            assert_exact(&format!("cumsum {dims:?} wave {wave}"), &pick(&y, &layout), &want);
        }
    }
    assert!(parts >= 2, "{parts} in parts");
}

#[test]
fn rows_of_any_length_are_sorted() {
    for (dims, keep) in
        [([3, 1], 1), ([70, 5], 5), ([2, 1024], 1024), ([2, 1025], 1025), ([1, 9001], 9001), ([2, 9001], 50)]
    {
        let [rows, n] = dims.map(|d| d as usize);
        let values = numbers(rows * n);
        let (x, layout) = (Buffer::new(&values, 1), Layout::contiguous(&dims));
        let to = Layout::contiguous(&[dims[0], keep]);
        for (wave, descending) in WAVES.into_iter().flat_map(|wave| [(wave, false), (wave, true)]) {
            let (y, indices) = (Buffer::filled(77f32, to.len, 0), Buffer::filled(77i32, to.len, 0));
            let sorting = sort::Sort {
                x: view(&x, &layout),
                values: Some(view(&y, &to)),
                indices: Some(view(&indices, &to)),
                keep,
                descending,
            };
            let plan = sort::prepare(&dims, &sorting, &device(wave)).expect("a kernel");
            let halves = Buffer::filled(-1i64, 2 * plan.half as usize / 8 + 1, 0);
            for at in 0..plan.launches {
                let (launch, args) = plan.launch(at, halves.address());
                run(wave, &launch, &args);
            }
            let (mut want, mut want_indices) = (Vec::new(), Vec::new());
            for row in values.chunks(n) {
                let mut order: Vec<usize> = (0..n).collect();
                order.sort_by(|i, j| {
                    if descending { row[*j].total_cmp(&row[*i]) } else { row[*i].total_cmp(&row[*j]) }
                });
                want.extend(order.iter().take(keep as usize).map(|i| row[*i]));
                want_indices.extend(order.iter().take(keep as usize).map(|i| *i as i32));
            }
            let what = format!("{dims:?} keep {keep} descending {descending} wave {wave}");
            assert_exact(&what, &pick(&indices, &to), &want_indices);
            assert_exact(&what, &pick(&y, &to), &want);
        }
    }
}

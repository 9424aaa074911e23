//! Bugs of candle 0.11 that must not occur here: one test for each, named after it, on every backend.
//!
//! `docs/candle.md` lists them.
mod layouts_and_rounding;

use rocm_ops::ops::registry::{Refused, by_name};
use rocm_ops::ops::*;
use rocm_ops::{Backend, Cpu, DType, Either, Float, Num, Reference, Rocm, Scalar, TensorOf, bf16, f16};
use standin_testing::with_standin;

/// Any of the backends, chosen at run time.
pub(crate) type Any = Either<Rocm, Either<Cpu, Reference>>;

/// Runs a test on the CPU backends, and on the stand-in with waves of 32 and 64.
fn everywhere(test: &str, body: fn(&Any)) {
    on_all(&format!("defects::{test}"), body);
}

/// The same for a test of any module.
pub(crate) fn on_all(name: &str, body: fn(&Any)) {
    body(&Either::Right(Either::Right(Reference::new())));
    body(&Either::Right(Either::Left(Cpu::new())));
    with_standin(name, &[], |_| body(&Either::Left(Rocm::new().unwrap())));
}

fn tensor<T: Scalar>(b: &Any, dims: &[usize], values: impl IntoIterator<Item = f64>) -> TensorOf<Any, T> {
    let values: Vec<T> = values.into_iter().map(T::from_f64).collect();
    b.tensor(dims, &values).unwrap()
}

fn read<T: Scalar>(b: &Any, x: &TensorOf<Any, T>) -> Vec<f64> {
    x.to_vec(b).unwrap().into_iter().map(Scalar::to_f64).collect()
}

#[test]
fn sums_of_halves_stop_growing() {
    fn sums<T: Float>(b: &Any) {
        let x = tensor::<T>(b, &[1, 4096], vec![1.0; 4096]);
        assert_eq!(read(b, &b.sum(&x, -1).unwrap()), [4096.0]);
        assert_eq!(read(b, &b.mean(&x, -1).unwrap()), [1.0]);
        let columns = x.as_ref().reshape(&[4096, 1]).unwrap();
        assert_eq!(read(b, &b.sum(columns, 0).unwrap()), [4096.0]);
        let p = b.softmax(&x, Softmax::axis(-1)).unwrap();
        assert_eq!(read(b, &p), vec![1.0 / 4096.0; 4096]);
        let mut place = tensor::<T>(b, &[1], [0.0]);
        let ids = b.tensor(&[4096], &[0u32; 4096]).unwrap();
        let flat = x.as_ref().reshape(&[4096]).unwrap();
        b.index_add(&mut place, &ids, flat, IndexAdd::axis(0)).unwrap();
        assert_eq!(read(b, &place), [4096.0]);
    }
    everywhere("sums_of_halves_stop_growing", |b| {
        sums::<f16>(b);
        sums::<bf16>(b);
    });
}

#[test]
fn nan_is_kept_or_lost_by_order_type_and_device() {
    fn nan<T: Float>(b: &Any) {
        let (x, y) = (tensor::<T>(b, &[2], [f64::NAN, 1.0]), tensor::<T>(b, &[2], [1.0, f64::NAN]));
        let results = [
            b.maximum(&x, &y),
            b.minimum(&x, &y),
            b.maximum(&y, &x),
            b.minimum(&y, &x),
            b.relu(&b.add(&x, &y).unwrap()),
            b.clamp(&b.mul(&x, &y).unwrap(), T::from_f64(0.0), T::from_f64(1.0)),
            b.max(&x, Axes::ALL),
            b.min(&x, Axes::ALL),
            b.max(&y, -1),
            b.min(&y, -1),
        ];
        for (at, result) in results.into_iter().enumerate() {
            assert!(read(b, &result.unwrap()).iter().all(|v| v.is_nan()), "{}, result {at}", T::DTYPE);
        }
        // The first NaN, wherever it is.
        for at in [0, 1, 700, 1499] {
            let row: Vec<f64> = (0..1500).map(|i| if i == at { f64::NAN } else { f64::from(i) }).collect();
            let row = tensor::<T>(b, &[1500], row);
            let found = [b.argmax(&row, 0), b.argmin(&row, 0)].map(|i| i.unwrap().to_vec(b).unwrap());
            assert_eq!(found, [[at as u32], [at as u32]], "{}", T::DTYPE);
        }
    }
    everywhere("nan_is_kept_or_lost_by_order_type_and_device", |b| {
        nan::<f32>(b);
        nan::<f64>(b);
        nan::<f16>(b);
        nan::<bf16>(b);
    });
}

#[test]
fn a_tie_beyond_1024_columns_goes_to_a_later_index() {
    everywhere("a_tie_beyond_1024_columns_goes_to_a_later_index", |b| {
        let row: Vec<f64> =
            (0..4096).map(|i| if [1, 1024, 2048, 4000].contains(&i) { 5.0 } else { 0.0 }).collect();
        for dims in [[1, 4096], [4096, 1]] {
            let axis = if dims[0] == 1 { 1 } else { 0 };
            let x = tensor::<f32>(b, &dims, row.clone());
            assert_eq!(b.argmax(&x, axis).unwrap().to_vec(b).unwrap(), [1]);
            assert_eq!(b.argmin(&x, axis).unwrap().to_vec(b).unwrap(), [0]);
        }
    });
}

#[test]
fn rope_takes_rows_of_another_batch_from_long_tables() {
    everywhere("rope_takes_rows_of_another_batch_from_long_tables", |b| {
        // Two batches of 3 tokens, with tables of 5 rows.
        let numbers = |n: usize, by: f64| (0..n).map(move |i| (i as f64 * by).sin());
        let x = tensor::<f32>(b, &[2, 1, 3, 4], numbers(24, 0.7));
        let (cos, sin) =
            (tensor::<f32>(b, &[2, 5, 2], numbers(20, 0.3)), tensor(b, &[2, 5, 2], numbers(20, 0.9)));
        let y = b.rope(&x, &cos, &sin, Rope::new(RopeForm::Half)).unwrap();
        for batch in 0..2 {
            let one = |t: &TensorOf<Any, f32>| t.as_ref().narrow(0, batch, 1).unwrap().to_vec(b).unwrap();
            let x = b.tensor(&[1, 1, 3, 4], &one(&x)).unwrap();
            let [cos, sin] = [&cos, &sin].map(|table| b.tensor(&[5, 2], &one(table)).unwrap());
            let alone = b.rope(&x, &cos, &sin, Rope::new(RopeForm::Half)).unwrap();
            assert_eq!(one(&y), alone.to_vec(b).unwrap(), "batch {batch}");
        }
    });
}

#[test]
fn rows_beyond_8192_columns_cannot_be_sorted() {
    everywhere("rows_beyond_8192_columns_cannot_be_sorted", |b| {
        let n = 20_000u32;
        let values: Vec<f64> = (0..n).map(|i| f64::from(i.wrapping_mul(2_654_435_761) % 5000)).collect();
        let x = tensor::<f32>(b, &[n as usize], values.clone());
        let mut want: Vec<u32> = (0..n).collect();
        want.sort_by(|i, j| values[*i as usize].total_cmp(&values[*j as usize]));
        assert_eq!(b.argsort(&x, ArgSort::axis(-1)).unwrap().to_vec(b).unwrap(), want);
    });
}

#[test]
fn nan_leaves_rows_unsorted() {
    everywhere("nan_leaves_rows_unsorted", |b| {
        let x = tensor::<f32>(b, &[6], [3.0, f64::NAN, 1.0, f64::NAN, 2.0, f64::NEG_INFINITY]);
        assert_eq!(b.argsort(&x, ArgSort::axis(-1)).unwrap().to_vec(b).unwrap(), [5, 2, 4, 0, 1, 3]);
        let down = b.argsort(&x, ArgSort::axis(-1).descending()).unwrap();
        assert_eq!(down.to_vec(b).unwrap(), [1, 3, 0, 4, 2, 5]);
        let sorted = read(b, &b.sort(&x, Sort::axis(-1)).unwrap());
        assert_eq!(sorted[..4], [f64::NEG_INFINITY, 1.0, 2.0, 3.0]);
        assert!(sorted[4..].iter().all(|v| v.is_nan()));
    });
}

#[test]
fn pairs_of_types_cannot_be_cast() {
    fn to_all<S: Scalar>(b: &Any) {
        let x = tensor::<S>(b, &[3], [0.0, 1.0, 100.0]);
        fn from<S: Scalar, T: Scalar>(b: &Any, x: &TensorOf<Any, S>) {
            let y: TensorOf<Any, T> = b.cast(x).unwrap();
            // 100 lies between two values of f8e4m3.
            let third = if [S::DTYPE, T::DTYPE].contains(&DType::F8E4M3) { 96.0 } else { 100.0 };
            assert_eq!(read(b, &y), [0.0, 1.0, third], "{} to {}", S::DTYPE, T::DTYPE);
        }
        from::<S, u8>(b, &x);
        from::<S, i8>(b, &x);
        from::<S, i16>(b, &x);
        from::<S, i32>(b, &x);
        from::<S, i64>(b, &x);
        from::<S, u32>(b, &x);
        from::<S, f16>(b, &x);
        from::<S, bf16>(b, &x);
        from::<S, f32>(b, &x);
        from::<S, f64>(b, &x);
        from::<S, rocm_ops::F8E4M3>(b, &x);
    }
    everywhere("pairs_of_types_cannot_be_cast", |b| {
        to_all::<u8>(b);
        to_all::<i8>(b);
        to_all::<i16>(b);
        to_all::<i32>(b);
        to_all::<i64>(b);
        to_all::<u32>(b);
        to_all::<f16>(b);
        to_all::<bf16>(b);
        to_all::<f32>(b);
        to_all::<f64>(b);
        to_all::<rocm_ops::F8E4M3>(b);
    });
}

#[test]
fn i16_and_i32_have_no_kernels() {
    fn ops<T: Num>(b: &Any) {
        let x = tensor::<T>(b, &[2, 2], [4.0, 3.0, 2.0, 1.0]);
        assert_eq!(read(b, &b.add(&x, &x).unwrap()), [8.0, 6.0, 4.0, 2.0]);
        assert_eq!(read(b, &b.sum(&x, -1).unwrap()), [7.0, 3.0]);
        assert_eq!(read(b, &b.max(&x, 0).unwrap()), [4.0, 3.0]);
        assert_eq!(b.lt(&x, &x).unwrap().to_vec(b).unwrap(), [0; 4]);
        assert_eq!(read(b, &b.sort(&x, Sort::axis(-1)).unwrap()), [3.0, 4.0, 1.0, 2.0]);
        let cond = b.tensor(&[2, 2], &[1i32, 0, 0, 1]).unwrap();
        let zero = tensor::<T>(b, &[1], [0.0]);
        assert_eq!(read(b, &b.where_(&cond, &x, &zero).unwrap()), [4.0, 0.0, 0.0, 1.0]);
        let ids = b.tensor(&[1], &[1i32]).unwrap();
        assert_eq!(read(b, &b.index_select(&x, &ids, IndexSelect::axis(0)).unwrap()), [2.0, 1.0]);
    }
    everywhere("i16_and_i32_have_no_kernels", |b| {
        ops::<i16>(b);
        ops::<i32>(b);
    });
}

#[test]
fn floats_wrap_or_saturate_by_device() {
    everywhere("floats_wrap_or_saturate_by_device", |b| {
        let x = tensor::<f32>(b, &[5], [300.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
        let bytes: TensorOf<Any, u8> = b.cast(&x).unwrap();
        assert_eq!(bytes.to_vec(b).unwrap(), [255, 0, 255, 0, 0]);
        let words: TensorOf<Any, i64> = b.cast(&x).unwrap();
        assert_eq!(words.to_vec(b).unwrap(), [300, -1, i64::MAX, i64::MIN, 0]);
    });
}

#[test]
fn division_of_integers_by_zero_panics() {
    everywhere("division_of_integers_by_zero_panics", |b| {
        let (x, y) = (b.tensor(&[3], &[7i32, i32::MIN, 6]).unwrap(), b.tensor(&[3], &[0i32, -1, 4]).unwrap());
        assert_eq!(b.div(&x, &y).unwrap().to_vec(b).unwrap(), [0, i32::MIN, 1]);
    });
}

#[test]
fn functions_of_floats_panic_or_give_zero_for_integers() {
    struct Options;
    impl registry::Options for Options {
        type Error = Refused;
        fn operand(&self, _: &'static str) -> Result<DType, Refused> {
            Ok(DType::I32)
        }
        fn number(&self, _: &'static str) -> Result<Option<f64>, Refused> {
            Ok(Some(1.0))
        }
        fn value(&self, _: &'static str) -> Result<Option<rocm_ops::Wide>, Refused> {
            Ok(None)
        }
        fn count(&self, _: &'static str) -> Result<Option<usize>, Refused> {
            Ok(None)
        }
        fn axis(&self, _: &'static str) -> Result<Option<isize>, Refused> {
            Ok(None)
        }
        fn counts(&self, _: &'static str) -> Result<Option<Vec<usize>>, Refused> {
            Ok(None)
        }
        fn axes(&self, _: &'static str) -> Result<Option<Axes>, Refused> {
            Ok(None)
        }
        fn flag(&self, _: &'static str) -> Result<Option<bool>, Refused> {
            Ok(None)
        }
        fn window(&self, _: &'static str) -> Result<Option<registry::Window>, Refused> {
            Ok(None)
        }
        fn dtype(&self, _: &'static str) -> Result<Option<DType>, Refused> {
            Ok(None)
        }
        fn word(&self, _: &'static str, _: &[&'static str]) -> Result<Option<usize>, Refused> {
            Ok(None)
        }
    }
    struct Made;
    impl registry::Visit<Reference> for Made {
        type Answer = ();
        fn visit<O: rocm_ops::backend::Op>(self, _: O)
        where
            Reference: rocm_ops::backend::Execute<O>,
        {
        }
    }
    // The methods do not compile for integers, and the ops are refused by name.
    for f in UnaryFn::ALL {
        let made = by_name::<Reference, _, _>(f.name(), DType::I32, &Options, Made);
        let want =
            if f.on_integers() { Ok(()) } else { Err(Refused::Type { op: f.name(), dtype: DType::I32 }) };
        assert_eq!(made, want, "{}", f.name());
    }
    everywhere("functions_of_floats_panic_or_give_zero_for_integers", |b| {
        let x = b.tensor(&[3], &[-2i32, 0, 3]).unwrap();
        assert_eq!(b.abs(&x).unwrap().to_vec(b).unwrap(), [2, 0, 3]);
        assert_eq!(b.sign(&x).unwrap().to_vec(b).unwrap(), [-1, 0, 1]);
        assert_eq!(b.relu(&x).unwrap().to_vec(b).unwrap(), [0, 0, 3]);
    });
}

/// The rows of the tables of `docs/candle.md`.
fn documented() -> Vec<Vec<&'static str>> {
    let lines = include_str!("../../docs/candle.md").lines().filter(|line| line.starts_with('|'));
    lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// The words in backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn the_table_of_defects_is_that_of_these_tests() {
    let files = [include_str!("defects.rs"), include_str!("defects/layouts_and_rounding.rs")];
    let tests: Vec<&str> = files
        .iter()
        .flat_map(|file| file.split("#[test]\nfn ").skip(1))
        .filter_map(|test| test.split('(').next())
        .filter(|name| !name.starts_with("the_table_of_"))
        .collect();
    let rows = documented();
    let listed: Vec<&str> = rows
        .iter()
        .filter_map(|row| quoted(row.last()?).next())
        .filter(|name| tests.contains(name))
        .collect();
    assert_eq!(listed, tests);
}

#[test]
fn the_table_of_ops_names_ops_that_exist() {
    let mut seen = 0;
    for row in documented().iter().filter(|row| row.len() == 3) {
        for name in quoted(row[1]).filter(|name| !name.contains([':', '.'])) {
            assert!(registry::find(name).is_some(), "docs/candle.md: `{name}` is not an op: {row:?}");
            seen += 1;
        }
    }
    assert!(seen > 80, "{seen}");
}

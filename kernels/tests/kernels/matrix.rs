//! The matrix units' layouts: every instruction on matrices that no transpose and no exchange of lanes or
//! elements leaves alike.
use crate::data::{Buffer, Element};
use crate::host::run_on;
use half::{bf16, f16};
use ops_kernels::mma_unit::{self, MmaUnitArgs};
use ops_kernels::{Device, ElementType, Matrix, Tuning};

/// A device with these units.
pub(crate) fn device(matrix: Matrix, compute_units: u32) -> Device {
    Device { compute_units, wave: matrix.wave(), matrix: Some(matrix), dot4: None, tuning: Tuning::default() }
}

/// Every sum is exact in S: small integers, different in every row and column.
fn multiply<T: Element, S: Element>(size: u64, matrix: Matrix) {
    let depth = matrix.depth(T::DTYPE, size) as usize;
    let n = size as usize;
    let a = |i: usize, k: usize| ((i * 7 + k * 3) % 23) as f64 - 9.0;
    let b = |k: usize, j: usize| ((k * 5 + j * 11) % 19) as f64 - 7.0;
    let c = |i: usize, j: usize| (i * 64 + j) as f64;
    let filled = |rows: usize, columns: usize, value: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
        (0..rows * columns).map(|at| value(at / columns, at % columns)).collect()
    };
    let in_t = |values: Vec<f64>| Buffer::new(&values.into_iter().map(T::from_f64).collect::<Vec<_>>(), 0);
    let (x, y) = (in_t(filled(n, depth, &a)), in_t(filled(depth, n, &b)));
    let start: Vec<S> = filled(n, n, &c).into_iter().map(S::from_f64).collect();
    let (start, product) = (Buffer::new(&start, 0), Buffer::filled(S::from_f64(-1e6), n * n, 0));
    let args = MmaUnitArgs { a: x.address(), b: y.address(), c: start.address(), d: product.address() };
    let device = device(matrix, 1);
    let launch = mma_unit::prepare_unit(T::DTYPE, size, &device).expect("a unit kernel");
    run_on(&device, &launch, &args);
    product.check_guards();
    for i in 0..n {
        for j in 0..n {
            let want = c(i, j) + (0..depth).map(|k| a(i, k) * b(k, j)).sum::<f64>();
            assert_eq!(product.slice()[i * n + j].to_f64(), want, "{matrix:?} {} at {i}, {j}", T::DTYPE);
        }
    }
}

#[test]
fn every_instruction_multiplies_in_its_layout() {
    for matrix in Matrix::ALL {
        for size in [16, 32].into_iter().filter(|size| *size == 16 || matrix.is_mfma()) {
            multiply::<f16, f32>(size, matrix);
            multiply::<bf16, f32>(size, matrix);
            multiply::<i8, i32>(size, matrix);
        }
    }
}

#[test]
fn there_is_no_unit_kernel_without_units() {
    let none = Device { compute_units: 1, wave: 32, matrix: None, dot4: None, tuning: Tuning::default() };
    assert!(mma_unit::prepare_unit(ElementType::F16, 16, &none).is_err());
    assert!(mma_unit::prepare_unit(ElementType::F16, 32, &device(Matrix::Wmma11, 1)).is_err());
    assert!(mma_unit::prepare_unit(ElementType::F32, 16, &device(Matrix::Wmma11, 1)).is_err());
}

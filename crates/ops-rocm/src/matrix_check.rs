//! Checks that a device's matrix units work as the kernels assume, with one known product per instruction.
use crate::hip::Purpose;
use crate::{Result, Rocm};
use ops_core::{Backend, Scalar, bf16, f16};
use ops_kernels::mma_unit::{MmaUnitArgs, prepare_unit};
use ops_kernels::{ElementType, Matrix};

/// The result of one instruction on a known product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixCheck {
    /// Its name, such as `WMMA 16x16x16 f16`.
    pub instruction: String,
    /// The element type of its operands.
    pub dtype: &'static str,
    /// The first difference, if there is one.
    pub wrong: Option<String>,
}

impl Rocm {
    /// Runs every matrix instruction that this device's kernels use, on matrices that every transpose and
    /// every exchange of lanes would change. Empty if there are no matrix units, or none that the kernels
    /// know.
    ///
    /// # Errors
    /// A kernel cannot be compiled or launched, or an error from HIP.
    pub fn check_matrix_units(&self) -> Result<Vec<MatrixCheck>> {
        let Some(matrix) = self.target().launch_device().matrix else { return Ok(Vec::new()) };
        let mut checks = Vec::new();
        for size in [16, 32].into_iter().filter(|size| *size == 16 || matrix.is_mfma()) {
            checks.push(check::<f16, f32>(self, matrix, ElementType::F16, size)?);
            checks.push(check::<bf16, f32>(self, matrix, ElementType::Bf16, size)?);
            checks.push(check::<i8, i32>(self, matrix, ElementType::I8, size)?);
        }
        Ok(checks)
    }
}

fn check<T: Scalar, S: Scalar>(
    rocm: &Rocm,
    matrix: Matrix,
    t: ElementType,
    size: usize,
) -> Result<MatrixCheck> {
    let depth = matrix.depth(t, size as u64) as usize;
    let instruction = format!("{} {size}x{size}x{depth} {t}", matrix.name());
    let a = |i: usize, k: usize| ((i * 7 + k * 3) % 23) as f64 - 9.0;
    let b = |k: usize, j: usize| ((k * 5 + j * 11) % 19) as f64 - 7.0;
    let c = |i: usize, j: usize| (i * 64 + j) as f64;
    let left: Vec<T> = (0..size * depth).map(|at| T::from_f64(a(at / depth, at % depth))).collect();
    let right: Vec<T> = (0..depth * size).map(|at| T::from_f64(b(at / size, at % size))).collect();
    let start: Vec<S> = (0..size * size).map(|at| S::from_f64(c(at / size, at % size))).collect();
    let (left, right) = (rocm.tensor(&[size, depth], &left)?, rocm.tensor(&[depth, size], &right)?);
    let (start, product) = (rocm.tensor(&[size, size], &start)?, rocm.zeros::<S>(&[size, size])?);
    {
        let stream = rocm.stream();
        let from = [
            left.buffer().memory().access(stream, Purpose::Read)?,
            right.buffer().memory().access(stream, Purpose::Read)?,
            start.buffer().memory().access(stream, Purpose::Read)?,
        ];
        let to = product.buffer().memory().access(stream, Purpose::Write)?;
        let [a, b, c] = [&from[0], &from[1], &from[2]].map(|access| access.address() as u64);
        let args = MmaUnitArgs { a, b, c, d: to.address() as u64 };
        let step = prepare_unit(t, size as u64, rocm.target().launch_device()).map(|launch| (launch, args));
        // SAFETY: the four matrices have the sizes that the kernel expects, and the stream may access them.
        unsafe { rocm.kernels().run_one(rocm.stream(), "checking matrix units", step) }?;
    }
    let got = product.as_ref().to_vec(rocm)?;
    let wrong = (0..size * size).find_map(|at| {
        let (i, j) = (at / size, at % size);
        let want = c(i, j) + (0..depth).map(|k| a(i, k) * b(k, j)).sum::<f64>();
        let got = got[at].to_f64();
        (got != want).then(|| format!("row {i}, column {j}: {got}, expected {want}"))
    });
    Ok(MatrixCheck { instruction, dtype: t.name(), wrong })
}

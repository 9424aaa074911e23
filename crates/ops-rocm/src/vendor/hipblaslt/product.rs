//! Products in hipBLASLt's terms, and the kernels that it chose for them.
use super::super::library::{Failure, Lib, check};
use super::{HipBlasLtHandle, HipBlasLtLibrary};
use hipblaslt_sys as sys;
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::{from_ref, null_mut};

/// `d = op(a) · op(b) + beta · d + bias`, column-major, without addresses. The sum is computed in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Product {
    /// Rows of `d`.
    pub(crate) m: i32,
    /// Columns of `d`.
    pub(crate) n: i32,
    pub(crate) k: i32,
    pub(crate) batch: i32,
    pub(crate) a: Factor,
    pub(crate) b: Factor,
    pub(crate) d: Factor,
    pub(crate) types: Types,
    /// Whether `beta` is 1; it is 0 otherwise, and `d` is not read.
    pub(crate) adds: bool,
}

/// A matrix, optionally transposed, in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Factor {
    pub(crate) transposed: bool,
    pub(crate) ld: i32,
    pub(crate) stride: i64,
}

/// The type of all matrices, and that of a bias with one element per row of `d`, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Types {
    pub(crate) matrices: sys::hipDataType,
    pub(crate) bias: Option<sys::hipDataType>,
}

/// Bytes of workspace that a kernel may use: the limit in AMD's examples.
const MAX_WORKSPACE: u64 = 32 << 20;

/// The kernels chosen so far, by product; `None` if there is no kernel.
#[derive(Default)]
pub(super) struct Chosen {
    kernels: HashMap<Product, Option<ProductKernel>>,
}

impl Chosen {
    /// Capacity. When it is full, it is cleared: choosing again takes some microseconds.
    const CAPACITY: usize = 1024;

    /// Clears all kernels, and destroys their descriptors.
    pub(super) fn clear(&mut self) {
        self.kernels.clear();
    }
}

/// A kernel for a product, with the descriptors needed to launch it.
struct ProductKernel {
    objects: Descriptors,
    algorithm: sys::hipblasLtMatmulAlgo_t,
    workspace: usize,
}

impl HipBlasLtHandle {
    /// The bytes of workspace that the kernel for a product needs; `None` if there is no kernel.
    ///
    /// # Errors
    /// An error of the library.
    pub(crate) fn workspace(
        &mut self,
        lib: &Lib<HipBlasLtLibrary>,
        product: &Product,
    ) -> Result<Option<usize>, Failure> {
        Ok(self.kernel(lib, product)?.1.map(|kernel| kernel.workspace))
    }

    /// Enqueues a product. `workspace` is an address and a number of bytes.
    ///
    /// # Safety
    /// The handle's device is the current one. The addresses are those of matrices as `product` describes
    /// them, of a bias if it has one, and of a workspace as large as [`workspace`](Self::workspace) says; the
    /// handle's stream may access all of them.
    pub(crate) unsafe fn enqueue(
        &mut self,
        lib: &Lib<HipBlasLtLibrary>,
        product: &Product,
        [a, b, d]: [*mut c_void; 3],
        bias: Option<*const c_void>,
        workspace: (*mut c_void, usize),
    ) -> Result<(), Failure> {
        const CALL: &str = "hipblasLtMatmul";
        let stream = self.stream;
        let (raw, kernel) = self.kernel(lib, product)?;
        let failure = |status: &str| Failure::of(CALL, status);
        let ProductKernel { objects, algorithm, workspace: needed } =
            kernel.ok_or_else(|| failure("there is no longer a kernel for this product"))?;
        if workspace.1 < *needed {
            return Err(failure("the kernel needs more workspace than it reported"));
        }
        if let Some(bias) = bias {
            objects.set(sys::HIPBLASLT_MATMUL_DESC_BIAS_POINTER, &bias)?;
        }
        let (alpha, beta) = (1f32, if product.adds { 1f32 } else { 0f32 });
        let [layout_a, layout_b, layout_d] = objects.layouts;
        // SAFETY: handle, descriptors and algorithm belong together; the factors live on the host; the caller
        // guarantees that the addresses match the descriptors.
        let status = unsafe {
            lib.hipblasLtMatmul(
                raw,
                objects.desc,
                from_ref(&alpha).cast(),
                a,
                layout_a,
                b,
                layout_b,
                from_ref(&beta).cast(),
                d,
                layout_d,
                d,
                layout_d,
                algorithm,
                workspace.0,
                workspace.1,
                stream,
            )
        };
        check::<HipBlasLtLibrary>(lib, CALL, status)
    }

    /// The kernel for a product, chosen on first use.
    fn kernel(
        &mut self,
        lib: &Lib<HipBlasLtLibrary>,
        product: &Product,
    ) -> Result<(sys::hipblasLtHandle_t, Option<&ProductKernel>), Failure> {
        let HipBlasLtHandle { raw, chosen, .. } = self;
        if !chosen.kernels.contains_key(product) {
            let kernel = choose(lib, *raw, product)?;
            if chosen.kernels.len() >= Chosen::CAPACITY {
                chosen.clear();
            }
            chosen.kernels.insert(*product, kernel);
        }
        Ok((*raw, chosen.kernels.get(product).and_then(Option::as_ref)))
    }
}

/// Asks the library for a kernel.
fn choose(
    lib: &Lib<HipBlasLtLibrary>,
    handle: sys::hipblasLtHandle_t,
    product: &Product,
) -> Result<Option<ProductKernel>, Failure> {
    const CALL: &str = "hipblasLtMatmulAlgoGetHeuristic";
    let objects = Descriptors::new(lib, product)?;
    let preference = Preference::new(lib, MAX_WORKSPACE)?;
    let [a, b, d] = objects.layouts;
    // SAFETY: a C struct of numbers, for which zeros are valid.
    let mut result: sys::hipblasLtMatmulHeuristicResult_t = unsafe { std::mem::zeroed() };
    let mut found = 0;
    // SAFETY: handle and descriptors are live; writes one result and one number.
    let status = unsafe {
        lib.hipblasLtMatmulAlgoGetHeuristic(
            handle,
            objects.desc,
            a,
            b,
            d,
            d,
            preference.raw,
            1,
            &mut result,
            &mut found,
        )
    };
    if status == Ok(sys::HIPBLAS_STATUS_NOT_SUPPORTED) {
        return Ok(None);
    }
    check::<HipBlasLtLibrary>(lib, CALL, status)?;
    let usable = found > 0
        && result.state == sys::HIPBLAS_STATUS_SUCCESS
        && result.workspaceSize as u64 <= MAX_WORKSPACE;
    let kernel = ProductKernel { objects, algorithm: result.algo, workspace: result.workspaceSize };
    Ok(usable.then_some(kernel))
}

/// A product's descriptors, destroyed when dropped.
struct Descriptors {
    lib: Lib<HipBlasLtLibrary>,
    desc: sys::hipblasLtMatmulDesc_t,
    /// Those of `a`, `b` and `d`; null until they are made.
    layouts: [sys::hipblasLtMatrixLayout_t; 3],
}

impl Descriptors {
    fn new(lib: &Lib<HipBlasLtLibrary>, product: &Product) -> Result<Self, Failure> {
        let mut desc = null_mut();
        // SAFETY: writes one descriptor.
        let made =
            unsafe { lib.hipblasLtMatmulDescCreate(&mut desc, sys::HIPBLAS_COMPUTE_32F, sys::HIP_R_32F) };
        check::<HipBlasLtLibrary>(lib, "hipblasLtMatmulDescCreate", made)?;
        let mut objects = Descriptors { lib: lib.clone(), desc, layouts: [null_mut(); 3] };
        let Product { m, n, k, a, b, d, types, .. } = *product;
        objects.set(sys::HIPBLASLT_MATMUL_DESC_TRANSA, &operation(a))?;
        objects.set(sys::HIPBLASLT_MATMUL_DESC_TRANSB, &operation(b))?;
        if let Some(bias) = types.bias {
            objects.set(sys::HIPBLASLT_MATMUL_DESC_EPILOGUE, &sys::HIPBLASLT_EPILOGUE_BIAS)?;
            objects.set(sys::HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias)?;
        }
        let stored =
            |factor: Factor, rows, columns| if factor.transposed { (columns, rows) } else { (rows, columns) };
        let extents = [(a, stored(a, m, k)), (b, stored(b, k, n)), (d, stored(d, m, n))];
        for (at, (factor, (rows, columns))) in extents.into_iter().enumerate() {
            objects.add_layout(at, product, factor, rows as u64, columns as u64)?;
        }
        Ok(objects)
    }

    fn add_layout(
        &mut self,
        at: usize,
        product: &Product,
        factor: Factor,
        rows: u64,
        columns: u64,
    ) -> Result<(), Failure> {
        let layout = &mut self.layouts[at];
        // SAFETY: writes one descriptor.
        let made = unsafe {
            self.lib.hipblasLtMatrixLayoutCreate(
                layout,
                product.types.matrices,
                rows,
                columns,
                factor.ld.into(),
            )
        };
        check::<HipBlasLtLibrary>(&self.lib, "hipblasLtMatrixLayoutCreate", made)?;
        if product.batch > 1 {
            self.set_layout(at, sys::HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &product.batch)?;
            self.set_layout(at, sys::HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &factor.stride)?;
        }
        Ok(())
    }

    /// Sets an attribute of the product, which has the type of `value`.
    fn set<T>(&self, attribute: sys::hipblasLtMatmulDescAttributes_t, value: &T) -> Result<(), Failure> {
        let from = from_ref(value).cast();
        // SAFETY: the descriptor is live; the library copies as many bytes as the value has.
        let set =
            unsafe { self.lib.hipblasLtMatmulDescSetAttribute(self.desc, attribute, from, size_of::<T>()) };
        check::<HipBlasLtLibrary>(&self.lib, "hipblasLtMatmulDescSetAttribute", set)
    }

    /// Sets an attribute of a matrix, which has the type of `value`.
    fn set_layout<T>(
        &self,
        at: usize,
        attribute: sys::hipblasLtMatrixLayoutAttribute_t,
        value: &T,
    ) -> Result<(), Failure> {
        let from = from_ref(value).cast();
        // SAFETY: as in `set`.
        let set = unsafe {
            self.lib.hipblasLtMatrixLayoutSetAttribute(self.layouts[at], attribute, from, size_of::<T>())
        };
        check::<HipBlasLtLibrary>(&self.lib, "hipblasLtMatrixLayoutSetAttribute", set)
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        for layout in self.layouts.iter().filter(|layout| !layout.is_null()) {
            // A descriptor is host memory: a failure leaks a few bytes, and nobody can act on it. SAFETY:
            // made above, and not used again.
            let _ = unsafe { self.lib.hipblasLtMatrixLayoutDestroy(*layout) };
        }
        // SAFETY: as above.
        let _ = unsafe { self.lib.hipblasLtMatmulDescDestroy(self.desc) };
    }
}

/// Limits on the kernel choice, destroyed when dropped.
struct Preference<'l> {
    lib: &'l Lib<HipBlasLtLibrary>,
    raw: sys::hipblasLtMatmulPreference_t,
}

impl<'l> Preference<'l> {
    fn new(lib: &'l Lib<HipBlasLtLibrary>, workspace: u64) -> Result<Self, Failure> {
        let mut raw = null_mut();
        // SAFETY: writes one preference.
        let made = unsafe { lib.hipblasLtMatmulPreferenceCreate(&mut raw) };
        check::<HipBlasLtLibrary>(lib, "hipblasLtMatmulPreferenceCreate", made)?;
        let preference = Preference { lib, raw };
        let attribute = sys::HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        // SAFETY: the preference is live; the library copies eight bytes.
        let set = unsafe {
            lib.hipblasLtMatmulPreferenceSetAttribute(
                raw,
                attribute,
                from_ref(&workspace).cast(),
                size_of::<u64>(),
            )
        };
        check::<HipBlasLtLibrary>(lib, "hipblasLtMatmulPreferenceSetAttribute", set)?;
        Ok(preference)
    }
}

impl Drop for Preference<'_> {
    fn drop(&mut self) {
        // As for descriptors.
        // SAFETY: made above, and not used again.
        let _ = unsafe { self.lib.hipblasLtMatmulPreferenceDestroy(self.raw) };
    }
}

fn operation(factor: Factor) -> sys::hipblasOperation_t {
    if factor.transposed { sys::HIPBLAS_OP_T } else { sys::HIPBLAS_OP_N }
}

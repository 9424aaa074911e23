//! Selection by index.
use super::declare::{family, methods, ops};
use super::same_type;
use crate::error::About;
use crate::{
    AsAny, AsView, AsViewMut, Backend, DType, Element, Error, Execute, Float, Op, Operands, Result, Shape,
    TensorOf, Tolerance,
};

ops! {
    /// `y[.., i, ..] = x[.., ids[i], ..]` along an axis. Axis 0 gives an embedding lookup.
    ///
    /// Operands: `x` of any shape; `ids[n]` of an index type; `y` like `x`, with extent `n` along the axis. The largest value of
    /// the index type means "no element" and gives zeros. Any other index outside the axis is [`Error::Index`], which the
    /// backend reports no later than the next time the queue is waited for.
    #[derive(Eq)]
    pub struct IndexSelect {
        /// The axis to select along; negative counts from the end.
        pub axis: isize [or 0],
    }
    /// Selects along `axis`.
    fn axis;
    operands index_select { x: in any, ids: in any(indices), y: out any }

    /// `y[i] = table[ids[i]]`, converted to `T`: an embedding lookup.
    ///
    /// Operands: `table[rows, k]` of any float type, or `table[rows, k / values]` of a block format with `values` values per
    /// block; `ids[n]` of an index type; `y[n, k]`. Indices follow the rules of [`IndexSelect`]. Files and policies call the op
    /// `qembedding` if the table is in a block format, and `index_select` otherwise.
    pub struct Embedding<T: Float> {}
    const OP;
    operands embedding { table: in any [r, k], ids: in any(indices) [n], y: out T [n, k] }
}
impl Op for IndexSelect {
    fn infer(&self, on: &args::index_select::Shapes<'_>) -> Result<[Shape; 1]> {
        same_type(self.name(), "y", on.y, on.x)?;
        let axis = on.x.layout.shape().axis(self.axis).about(self.name(), "x")?;
        on.ids.require(self.name(), DType::is_index, "u8, u32, i32 or i64")?;
        let &[n] = on.ids.dims() else {
            return Err(Error::shape(self.name(), "ids", on.ids.layout, "[n]"));
        };
        let mut dims = on.x.dims().to_vec();
        dims[axis] = n;
        Ok([Shape::new(&dims)?])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

family! {
    /// Selection of elements of `T` by indices of any index type.
    pub trait IndexOps: Execute<IndexSelect>;
    methods IndexMethods;
}

/// The methods of [`IndexOps`].
pub trait IndexMethods: Backend {
    /// [`IndexSelect`]: selects slices of `x` along an axis.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Axis`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let x = b.tensor(&[3, 2], &[0, 1, 10, 11, 20, 21])?;
    /// let ids = b.tensor(&[2], &[2u32, 0])?;
    /// let y = b.index_select(&x, &ids, 0)?;
    /// assert_eq!(y.to_vec(&b)?, [20, 21, 0, 1]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn index_select<T: Element>(
        &self,
        x: impl AsView<Self::Space, T>,
        ids: impl AsAny<Self::Space>,
        op: impl Into<IndexSelect>,
    ) -> Result<TensorOf<Self, T>>
    where
        Self: IndexOps,
    {
        let op = op.into();
        let (x, ids) = (x.view(), ids.any_view());
        let source = x.any();
        let on = args::index_select::Shapes {
            x: source.operand("x"),
            ids: ids.operand("ids"),
            y: DType::of::<T>(),
        };
        let [shape] = op.infer(&on)?;
        let mut y = self.empty(shape)?;
        self.index_select_into(x, ids, &mut y, op)?;
        Ok(y)
    }
    /// [`index_select`](Self::index_select) into `y`.
    ///
    /// # Errors
    /// As [`index_select`](Self::index_select), and for an output of another shape.
    fn index_select_into<T: Element>(
        &self,
        x: impl AsView<Self::Space, T>,
        ids: impl AsAny<Self::Space>,
        mut y: impl AsViewMut<Self::Space, T>,
        op: impl Into<IndexSelect>,
    ) -> Result<()>
    where
        Self: IndexOps,
    {
        let op = op.into();
        self.run(
            &op,
            args::index_select::Args { x: x.view().any(), ids: ids.any_view(), y: y.view_mut().any() },
        )
    }
}

impl<T: Float> Op for Embedding<T> {
    const OTHER_NAMES: &'static [&'static str] = &["qembedding"];

    fn name_on(&self, on: &dyn Operands) -> &'static str {
        on.get("table").map_or(self.name(), |table| embedding_by(table.dtype))
    }
    fn infer(&self, on: &args::embedding::Shapes<'_>) -> Result<[Shape; 1]> {
        let name = self.name();
        on.table.require(name, DType::is_real, "f16, bf16, f32, f64 or a block format")?;
        on.ids.require(name, DType::is_index, "u8, u32, i32 or i64")?;
        let &[_, _] = on.table.dims() else {
            let want = match on.table.dtype.values() {
                1 => "[rows, k]".to_owned(),
                values => format!("[rows, k / {values}]"),
            };
            return Err(Error::shape(name, "table", on.table.layout, want));
        };
        let &[n] = on.ids.dims() else {
            return Err(Error::shape(name, "ids", on.ids.layout, "[n]"));
        };
        Ok([Shape::new(&[n, on.table.last_values()?])?])
    }
}

/// The name that files and policies use for a lookup in a table of this type.
const fn embedding_by(table: DType) -> &'static str {
    if table.is_block() { "qembedding" } else { "index_select" }
}

family! {
    /// Embedding lookups that give `T`, from tables of any float type or block format.
    pub trait EmbeddingOps<T: Float>: Execute<Embedding<T>>;
    methods EmbeddingMethods;
}

/// The methods of [`EmbeddingOps`].
pub trait EmbeddingMethods: Backend {
    methods! {
        EmbeddingOps<T: Float>;
        /// [`Embedding`]: looks up rows of a table of any float type or block format, and converts them to `T`.
        example
        /// // Rows of f16, looked up as f32.
        /// let table = b.tensor(&[2, 1], &[1.0f32, 2.0].map(rocm_ops::f16::from_f32))?;
        /// let ids = b.tensor(&[3], &[1u32, 0, 1])?;
        /// let y: rocm_ops::TensorOf<rocm_ops::Cpu, f32> = b.embedding(&table, &ids)?;
        /// assert_eq!(y.to_vec(&b)?, [2.0, 1.0, 2.0]);
        fn embedding, embedding_into(table: in any, ids: in any; y: T) = embedding(Embedding::OP);
    }
}

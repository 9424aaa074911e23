//! The table of kernel instances: what exists, under which symbol, launched how.
use crate::source::Family;
use crate::{ElementType, Matrix, declare_all};
use rustc_hash::{FxHashMap, FxHasher};
use std::any::TypeId;
use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

/// The Rust mirror of a kernel's argument struct.
pub trait Arguments: Copy + 'static {
    /// Name of the struct in the source.
    const NAME: &'static str;
}

/// One compiled kernel.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Place in [`instances`].
    pub index: usize,
    /// Name in the code object: op, variant and types, joined by `_`.
    pub symbol: String,
    /// The source file.
    pub family: Family,
    /// The op it serves.
    pub op: &'static str,
    /// Which way of doing it, where there are several; else empty.
    pub variant: &'static str,
    /// Element types, in the order of the template's parameters.
    pub types: Vec<ElementType>,
    /// Threads of a block: the kernel is compiled for exactly this many.
    pub block: u32,
    /// Static LDS in bytes, the same for either wave size.
    pub lds: u32,
    /// Name of the argument struct in the source, [`Arguments::NAME`].
    pub args: &'static str,
    /// Its size in bytes.
    pub args_size: usize,
    /// The Rust mirror of that struct.
    args_type: TypeId,
    /// What it asks of a target.
    pub(crate) needs: Needs,
    /// The template call that is the kernel's body.
    pub(crate) body: String,
}

/// What a kernel asks of a target beyond its wave size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    Matrix,
    Mfma,
    /// Matrix units that do not read subnormal halves as zero.
    Subnormals,
}

impl Instance {
    /// Whether it can be compiled for a target: some need instructions that not all have.
    pub fn runs_on(&self, target: &str) -> bool {
        self.family.runs_on(target) && self.runs_with(Matrix::of(target))
    }

    /// Whether its argument is an `A`.
    pub fn takes<A: Arguments>(&self) -> bool {
        self.args_type == TypeId::of::<A>()
    }

    /// Whether these matrix units, or none, are enough for it.
    pub fn runs_with(&self, matrix: Option<Matrix>) -> bool {
        match self.needs {
            Needs::Nothing => true,
            Needs::Matrix => matrix.is_some(),
            Needs::Mfma => matrix.is_some_and(Matrix::is_mfma),
            Needs::Subnormals => matrix.is_some_and(|m| m != Matrix::Mfma90a),
        }
    }
}

/// Every instance, by family and in order of declaration.
pub fn instances() -> &'static [Instance] {
    &TABLE.rows
}

/// The instance with these properties; `None` when there is none.
pub fn find(op: &str, variant: &str, types: &[ElementType]) -> Option<&'static Instance> {
    // Launches look instances up: nothing is allocated, and no text is compared.
    BY_KEY.get(&key(op, variant, types)).copied()
}

/// The instance of this name; `None` when there is none.
pub fn by_symbol(symbol: &str) -> Option<&'static Instance> {
    BY_SYMBOL.get(symbol).copied()
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table { rows: Vec::new() };
    declare_all(&mut table);
    table
});

static BY_SYMBOL: LazyLock<FxHashMap<&str, &Instance>> =
    LazyLock::new(|| instances().iter().map(|k| (k.symbol.as_str(), k)).collect());

/// By [`key`]. That no two instances have the same is tested.
static BY_KEY: LazyLock<FxHashMap<u64, &Instance>> =
    LazyLock::new(|| instances().iter().map(|k| (key(k.op, k.variant, &k.types), k)).collect());

fn key(op: &str, variant: &str, types: &[ElementType]) -> u64 {
    let mut state = FxHasher::default();
    (op, variant, types).hash(&mut state);
    state.finish()
}

fn symbol(op: &str, variant: &str, types: &[ElementType]) -> String {
    let mut out = op.to_owned();
    for part in [variant].into_iter().filter(|v| !v.is_empty()).chain(types.iter().map(|t| t.name())) {
        out.push('_');
        out.push_str(part);
    }
    out
}

/// Where families declare their kernels.
pub(crate) struct Table {
    rows: Vec<Instance>,
}

impl Table {
    /// Declares kernels of one family that take an `A` and run in blocks of `block` threads.
    pub(crate) fn of<A: Arguments>(&mut self, family: Family, block: u32) -> Declare<'_> {
        let needs = if family.needs_matrix() { Needs::Matrix } else { Needs::Nothing };
        Declare {
            table: self,
            family,
            block,
            args: A::NAME,
            args_size: size_of::<A>(),
            args_type: TypeId::of::<A>(),
            needs,
        }
    }
}

/// Declares kernels that have family, block and arguments in common.
pub(crate) struct Declare<'t> {
    table: &'t mut Table,
    family: Family,
    block: u32,
    args: &'static str,
    args_size: usize,
    args_type: TypeId,
    needs: Needs,
}

impl Declare<'_> {
    /// Kernels that ask this of a target.
    pub(crate) fn needs(self, needs: Needs) -> Self {
        Declare { needs, ..self }
    }

    /// The kernel `op`, whose body is the call `template<lead, types...>(args)`.
    pub(crate) fn add(&mut self, op: &'static str, types: &[ElementType], template: &str, lead: &[&str]) {
        self.add_variant(op, "", types, template, lead, 0);
    }

    /// The same for one of several ways of doing an op, with its LDS.
    pub(crate) fn add_variant(
        &mut self,
        op: &'static str,
        variant: &'static str,
        types: &[ElementType],
        template: &str,
        lead: &[&str],
        lds: u32,
    ) {
        let parameters: Vec<&str> = lead.iter().copied().chain(types.iter().map(|t| t.in_source())).collect();
        self.table.rows.push(Instance {
            index: self.table.rows.len(),
            symbol: symbol(op, variant, types),
            family: self.family,
            op,
            variant,
            types: types.to_vec(),
            block: self.block,
            lds,
            args: self.args,
            args_size: self.args_size,
            args_type: self.args_type,
            needs: self.needs,
            body: format!("{template}<{}>(args);", parameters.join(", ")),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_unique() {
        assert_eq!(BY_SYMBOL.len(), instances().len());
        assert_eq!(BY_KEY.len(), instances().len());
        assert!(instances().iter().enumerate().all(|(at, k)| k.index == at));
        assert!(instances().iter().all(|k| Family::ALL.contains(&k.family)));
    }
}

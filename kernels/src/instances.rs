//! The table of kernel instances: types, symbols and launch properties.
use crate::target::wave_of;
use crate::{ElementType, Family, GfxTarget, Matrix, declare_all};
use rustc_hash::{FxHashMap, FxHasher};
use std::any::TypeId;
use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

/// The Rust mirror of a struct in the sources, such as a kernel's argument struct: plain data without padding.
pub trait Arguments: bytemuck::Pod {
    /// The fields with their offsets.
    const FIELDS: &'static [(&'static str, usize)];

    /// The name of the struct, which is the same in the source.
    fn name() -> &'static str {
        let path = std::any::type_name::<Self>();
        path.rsplit_once("::").map_or(path, |(_, name)| name)
    }
}

/// Declares mirrors of structs, with [`Arguments`].
macro_rules! arguments {
    ($($(#[$about:meta])* pub struct $Name:ident { $($(#[$what:meta])* pub $field:ident: $Type:ty),+ $(,)? })+) => {$(
        $(#[$about])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
        #[allow(missing_docs)]
        pub struct $Name {
            $($(#[$what])* pub $field: $Type,)+
        }
        impl $crate::Arguments for $Name {
            const FIELDS: &'static [(&'static str, usize)] =
                &[$((stringify!($field), core::mem::offset_of!($Name, $field))),+];
        }
    )+};
}
pub(crate) use arguments;

/// One compiled kernel.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Index in [`instances`].
    pub index: usize,
    /// The name in the code object: op, variant and types, joined by `_`.
    pub symbol: String,
    /// The source file.
    pub family: Family,
    /// The part of the family that it is compiled with, see [`Unit`](crate::Unit); empty if the family is not
    /// divided.
    pub part: &'static str,
    /// The op that it computes.
    pub op: &'static str,
    /// The variant, if the op has several; otherwise empty.
    pub variant: &'static str,
    /// Element types, in the order of the template's parameters.
    pub types: Vec<ElementType>,
    /// Threads per block. The kernel is compiled for exactly this number.
    pub block: u32,
    /// Static LDS in bytes; the same for both wave sizes.
    pub lds: u32,
    /// The maximum number of vector registers that it should use.
    pub max_vgprs: MaxVgprs,
    /// The name of the argument struct in the source, [`Arguments::name`].
    pub args: &'static str,
    /// The size of the argument struct in bytes.
    pub args_size: usize,
    /// The fields of the argument struct, [`Arguments::FIELDS`].
    pub args_fields: &'static [(&'static str, usize)],
    /// The Rust mirror of the argument struct.
    args_type: TypeId,
    /// What it requires of a target.
    pub(crate) needs: Needs,
    /// The template call that is the kernel's body.
    pub(crate) body: String,
}

/// The maximum number of vector registers that a kernel should use, by wave size; `None` leaves that to the
/// compiler. Set for kernels for which newer compilers use more registers than clang 19, and so allow fewer
/// waves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MaxVgprs {
    pub wave32: Option<u32>,
    pub wave64: Option<u32>,
}

/// What a kernel requires of a target besides its wave size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    Matrix,
    Mfma,
    /// Matrix units that do not flush subnormal f16 inputs to zero.
    Subnormals,
    /// A wave of 32 lanes.
    Wave32,
}

impl Instance {
    /// Whether the instance can be compiled for a target. Some need instructions that not all targets have.
    pub fn runs_on(&self, target: &str) -> bool {
        let wave = self.needs != Needs::Wave32 || wave_of(target) == Some(32);
        wave && self.family.runs_on(target) && self.runs_with(Matrix::of(target))
    }

    /// The minimum number of waves per SIMD for which a compiler must leave registers; `None` leaves that to
    /// the compiler.
    pub fn min_waves(&self, target: &str) -> Option<u32> {
        let target = GfxTarget::find(target)?;
        let registers = if target.wave == 32 { self.max_vgprs.wave32 } else { self.max_vgprs.wave64 };
        Some(target.waves_with(registers?))
    }

    /// Whether the instance's argument struct is `A`.
    pub fn takes<A: Arguments>(&self) -> bool {
        self.args_type == TypeId::of::<A>()
    }

    /// Whether these matrix units (or none) are sufficient.
    pub fn runs_with(&self, matrix: Option<Matrix>) -> bool {
        match self.needs {
            Needs::Nothing | Needs::Wave32 => true,
            Needs::Matrix => matrix.is_some(),
            Needs::Mfma => matrix.is_some_and(Matrix::is_mfma),
            Needs::Subnormals => matrix.is_some_and(|m| m != Matrix::Mfma90a),
        }
    }
}

/// All instances, by family and in order of declaration.
pub fn instances() -> &'static [Instance] {
    &TABLE.rows
}

/// The instance for this op, variant and types, if there is one.
pub fn find(op: &str, variant: &str, types: &[ElementType]) -> Option<&'static Instance> {
    // On the launch path: allocates nothing and compares no strings.
    BY_KEY.get(&key(op, variant, types)).copied()
}

/// The instance with this symbol, if there is one.
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

/// Instances by [`key`]. A test checks that keys are unique.
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

/// The table in which families declare their kernels.
pub(crate) struct Table {
    rows: Vec<Instance>,
}

impl Table {
    /// Starts declaring kernels of one family with the argument struct `A` and blocks of `block` threads.
    pub(crate) fn of<A: Arguments>(&mut self, family: Family, block: u32) -> Declare<'_> {
        let needs = if family.needs_matrix() { Needs::Matrix } else { Needs::Nothing };
        Declare {
            table: self,
            family,
            part: "",
            block,
            max_vgprs: MaxVgprs::default(),
            args: A::name(),
            args_size: size_of::<A>(),
            args_fields: A::FIELDS,
            args_type: TypeId::of::<A>(),
            needs,
        }
    }
}

/// Declares kernels that share family, block size and arguments.
pub(crate) struct Declare<'t> {
    table: &'t mut Table,
    family: Family,
    part: &'static str,
    block: u32,
    max_vgprs: MaxVgprs,
    args: &'static str,
    args_size: usize,
    args_fields: &'static [(&'static str, usize)],
    args_type: TypeId,
    needs: Needs,
}

impl Declare<'_> {
    /// Sets what the kernels require of a target.
    pub(crate) fn needs(self, needs: Needs) -> Self {
        Declare { needs, ..self }
    }

    /// Declares the following kernels as a part of the family, which is compiled separately from the other
    /// parts.
    pub(crate) fn part(&mut self, part: &'static str) -> &mut Self {
        self.part = part;
        self
    }

    /// Sets the maximum number of vector registers for the following kernels, with waves of 32 and of 64.
    pub(crate) fn max_vgprs(&mut self, wave32: Option<u32>, wave64: Option<u32>) -> &mut Self {
        self.max_vgprs = MaxVgprs { wave32, wave64 };
        self
    }

    /// Declares the kernel `op`, whose body is the call `template<lead, types...>(args)`.
    pub(crate) fn add(&mut self, op: &'static str, types: &[ElementType], template: &str, lead: &[&str]) {
        self.add_variant(op, "", types, template, lead, 0);
    }

    /// Declares one variant of `op`, with its LDS size in bytes.
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
            part: self.part,
            op,
            variant,
            types: types.to_vec(),
            block: self.block,
            lds,
            max_vgprs: self.max_vgprs,
            args: self.args,
            args_size: self.args_size,
            args_fields: self.args_fields,
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

    #[test]
    fn a_bound_of_registers_is_one_of_waves() {
        let k = by_symbol("matmul_mma128_f16_f16").unwrap();
        assert_eq!(k.max_vgprs, MaxVgprs { wave32: Some(192), wave64: None });
        // 1536 and 1024 registers; gfx1251 is not in the table.
        let waves = ["gfx1100", "gfx1102", "gfx1251", "gfx942"].map(|target| k.min_waves(target));
        assert_eq!(waves, [Some(8), Some(5), None, None]);
        assert_eq!(by_symbol("sigmoid_f16").unwrap().min_waves("gfx942"), None);
    }
}

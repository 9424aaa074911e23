//! The names of ops: of each function of a family, and of calls that have another name than their op.
use super::types::Group;
use crate::Wide;
use crate::ops::options::Options;
use crate::ops::{
    BinaryFn, BitwiseFn, CompareFn, ConvForm, ParametricFn, PoolFn, ReduceFn, ScanFn, UnaryFn, UpsampleFn,
};

/// A name of an op, and the variant of the op that it means.
#[derive(Clone, Copy)]
pub(super) struct Name<V> {
    pub(super) name: &'static str,
    /// Overrides the types that the op is declared for.
    pub(super) only: Option<Group>,
    /// An operand that must (`true`) or must not (`false`) be in a block format under this name.
    pub(super) of_blocks: Option<(&'static str, bool)>,
    /// An operand that a call must not have under this name: with it, the call is another op of the same
    /// name.
    without: Option<&'static str>,
    /// Whether the op is listed under this name. If not, another op is.
    pub(super) listed: bool,
    pub(super) variant: V,
}

impl<V: Copy> Name<V> {
    pub(super) const fn of(name: &'static str, variant: V) -> Self {
        Name { name, only: None, of_blocks: None, without: None, listed: true, variant }
    }
    pub(super) const fn blocks(self, operand: &'static str) -> Self {
        Name { of_blocks: Some((operand, true)), ..self }
    }
    pub(super) const fn no_blocks(self, operand: &'static str) -> Self {
        Name { of_blocks: Some((operand, false)), ..self }
    }
    pub(super) const fn without(self, operand: &'static str) -> Self {
        Name { without: Some(operand), ..self }
    }
    pub(super) const fn unlisted(self) -> Self {
        Name { listed: false, ..self }
    }
    /// Whether a call with these operands has this name.
    pub(super) fn is_of<O: Options>(&self, name: &str, options: &O) -> bool {
        self.name == name && self.without.is_none_or(|operand| options.operand(operand).is_err())
    }
}

/// `TABLE: Fn` makes a table of the names of all functions of an op.
macro_rules! names {
    ($($TABLE:ident: $Fn:ident $(, only floats unless $on_integers:ident)?;)+) => {$(
        pub(super) const $TABLE: [Name<$Fn>; $Fn::ALL.len()] = {
            let mut names = [Name::of("", $Fn::ALL[0]); $Fn::ALL.len()];
            let mut at = 0;
            while at < names.len() {
                let f = $Fn::ALL[at];
                names[at] = Name::of(f.name(), f);
                $(if !f.$on_integers() {
                    names[at].only = Some(Group::Floats);
                })?
                at += 1;
            }
            names
        };
    )+};
}
names! {
    UNARY: UnaryFn, only floats unless on_integers;
    BINARY: BinaryFn;
    COMPARE: CompareFn;
    BITWISE: BitwiseFn;
    REDUCE: ReduceFn, only floats unless on_integers;
    SCAN: ScanFn;
    POOL: PoolFn;
    CONV: ConvForm;
}

/// The functions with parameters; the values here are placeholders.
pub(super) const PARAMETRIC: [Name<ParametricFn>; 3] = {
    let (powf, elu) = (ParametricFn::Powf { exponent: 1.0 }, ParametricFn::Elu { alpha: 1.0 });
    let clamp = ParametricFn::Clamp { min: Wide::Int(0), max: Wide::Int(0) };
    let floats = Some(Group::Floats);
    [
        Name { only: floats, ..Name::of(powf.name(), powf) },
        Name::of(clamp.name(), clamp),
        Name { only: floats, ..Name::of(elu.name(), elu) },
    ]
};

/// The option here is a placeholder.
pub(super) const UPSAMPLE: [Name<UpsampleFn>; 3] = {
    let bilinear = UpsampleFn::Bilinear2d { align_corners: false };
    let [one, two] = [UpsampleFn::Nearest1d, UpsampleFn::Nearest2d];
    [Name::of(one.name(), one), Name::of(two.name(), two), Name::of(bilinear.name(), bilinear)]
};

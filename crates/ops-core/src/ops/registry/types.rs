//! Groups of element types, and dispatch from a value to a type.
use crate::DType;

/// Runs an expression with a type alias for the type that a [`DType`] names.
///
/// `with_type!(floats, dtype, T => f::<T>(), other => g(other))` runs `f::<f32>()` for `DType::F32`, and likewise for every
/// type in the group. For all other types it runs `g(dtype)`. The groups are those of
/// [`Group`](crate::ops::registry::Group), in lower case.
///
/// ```
/// use rocm_ops::{DType, Float};
/// use rocm_ops::backend::with_type;
///
/// let bytes = |dtype: DType| with_type!(floats, dtype, T => Some(size_of::<<T as Float>::Acc>()), _ => None);
/// assert_eq!((bytes(DType::F16), bytes(DType::U8)), (Some(4), None));
/// ```
#[macro_export]
macro_rules! with_type {
    ([$($f:ty),+] [$($i:ty),+] [$($s:ty),+] floats $($rest:tt)*) => {
        $crate::with_type!(@of [$($f),+] $($rest)*)
    };
    ([$($f:ty),+] [$($i:ty),+] [$($s:ty),+] integers $($rest:tt)*) => {
        $crate::with_type!(@of [$($i),+] $($rest)*)
    };
    ([$($f:ty),+] [$($i:ty),+] [$($s:ty),+] numbers $($rest:tt)*) => {
        $crate::with_type!(@of [$($i,)+ $($f),+] $($rest)*)
    };
    ([$($f:ty),+] [$($i:ty),+] [$($s:ty),+] scalars $($rest:tt)*) => {
        $crate::with_type!(@of [$($s,)+ $($i,)+ $($f),+] $($rest)*)
    };
    // For ops that take every type as a value: `T` is unused, so the expression is compiled only once.
    ([$($f:ty),+] [$($i:ty),+] [$($s:ty),+] any, $dtype:expr, $T:ident => $body:expr, $other:pat => $none:expr $(,)?) => {
        match $dtype {
            known if $crate::ops::registry::Group::Elements.members().contains(&known) => {
                #[allow(dead_code)]
                type $T = ();
                $body
            }
            $other => $none,
        }
    };
    ([$($f:ty),+] [$($i:ty),+] [$($s:ty),+] indices $($rest:tt)*) => {
        $crate::with_type!(@of [u8, u32, i32, i64] $($rest)*)
    };
    ([$($f:ty),+] [$($i:ty),+] [$($s:ty),+] single $($rest:tt)*) => {
        $crate::with_type!(@of [f32] $($rest)*)
    };
    (@of [$($t:ty),+], $dtype:expr, $T:ident => $body:expr, $other:pat => $none:expr $(,)?) => {
        match $dtype {
            $(given if given == <$t as $crate::Element>::DTYPE => {
                #[allow(dead_code)]
                type $T = $t;
                $body
            })+
            $other => $none,
        }
    };
    (@of [$($t:ty),+] members) => { const { &[$(<$t as $crate::Element>::DTYPE),+] } };
    ($group:ident $($rest:tt)*) => { $crate::element_types!([$crate::with_type] $group $($rest)*) };
}

const FORMATS: usize = crate::quant::LIST.len();
const ELEMENTS: &[DType] = {
    const SCALARS: &[DType] = with_type!(scalars members);
    const ALL: [DType; FORMATS + SCALARS.len()] = {
        let mut all = [DType::U8; FORMATS + SCALARS.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = if at < FORMATS { DType::Block(crate::quant::LIST[at]) } else { SCALARS[at - FORMATS] };
            at += 1;
        }
        all
    };
    &ALL
};

/// A set of element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// The types that ops compute in: f16, bf16, f32, f64.
    Floats,
    /// The integers.
    Integers,
    /// Integers and floats.
    Numbers,
    /// Numbers and f8e4m3.
    Scalars,
    /// The block formats of this crate.
    Blocks,
    /// Blocks and scalars: every type of this crate.
    Elements,
    /// The index types: u8, u32, i32, i64.
    Indices,
    /// f32 only.
    Single,
}

impl Group {
    /// The types in the group. [`Elements`](Group::Elements) lists blocks, other scalars, integers and floats, in that order.
    /// Every other group except [`Indices`](Group::Indices) is a contiguous run of it.
    pub const fn members(self) -> &'static [DType] {
        match self {
            Group::Floats => with_type!(floats members),
            Group::Integers => with_type!(integers members),
            Group::Numbers => with_type!(numbers members),
            Group::Scalars => with_type!(scalars members),
            Group::Blocks => ELEMENTS.split_at(FORMATS).0,
            Group::Elements => ELEMENTS,
            Group::Indices => with_type!(indices members),
            Group::Single => with_type!(single members),
        }
    }
    /// Whether a type is in the group, and the group in the words of errors. For the groups that declarations of operands name.
    pub(crate) fn requirement(self) -> (fn(DType) -> bool, &'static str) {
        match self {
            Group::Indices => (DType::is_index, "u8, u32, i32 or i64"),
            _ => (DType::is_computed, "f16, bf16, f32 or f64"),
        }
    }
}

/// The element type with this name.
pub fn dtype(name: &str) -> Option<DType> {
    Group::Elements.members().iter().copied().find(|dtype| dtype.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_hold_what_their_names_say() {
        let all = |group: Group, is: fn(DType) -> bool| group.members().iter().all(|dtype| is(*dtype));
        assert!(all(Group::Floats, DType::is_computed) && all(Group::Blocks, DType::is_block));
        assert!(all(Group::Indices, DType::is_index) && all(Group::Single, |dtype| dtype == DType::F32));
        let (floats, integers) = (Group::Floats.members(), Group::Integers.members());
        assert_eq!([integers, floats].concat(), Group::Numbers.members());
        assert!(Group::Elements.members().ends_with(Group::Scalars.members()));
        assert!(Group::Scalars.members().ends_with(Group::Numbers.members()));
        let formats: Vec<_> = crate::quant::FORMATS.iter().copied().map(DType::Block).collect();
        assert_eq!(formats, Group::Blocks.members());
        for known in Group::Elements.members() {
            assert_eq!(dtype(known.name()), Some(*known));
            let size = with_type!(scalars, *known, T => size_of::<T>(), _ => known.size());
            assert_eq!(size, known.size(), "{known}");
            assert!(with_type!(any, *known, T => size_of::<T>() == 0, _ => false), "{known}");
        }
    }
}

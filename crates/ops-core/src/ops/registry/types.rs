//! Groups of element types, and the way from a value to a type.
use crate::DType;

/// Runs an expression with a type alias for what a [`DType`] names.
///
/// `with_type!(floats, dtype, T => f::<T>(), other => g(other))` is `f::<f32>()` for `DType::F32`, and so on for the types of the
/// group; `g(dtype)` for all others. The groups are those of [`Group`](crate::ops::registry::Group), in small letters.
///
/// ```
/// use ops_core::{DType, Float, with_type};
///
/// let bytes = |dtype: DType| with_type!(floats, dtype, T => Some(size_of::<<T as Float>::Acc>()), _ => None);
/// assert_eq!((bytes(DType::F16), bytes(DType::U8)), (Some(4), None));
/// ```
#[macro_export]
macro_rules! with_type {
    ([$($f:ty),+] [$($i:ty),+] [$($s:ty),+] [$($b:ty),+] floats $($rest:tt)*) => {
        $crate::with_type!(@of [$($f),+] $($rest)*)
    };
    ([$($f:ty),+] [$($i:ty),+] [$($s:ty),+] [$($b:ty),+] integers $($rest:tt)*) => {
        $crate::with_type!(@of [$($i),+] $($rest)*)
    };
    ([$($f:ty),+] [$($i:ty),+] [$($s:ty),+] [$($b:ty),+] numbers $($rest:tt)*) => {
        $crate::with_type!(@of [$($i,)+ $($f),+] $($rest)*)
    };
    ([$($f:ty),+] [$($i:ty),+] [$($s:ty),+] [$($b:ty),+] scalars $($rest:tt)*) => {
        $crate::with_type!(@of [$($s,)+ $($i,)+ $($f),+] $($rest)*)
    };
    ([$($f:ty),+] [$($i:ty),+] [$($s:ty),+] [$($b:ty),+] blocks $($rest:tt)*) => {
        $crate::with_type!(@of [$($b),+] $($rest)*)
    };
    ([$($f:ty),+] [$($i:ty),+] [$($s:ty),+] [$($b:ty),+] elements $($rest:tt)*) => {
        $crate::with_type!(@of [$($b,)+ $($s,)+ $($i,)+ $($f),+] $($rest)*)
    };
    ([$($f:ty),+] [$($i:ty),+] [$($s:ty),+] [$($b:ty),+] indices $($rest:tt)*) => {
        $crate::with_type!(@of [u8, u32, i32, i64] $($rest)*)
    };
    ([$($f:ty),+] [$($i:ty),+] [$($s:ty),+] [$($b:ty),+] single $($rest:tt)*) => {
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

/// Element types that ops are offered in together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Those that ops compute in: f16, bf16, f32, f64.
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
    /// Those that may index.
    Indices,
    /// f32 alone.
    Single,
}

impl Group {
    /// The types in it. Those of [`Elements`](Group::Elements) are blocks, other scalars, integers, floats; the other groups
    /// are runs of these, save [`Indices`](Group::Indices).
    pub const fn members(self) -> &'static [DType] {
        match self {
            Group::Floats => with_type!(floats members),
            Group::Integers => with_type!(integers members),
            Group::Numbers => with_type!(numbers members),
            Group::Scalars => with_type!(scalars members),
            Group::Blocks => with_type!(blocks members),
            Group::Elements => with_type!(elements members),
            Group::Indices => with_type!(indices members),
            Group::Single => with_type!(single members),
        }
    }
}

/// The element type of this name.
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
            let size = with_type!(elements, *known, T => size_of::<T>(), _ => 0);
            assert_eq!(size, known.size(), "{known}");
        }
    }
}

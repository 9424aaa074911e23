//! Dot products of four bytes in one instruction.
use crate::GfxTarget;

/// The instruction that multiplies four pairs of bytes and adds the products to an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dot4 {
    /// `v_dot4_i32_i8` of gfx906, CDNA and RDNA2: signed bytes.
    Signed,
    /// `v_dot4_i32_iu8` of RDNA3 and RDNA4: the instruction selects signed or unsigned bytes.
    Mixed,
}

impl Dot4 {
    /// The instruction of a target; `None` if it has none. Accepts feature suffixes such as `:xnack-`.
    pub fn of(target: &str) -> Option<Dot4> {
        GfxTarget::find(target)?.dot4
    }

    /// Value of the `OPS_DOT4` define.
    pub(crate) const fn define(self) -> u32 {
        match self {
            Dot4::Signed => 1,
            Dot4::Mixed => 2,
        }
    }

    /// The name of the instruction.
    pub const fn name(self) -> &'static str {
        match self {
            Dot4::Signed => "v_dot4_i32_i8",
            Dot4::Mixed => "v_dot4_i32_iu8",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_that_of_the_device_and_not_of_its_generic_target() {
        for plain in ["gfx900", "gfx90c", "gfx9-generic", "gfx1010", "gfx10-1-generic", "gfx1250"] {
            assert_eq!(Dot4::of(plain), None, "{plain}");
        }
        assert_eq!(Dot4::of("gfx906:sramecc+:xnack-"), Some(Dot4::Signed));
        assert_eq!(Dot4::of("gfx1012"), Some(Dot4::Signed));
        assert_eq!(Dot4::of("gfx1036"), Some(Dot4::Signed));
        assert_eq!(Dot4::of("gfx1151"), Some(Dot4::Mixed));
    }
}

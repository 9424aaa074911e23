//! Dot products of four bytes in one instruction.

/// The instruction that multiplies four pairs of bytes and adds the products to an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dot4 {
    /// `v_dot4_i32_i8` of gfx906, CDNA and RDNA2: signed bytes.
    Signed,
    /// `v_dot4_i32_iu8` of RDNA3 and RDNA4: the instruction selects signed or unsigned bytes.
    Mixed,
}

impl Dot4 {
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

//! Products of four bytes in one instruction: which targets have them.

/// The instruction of an architecture that multiplies four pairs of bytes and adds them to an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dot4 {
    /// `v_dot4_i32_i8` of gfx906, CDNA and RDNA2: signed bytes.
    Signed,
    /// `v_dot4_i32_iu8` of RDNA3 and 4: signed or unsigned bytes, as the instruction says.
    Mixed,
}

impl Dot4 {
    /// That of a target; `None` where there is none. Feature suffixes such as
    /// `:xnack-` are allowed.
    pub fn of(target: &str) -> Option<Dot4> {
        let name = target.split(':').next().unwrap_or(target);
        Some(match name {
            "gfx906" | "gfx908" | "gfx90a" | "gfx1011" | "gfx1012" => Dot4::Signed,
            "gfx940" | "gfx941" | "gfx942" | "gfx950" | "gfx9-4-generic" | "gfx10-3-generic" => Dot4::Signed,
            "gfx11-generic" | "gfx12-generic" | "gfx1200" | "gfx1201" => Dot4::Mixed,
            rdna2 if rdna2.starts_with("gfx103") => Dot4::Signed,
            rdna3 if rdna3.starts_with("gfx110") || rdna3.starts_with("gfx115") => Dot4::Mixed,
            _ => return None,
        })
    }

    /// What the sources are told, `OPS_DOT4`.
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
    use crate::source::TARGETS;

    #[test]
    fn targets_without_it() {
        let without: Vec<&str> =
            TARGETS.iter().copied().filter(|target| Dot4::of(target).is_none()).collect();
        assert_eq!(without, ["gfx9-generic"]);
        for plain in ["gfx900", "gfx902", "gfx909", "gfx90c", "gfx1010", "gfx10-1-generic", "gfx1250"] {
            assert_eq!(Dot4::of(plain), None, "{plain}");
        }
        assert_eq!(Dot4::of("gfx906:sramecc+:xnack-"), Some(Dot4::Signed));
        assert_eq!(Dot4::of("gfx1036"), Some(Dot4::Signed));
        assert_eq!(Dot4::of("gfx1151"), Some(Dot4::Mixed));
    }
}

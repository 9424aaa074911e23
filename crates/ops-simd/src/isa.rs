//! Run-time choice of the instruction set.

use std::fmt;
use std::io::Write;
use std::sync::OnceLock;

use crate::simd::portable::Portable;
use crate::simd::{Simd, VectorFn};

/// An instruction set that this processor has. It is a cheap, copyable handle that every kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(Level);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Portable,
    #[cfg(target_arch = "aarch64")]
    Neon,
    #[cfg(target_arch = "aarch64")]
    NeonDotProd,
    #[cfg(target_arch = "aarch64")]
    NeonI8mm,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
}

impl Isa {
    /// The best instruction set of this processor, limited by the environment variable `OPS_SIMD`: a name
    /// (see [`Isa::name`]) or a prefix of one, which stands for the best set whose name begins with it. Both
    /// are read once per process.
    ///
    /// A value that names no set of this processor has no effect. Then the first call says so on standard error;
    /// [`Isa::from_env`] returns it as an error.
    ///
    /// Matrix units (AMX) belong to no instruction set: products on `avx512vnni` use them unless `OPS_SIMD`
    /// names a set.
    pub fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| {
            let best = Self::available().last().copied().unwrap_or(Self::portable());
            match Self::from_env() {
                Ok(named) => named.unwrap_or(best),
                Err(error) => {
                    // Not `eprintln!`, which panics if standard error is closed.
                    let _ = writeln!(std::io::stderr(), "{error}; using {best}");
                    best
                }
            }
        })
    }

    /// The instruction set that the environment variable `OPS_SIMD` names, if it is set and not empty. Read once
    /// per process.
    ///
    /// # Errors
    /// It names no instruction set, or one that this processor does not have.
    pub fn from_env() -> Result<Option<Self>, UnknownIsa> {
        static NAMED: OnceLock<Result<Option<Isa>, UnknownIsa>> = OnceLock::new();
        let named = NAMED.get_or_init(|| match std::env::var_os("OPS_SIMD") {
            Some(wanted) if !wanted.is_empty() => Self::of_name(&wanted.to_string_lossy()).map(Some),
            _ => Ok(None),
        });
        named.clone()
    }

    fn of_name(wanted: &str) -> Result<Self, UnknownIsa> {
        let all = Self::available();
        // A whole name means that set, except "avx512": scripts use it for the best set with AVX-512.
        let exact = all.iter().find(|isa| isa.name() == wanted && wanted != "avx512");
        let found = exact.or_else(|| all.iter().rev().find(|isa| isa.name().starts_with(wanted)));
        found.copied().ok_or_else(|| UnknownIsa {
            got: wanted.to_owned(),
            wanted: all.into_iter().map(Self::name).collect(),
        })
    }

    /// Whether `OPS_SIMD` names an instruction set.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn limited() -> bool {
        matches!(Self::from_env(), Ok(Some(_)))
    }

    /// Whether 256-bit integer kernels may use AVX-VNNI. It is not an instruction set of its own, so that the
    /// other kernels need not be compiled again for it.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn avx_vnni(self) -> bool {
        self.0 == Level::Avx2 && is_x86_feature_detected!("avxvnni")
    }

    /// The names of the features of matrix units that this processor has and the system permits; the first call asks Linux for permission.
    /// Products use them with `avx512vnni`, unless `OPS_SIMD` names an instruction set.
    pub fn matrix_units() -> Vec<&'static str> {
        #[cfg(target_arch = "x86_64")]
        return crate::matrix_units::features();
        #[cfg(not(target_arch = "x86_64"))]
        Vec::new()
    }

    /// All instruction sets of this processor, from worst to best.
    pub fn available() -> Vec<Self> {
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            vec![Self::portable()]
        }
        #[cfg(target_arch = "aarch64")]
        {
            let neon = std::arch::is_aarch64_feature_detected!("neon");
            let dotprod = neon && std::arch::is_aarch64_feature_detected!("dotprod");
            let i8mm = dotprod && std::arch::is_aarch64_feature_detected!("i8mm");
            let found = [(neon, Level::Neon), (dotprod, Level::NeonDotProd), (i8mm, Level::NeonI8mm)];
            let found = found.into_iter().filter(|(has, _)| *has).map(|(_, level)| Self(level));
            std::iter::once(Self::portable()).chain(found).collect()
        }
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            let vnni = avx512 && is_x86_feature_detected!("avx512vnni");
            let found = [(avx2, Level::Avx2), (avx512, Level::Avx512), (vnni, Level::Avx512Vnni)];
            let found = found.into_iter().filter(|(has, _)| *has).map(|(_, level)| Self(level));
            std::iter::once(Self::portable()).chain(found).collect()
        }
    }

    /// Plain Rust, compiled for the target's baseline.
    pub fn portable() -> Self {
        Self(Level::Portable)
    }

    pub(crate) fn level(self) -> Level {
        self.0
    }

    /// `scalar`, `neon`, `neondotprod`, `neoni8mm`, `avx2`, `avx512` or `avx512vnni`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Level::Portable => "scalar",
            #[cfg(target_arch = "aarch64")]
            Level::Neon => "neon",
            #[cfg(target_arch = "aarch64")]
            Level::NeonDotProd => "neondotprod",
            #[cfg(target_arch = "aarch64")]
            Level::NeonI8mm => "neoni8mm",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Vnni => "avx512vnni",
        }
    }

    /// Runs the copy of `kernel` that was compiled for this instruction set.
    #[inline]
    pub fn run<K: VectorFn>(self, kernel: K) -> K::Output {
        match self.native() {
            Some(native) => native.run(kernel),
            None => Portable.vectorize(kernel),
        }
    }

    /// This instruction set, unless it is the portable one.
    #[inline]
    pub(crate) fn native(self) -> Option<Native> {
        (self.0 != Level::Portable).then_some(Native(self.0))
    }
}

/// An instruction set other than the portable one.
///
/// The portable one converts 16-bit types in software, which takes longer than most functions of them. So
/// kernels need not be compiled for it in these types: whatever runs on a `Native` has an alternative that
/// computes in f32.
#[derive(Clone, Copy)]
pub(crate) struct Native(Level);

/// Runs kernels.
pub(crate) trait Run: Copy {
    /// Runs the copy of `kernel` that was compiled for this instruction set.
    fn run<K: VectorFn>(self, kernel: K) -> K::Output;
}

impl Run for Isa {
    #[inline]
    fn run<K: VectorFn>(self, kernel: K) -> K::Output {
        Isa::run(self, kernel)
    }
}

impl Run for Native {
    #[inline]
    fn run<K: VectorFn>(self, kernel: K) -> K::Output {
        match self.0 {
            Level::Portable => unreachable!("`native` gives no portable instruction set"),
            // SAFETY: only `available` creates a level other than Portable, after detecting its features.
            #[cfg(target_arch = "aarch64")]
            Level::Neon | Level::NeonDotProd | Level::NeonI8mm => {
                // SAFETY: as above.
                unsafe { crate::simd::neon::Neon::new_unchecked() }.vectorize(kernel)
            }
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { crate::simd::avx2::Avx2::new_unchecked() }.vectorize(kernel),
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 | Level::Avx512Vnni => {
                // SAFETY: as above.
                unsafe { crate::simd::avx512::Avx512::new_unchecked() }.vectorize(kernel)
            }
        }
    }
}

/// The value of `OPS_SIMD`, if it names no instruction set of this processor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownIsa {
    /// The value.
    pub got: String,
    /// The names of this processor's instruction sets.
    pub wanted: Vec<&'static str>,
}

impl fmt::Display for UnknownIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (got, wanted) = (&self.got, self.wanted.join(", "));
        write!(
            f,
            "OPS_SIMD is {got:?}, which this processor does not have; name one of {wanted}, or unset it"
        )
    }
}

impl std::error::Error for UnknownIsa {}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_beginnings_are_known_and_others_are_errors() {
        for isa in Isa::available() {
            let found = Isa::of_name(isa.name()).unwrap();
            assert!(found.name().starts_with(isa.name()), "{isa}: {found}");
        }
        assert_eq!(Isa::of_name("sca"), Ok(Isa::portable()));
        for wrong in ["portable", "avx3", "Scalar", "scalar ", "sse2"] {
            let error = Isa::of_name(wrong).unwrap_err().to_string();
            assert!(error.contains(&format!("OPS_SIMD is {wrong:?}")) && error.contains("scalar"), "{error}");
        }
    }
}

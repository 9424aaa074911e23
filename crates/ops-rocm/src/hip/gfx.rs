//! Names of AMD GPU architectures.

use std::fmt;

use super::error::{Error, Result};
use ops_kernels::GfxTarget;
use ops_kernels::target::{self, TARGETS};

/// An architecture: `gfx1100`, `gfx90a:sramecc+:xnack-`, `gfx11-generic`.
///
/// hipRTC of ROCm 6 ends the process when it is given an unknown name, or a feature that the architecture
/// does not have. A value of this type is either in the table of targets, or was reported by a device.
/// [`Compiler`](super::Compiler) gives no name to a hipRTC that is too old for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gfx {
    full: String,
}

impl Gfx {
    /// An architecture by its name, with or without features.
    ///
    /// # Errors
    ///
    /// [`Error::BadGfx`] if the name or one of its features is not known.
    ///
    /// ```
    /// use rocm_ops::rocm::hip::Gfx;
    /// assert_eq!(Gfx::parse("gfx90a:sramecc+:xnack-")?.name(), "gfx90a");
    /// assert!(Gfx::parse("gxf1032").is_err());
    /// # Ok::<(), rocm_ops::rocm::hip::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Gfx> {
        let bad = || Error::BadGfx(text.to_string());
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let target = TARGETS.iter().find(|target| target.name == name).ok_or_else(bad)?;
        let mut seen = Vec::new();
        for feature in parts {
            let known = match feature.trim_end_matches(['+', '-']) {
                "xnack" => target.xnack,
                "sramecc" => target.sramecc,
                _ => false,
            };
            let signed = feature.ends_with(['+', '-']) && feature.matches(['+', '-']).count() == 1;
            let name = feature.trim_end_matches(['+', '-']);
            if !known || !signed || seen.contains(&name) {
                return Err(bad());
            }
            seen.push(name);
        }
        Ok(Gfx { full: text.to_string() })
    }

    /// All architectures that [`parse`](Self::parse) accepts, without features.
    pub fn known() -> impl Iterator<Item = Gfx> {
        TARGETS.iter().map(|target| Gfx::of_device(target.name))
    }

    /// An architecture as reported by a device: the runtime knows the name, even if this table does not.
    pub(super) fn of_device(text: &str) -> Gfx {
        Gfx { full: text.trim().to_string() }
    }

    /// The whole name with its features, for compilers.
    pub fn full(&self) -> &str {
        &self.full
    }

    /// The name without features, for lookups.
    pub fn name(&self) -> &str {
        self.full.split(':').next().unwrap_or_default()
    }

    /// The generic target whose code objects also run on it.
    pub fn generic(&self) -> Option<&'static str> {
        GfxTarget::find(self.name())?.generic
    }

    /// The wave size that kernels are compiled for: 64 lanes up to gfx9, then 32.
    pub fn wave_size(&self) -> u32 {
        if target::generation(self.name()) < 10 { 64 } else { 32 }
    }

    /// The first version of ROCm whose hipRTC knows the name, as major and minor number, if that of ROCm 6.4 does not.
    pub fn since(&self) -> Option<(u32, u32)> {
        GfxTarget::find(self.name())?.since
    }

    /// Whether this crate's kernels can be compiled for it: gfx9 and later.
    pub fn is_supported(&self) -> bool {
        target::generation(self.name()) >= 9
    }
}

impl fmt::Display for Gfx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_cut_off_for_names_and_kept_for_compilers() {
        let gfx = Gfx::parse("gfx942:sramecc+:xnack-").unwrap();
        assert_eq!((gfx.name(), gfx.full()), ("gfx942", "gfx942:sramecc+:xnack-"));
        assert_eq!(gfx.generic(), Some("gfx9-4-generic"));
    }

    #[test]
    fn what_ends_the_process_in_hiprtc_is_refused() {
        let refused = [
            "",
            "gxf1032",
            "gfx1999",
            "gfx940",
            "gfx1250:xnack+",
            "gfx1100 ",
            "gfx1100:xnack+",
            "gfx90a:bogus+",
            "gfx90a:xnack",
            "gfx90a:xnack+-",
            "gfx90a:xnack+:xnack-",
            "gfx900:sramecc+",
            "gfx90a:",
            "1100",
        ];
        for text in refused {
            assert!(matches!(Gfx::parse(text), Err(Error::BadGfx(_))), "{text:?} was taken");
        }
    }

    #[test]
    fn every_target_parses_and_its_generic_target_is_a_target() {
        for target in TARGETS {
            let gfx = Gfx::parse(target.name).unwrap();
            assert!(gfx.is_supported(), "{gfx}");
            assert!(
                gfx.generic()
                    .is_none_or(|generic| Gfx::parse(generic).unwrap().wave_size() == gfx.wave_size())
            );
        }
    }

    #[test]
    fn waves_are_wide_up_to_gfx9() {
        let wave = |name| Gfx::of_device(name).wave_size();
        assert_eq!([wave("gfx906"), wave("gfx90a:xnack-"), wave("gfx9-4-generic")], [64; 3]);
        assert_eq!([wave("gfx1030"), wave("gfx1201"), wave("gfx11-generic"), wave("gfx1250")], [32; 4]);
    }

    #[test]
    fn old_and_odd_devices_are_not_supported() {
        for name in ["gfx803", "gfx701", "", "gfx", "gfx1", "llvmpipe", "gfxé"] {
            assert!(!Gfx::of_device(name).is_supported(), "{name}");
        }
    }
}

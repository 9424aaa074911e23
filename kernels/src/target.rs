//! The gfx targets: one table of their properties, used by launches, compilers, checks and documentation.
//!
//! To add a target, add a row here and run `cargo xtask targets`, which updates everything generated from the table. For a
//! [`recorded`] target, also run `cargo xtask kernels --record`, which records the register usage of its kernels.
use crate::{Dot4, Matrix};

/// A target that ROCm 6.4 and later, or the version in `since` and later, can compile for.
#[derive(Clone, Copy, Debug)]
pub struct GfxTarget {
    /// The name, without feature suffixes.
    pub name: &'static str,
    /// A product with this target; empty for generic targets.
    pub product: &'static str,
    /// The generic target whose code objects also run on it.
    pub generic: Option<&'static str>,
    /// The wave size that kernels are compiled for.
    pub wave: u32,
    /// The matrix units, if the sources have kernels for them.
    pub matrix: Option<Matrix>,
    /// The instruction for dot products of four bytes.
    pub dot4: Option<Dot4>,
    /// VGPRs per lane that the waves of a SIMD share. This includes AGPRs, except on gfx908.
    pub vgprs: u32,
    /// Granularity in which VGPRs are allocated to a wave.
    pub vgpr_step: u32,
    /// Bytes of LDS available to a block.
    pub lds_bytes: u32,
    /// Whether code can be compiled for `xnack` on or off.
    pub xnack: bool,
    /// Whether code can be compiled for `sramecc` on or off.
    pub sramecc: bool,
    /// The first version of ROCm whose hipRTC is known to compile for it, as major and minor number, if that of ROCm 6.4 does not. An older
    /// hipRTC may end the process when it is given the name.
    pub since: Option<(u32, u32)>,
    /// The first version of clang that can compile it ahead of time.
    pub clang: u32,
    /// Whether the register usage of its kernels is recorded. If clang 19 suffices, it is also compiled ahead of time by default.
    pub recorded: bool,
    /// The device whose code objects have the same registers, so that this one need not be recorded with
    /// hipRTC.
    pub same_code: Option<&'static str>,
}

/// All targets: devices in numerical order, then generic targets.
pub const TARGETS: &[GfxTarget] = &[
    VEGA.device("gfx900", "Radeon RX Vega 64"),
    VEGA.device("gfx902", "Ryzen 5 2400G"),
    VEGA.device("gfx904", "Radeon Pro Vega 20"),
    VEGA.device("gfx906", "Radeon VII, MI50").dot4(Dot4::Signed).sramecc().recorded(),
    VEGA.device("gfx908", "MI100").alone().matrix(Matrix::Mfma90a).dot4(Dot4::Signed).sramecc().recorded(),
    VEGA.device("gfx909", "Raven2 APUs"),
    VEGA.device("gfx90a", "MI210, MI250X")
        .alone()
        .matrix(Matrix::Mfma90a)
        .dot4(Dot4::Signed)
        .vgprs(512, 8)
        .sramecc()
        .recorded(),
    VEGA.device("gfx90c", "Ryzen 7 4700G"),
    CDNA3.device("gfx942", "MI300X").recorded(),
    CDNA3.device("gfx950", "MI355X").lds(160 << 10).clang(21).recorded(),
    RDNA1.device("gfx1010", "Radeon RX 5700 XT"),
    RDNA1.device("gfx1011", "Radeon Pro V520").dot4(Dot4::Signed),
    RDNA1.device("gfx1012", "Radeon RX 5500 XT").dot4(Dot4::Signed),
    RDNA1.device("gfx1013", "BC-250"),
    RDNA2.device("gfx1030", "Radeon RX 6900 XT").recorded(),
    RDNA2.device("gfx1031", "Radeon RX 6700 XT"),
    RDNA2.device("gfx1032", "Radeon RX 6600 XT"),
    RDNA2.device("gfx1033", "Steam Deck"),
    RDNA2.device("gfx1034", "Radeon RX 6500 XT"),
    RDNA2.device("gfx1035", "Radeon 680M"),
    RDNA2.device("gfx1036", "graphics of Ryzen 7000"),
    RDNA3.device("gfx1100", "Radeon RX 7900 XTX").vgprs(1536, 24).recorded(),
    RDNA3.device("gfx1101", "Radeon RX 7800 XT").vgprs(1536, 24).recorded().same_code("gfx1100"),
    RDNA3.device("gfx1102", "Radeon RX 7600"),
    RDNA3.device("gfx1103", "Radeon 780M"),
    RDNA3.device("gfx1150", "Radeon 890M"),
    RDNA3.device("gfx1151", "Radeon 8060S").vgprs(1536, 24).recorded(),
    RDNA3.device("gfx1152", "Radeon 860M"),
    RDNA3.device("gfx1153", "Radeon 820M").clang(21),
    RDNA4.device("gfx1200", "Radeon RX 9060 XT").recorded().same_code("gfx1201"),
    RDNA4.device("gfx1201", "Radeon RX 9070 XT").recorded(),
    // Its matrix units are others than those of gfx1200.
    GfxTarget { dot4: None, ..RDNA2 }
        .device("gfx1250", "MI400 series")
        .alone()
        .lds(320 << 10)
        .clang(22)
        .since(7, 2),
    VEGA.recorded(),
    CDNA3.clang(21),
    RDNA1,
    RDNA2.recorded(),
    RDNA3.recorded(),
    RDNA4.recorded(),
];

const VEGA: GfxTarget = GfxTarget {
    name: "gfx9-generic",
    product: "",
    generic: None,
    wave: 64,
    matrix: None,
    dot4: None,
    vgprs: 256,
    vgpr_step: 4,
    lds_bytes: 64 << 10,
    xnack: true,
    sramecc: false,
    since: None,
    clang: 19,
    recorded: false,
    same_code: None,
};
const CDNA3: GfxTarget = GfxTarget {
    name: "gfx9-4-generic",
    matrix: Some(Matrix::Mfma940),
    dot4: Some(Dot4::Signed),
    vgprs: 512,
    vgpr_step: 8,
    sramecc: true,
    ..VEGA
};
const RDNA1: GfxTarget = GfxTarget { name: "gfx10-1-generic", wave: 32, vgprs: 1024, vgpr_step: 8, ..VEGA };
const RDNA2: GfxTarget =
    GfxTarget { name: "gfx10-3-generic", dot4: Some(Dot4::Signed), vgpr_step: 16, xnack: false, ..RDNA1 };
const RDNA3: GfxTarget =
    GfxTarget { name: "gfx11-generic", matrix: Some(Matrix::Wmma11), dot4: Some(Dot4::Mixed), ..RDNA2 };
const RDNA4: GfxTarget =
    GfxTarget { name: "gfx12-generic", matrix: Some(Matrix::Wmma12), vgprs: 1536, vgpr_step: 24, ..RDNA3 };

/// Builders of table rows, which start from the family's generic target.
impl GfxTarget {
    /// A device with the properties of its family.
    const fn device(self, name: &'static str, product: &'static str) -> Self {
        GfxTarget { name, product, generic: Some(self.name), ..self }
    }
    /// Marks a device that no generic target covers.
    const fn alone(self) -> Self {
        GfxTarget { generic: None, ..self }
    }
    const fn matrix(self, matrix: Matrix) -> Self {
        GfxTarget { matrix: Some(matrix), ..self }
    }
    const fn dot4(self, dot4: Dot4) -> Self {
        GfxTarget { dot4: Some(dot4), ..self }
    }
    const fn vgprs(self, vgprs: u32, vgpr_step: u32) -> Self {
        GfxTarget { vgprs, vgpr_step, ..self }
    }
    const fn lds(self, lds_bytes: u32) -> Self {
        GfxTarget { lds_bytes, ..self }
    }
    const fn sramecc(self) -> Self {
        GfxTarget { sramecc: true, ..self }
    }
    const fn since(self, major: u32, minor: u32) -> Self {
        GfxTarget { since: Some((major, minor)), ..self }
    }
    const fn clang(self, clang: u32) -> Self {
        GfxTarget { clang, ..self }
    }
    const fn recorded(self) -> Self {
        GfxTarget { recorded: true, ..self }
    }
    const fn same_code(self, device: &'static str) -> Self {
        GfxTarget { same_code: Some(device), ..self }
    }
}

impl GfxTarget {
    /// The target with this name. Accepts feature suffixes such as `:xnack-`.
    pub fn find(name: &str) -> Option<&'static GfxTarget> {
        let name = bare(name);
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Whether this is a generic target.
    pub fn is_generic(&self) -> bool {
        self.name.ends_with("-generic")
    }

    /// Maximum number of waves per SIMD.
    pub fn max_waves(&self) -> u32 {
        match (self.wave, self.vgprs) {
            (64, 512) => 8,
            (64, _) => 10,
            _ if self.is_of("gfx10-1-generic") => 20,
            _ => 16,
        }
    }

    /// Number of waves per SIMD if their lanes have this many VGPRs each.
    pub fn waves_with(&self, vgprs: u32) -> u32 {
        (self.vgprs / vgprs.max(1).next_multiple_of(self.vgpr_step)).clamp(1, self.max_waves())
    }

    /// The devices that run this generic target's code.
    pub fn covers(&self) -> impl Iterator<Item = &'static GfxTarget> {
        let name = self.name;
        TARGETS.iter().filter(move |target| target.generic == Some(name))
    }

    /// Whether this is the target called `name`, or a device that the generic target called `name` covers.
    pub(crate) fn is_of(&self, name: &str) -> bool {
        self.name == name || self.generic == Some(name)
    }
}

impl Matrix {
    /// The matrix units that kernels use on a target; `None` if it has none, or none that the sources support. Accepts
    /// feature suffixes such as `:xnack-`.
    pub fn of(target: &str) -> Option<Matrix> {
        GfxTarget::find(target)?.matrix
    }
}

impl Dot4 {
    /// The instruction of a target; `None` if it has none. Accepts feature suffixes such as `:xnack-`.
    pub fn of(target: &str) -> Option<Dot4> {
        GfxTarget::find(target)?.dot4
    }
}

/// The version of clang that compiles all targets in [`recorded`].
pub const CLANG: u32 = 19;

/// The names of the targets that are compiled ahead of time by default and checked on every change.
pub fn recorded() -> Vec<&'static str> {
    recorded_with(|clang| clang <= CLANG)
}

/// The names of the targets whose register usage is recorded with a clang newer than [`CLANG`].
pub fn recorded_with_newer_clang() -> Vec<&'static str> {
    recorded_with(|clang| clang > CLANG)
}

/// The devices whose registers are recorded with hipRTC: one of each group with the same code.
pub fn recorded_with_hiprtc() -> impl Iterator<Item = &'static GfxTarget> {
    TARGETS.iter().filter(|target| target.recorded && !target.is_generic() && target.same_code.is_none())
}

fn recorded_with(clang: fn(u32) -> bool) -> Vec<&'static str> {
    TARGETS.iter().filter(|target| target.recorded && clang(target.clang)).map(|target| target.name).collect()
}

/// Checks that a clang knows a target, given its output for `--version`. The error names the version that
/// does.
pub fn check_clang(version: &str, target: &str) -> Result<(), String> {
    let number =
        version.split("version ").nth(1).unwrap_or(version).split_whitespace().next().unwrap_or_default();
    let major = number.split('.').next().and_then(|major| major.parse::<u32>().ok());
    match (GfxTarget::find(target), major) {
        (Some(known), Some(major)) if major < known.clang => {
            let needed = known.clang;
            Err(format!(
                "{target} requires clang {needed} or newer, this is {number}; name another compiler in CLANG"
            ))
        }
        _ => Ok(()),
    }
}

/// The wave size that kernels for a target are compiled for; `None` if the name is not a gfx9 to gfx12 target. The target need
/// not be in the table, since a device may be newer than the table. Accepts feature suffixes such as `:xnack-`.
pub fn wave_of(name: &str) -> Option<u32> {
    match generation(name) {
        9 => Some(64),
        10..=12 => Some(32),
        _ => None,
    }
}

/// The generation of a target: 9 for gfx9, 12 for gfx12, and so on; 0 if the name is not a target's.
pub fn generation(name: &str) -> u32 {
    let Some(rest) = bare(name).strip_prefix("gfx") else { return 0 };
    if !rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return 0;
    }
    // The last two characters of a device's name are the minor version and the stepping.
    let digits = rest.split_once('-').map_or(&rest[..rest.len().saturating_sub(2)], |(major, _)| major);
    digits.parse().unwrap_or(0)
}

fn bare(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_agree_with_each_other() {
        for (at, target) in TARGETS.iter().enumerate() {
            let name = target.name;
            assert!(TARGETS[..at].iter().all(|other| other.name != name), "{name} is there twice");
            assert_eq!(target.product.is_empty(), target.is_generic(), "{name}");
            assert_eq!(wave_of(name), Some(target.wave), "{name}");
            assert!(target.matrix.is_none_or(|matrix| matrix.wave() == target.wave), "{name}");
            let Some(generic) = target.generic else { continue };
            let generic = GfxTarget::find(generic).unwrap();
            assert!(generic.is_generic() && generic.generic.is_none(), "{name}");
            assert_eq!(generic.wave, target.wave, "{name}");
            // The device must run code for its generic target.
            assert!(generic.dot4.is_none() || generic.dot4 == target.dot4, "{name}");
            assert!(generic.matrix.is_none() || generic.matrix == target.matrix, "{name}");
            assert!(generic.lds_bytes <= target.lds_bytes, "{name}");
            assert!(generic.vgprs <= target.vgprs, "{name}");
        }
    }

    #[test]
    fn kernels_need_no_more_lds_than_a_target_has() {
        for target in TARGETS {
            for kernel in crate::instances().iter().filter(|kernel| kernel.runs_on(target.name)) {
                assert!(kernel.lds <= target.lds_bytes, "{} on {}", kernel.symbol, target.name);
            }
        }
    }

    #[test]
    fn a_clang_that_is_too_old_for_a_target_is_named() {
        let debian = "Debian clang version 19.1.7 (3~deb12u1)\nTarget: x86_64-pc-linux-gnu";
        let error = check_clang(debian, "gfx950:sramecc+").unwrap_err();
        assert!(error.contains("gfx950:sramecc+ requires clang 21") && error.contains("19.1.7"), "{error}");
        assert_eq!(check_clang(debian, "gfx942"), Ok(()));
        assert_eq!(check_clang("21.1.8", "gfx950"), Ok(()));
        assert_eq!(check_clang("19.1.7", "gfx1251"), Ok(()), "the table does not know it");
        assert!(TARGETS.iter().filter_map(|t| t.same_code).all(|name| recorded().contains(&name)));
        assert!(recorded().iter().all(|target| check_clang(debian, target).is_ok()));
        assert_eq!(recorded_with_newer_clang(), ["gfx950"]);
    }

    #[test]
    fn names_outside_the_table_have_waves_only() {
        assert_eq!((wave_of("gfx1251"), wave_of("gfx940")), (Some(32), Some(64)));
        assert_eq!((Matrix::of("gfx1251"), Dot4::of("gfx1251")), (None, None));
        for name in ["gfx803", "gfx", "gfx1", "gfx1300", "sm_90", "gfx90a;", "gfxé", ""] {
            assert_eq!(wave_of(name), None, "{name}");
        }
        assert_eq!(wave_of("gfx90a:sramecc+:xnack-"), Some(64));
    }

    #[test]
    fn only_units_that_the_sources_know_are_used() {
        assert_eq!(Matrix::of("gfx90a:sramecc+:xnack-"), Some(Matrix::Mfma90a));
        assert_eq!(Matrix::of("gfx1151"), Some(Matrix::Wmma11));
        assert_eq!(Matrix::of("gfx12-generic"), Some(Matrix::Wmma12));
        assert_eq!(Matrix::of("gfx1030"), None);
        assert_eq!(Matrix::of("gfx1250"), None, "its instructions are others");
        assert_eq!(Matrix::of("gfx908"), Some(Matrix::Mfma90a));
    }

    #[test]
    fn dot_products_are_those_of_the_device_and_not_of_its_generic_target() {
        for plain in ["gfx900", "gfx90c", "gfx9-generic", "gfx1010", "gfx10-1-generic", "gfx1250"] {
            assert_eq!(Dot4::of(plain), None, "{plain}");
        }
        assert_eq!(Dot4::of("gfx906:sramecc+:xnack-"), Some(Dot4::Signed));
        assert_eq!(Dot4::of("gfx1012"), Some(Dot4::Signed));
        assert_eq!(Dot4::of("gfx1036"), Some(Dot4::Signed));
        assert_eq!(Dot4::of("gfx1151"), Some(Dot4::Mixed));
    }
}

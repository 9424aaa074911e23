//! The AMD cards of this machine as the kernel describes them, without HIP, and how to install ROCm for them.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

/// AMD's index of Python packages, with the device code of every target.
const PACKAGES: &str = "https://repo.amd.com/rocm/whl-multi-arch/";

/// An AMD GPU as the kernel describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Card {
    /// The PCI address, such as `0000:03:00.0`.
    pub pci: String,
    /// The product's name, if the driver knows it.
    pub name: Option<String>,
    /// The gfx target, if the driver amdgpu has given the card to ROCm.
    pub gfx: Option<String>,
    /// Bytes of video memory, if the driver says.
    pub memory: Option<u64>,
    /// The driver that the kernel uses for it.
    pub driver: Option<String>,
}

impl fmt::Display for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.name.as_deref().unwrap_or("AMD GPU"), self.pci)?;
        match (&self.gfx, self.driver.as_deref()) {
            (Some(gfx), _) => write!(f, ", {gfx}")?,
            (None, Some("amdgpu")) => f.write_str(", which the driver amdgpu does not offer to ROCm")?,
            (None, Some(driver)) => write!(f, ", whose driver is {driver}: ROCm needs amdgpu")?,
            (None, None) => f.write_str(", without a driver: load amdgpu (sudo modprobe amdgpu)")?,
        }
        self.memory.map_or(Ok(()), |bytes| write!(f, ", {} MiB", bytes >> 20))
    }
}

/// The AMD cards of this machine.
pub fn cards() -> Vec<Card> {
    cards_in(Path::new("/sys"))
}

/// How to install ROCm for a card on this machine.
pub fn installation(card: &Card) -> String {
    let device = card.gfx.as_ref().map_or(String::new(), |gfx| format!(",device-{gfx}"));
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let packages = format!("pip install --index-url {PACKAGES} \"rocm[libraries{device}]\"");
    match packages_of(&release) {
        Some(own) => format!("install ROCm with `{own}`, or in a Python environment with `{packages}`"),
        None => format!("install ROCm in a Python environment with `{packages}`"),
    }
}

/// The command that installs a distribution's own packages, if they have a HIP runtime of version 6 or newer.
fn packages_of(os_release: &str) -> Option<&'static str> {
    let field = |name: &str| {
        let line = os_release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_default().trim_matches('"')
    };
    match field("ID") {
        // Of the distributions that are like Fedora, not all have these packages.
        "fedora" => Some("sudo dnf install rocm-hip rocblas hipblaslt miopen"),
        id => (id == "arch" || field("ID_LIKE").split(' ').any(|like| like == "arch"))
            .then_some("sudo pacman -S rocm-hip-sdk"),
    }
}

fn cards_in(sys: &Path) -> Vec<Card> {
    let mut cards: BTreeMap<String, Card> = BTreeMap::new();
    for folder in folders(&sys.join("bus/pci/devices")) {
        let pci = name_of(&folder);
        let read = |name| fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned());
        // Display controllers and, for cards without outputs, processing accelerators.
        let is_gpu =
            read("class").is_some_and(|class| class.starts_with("0x03") || class.starts_with("0x12"));
        if !is_gpu || read("vendor").as_deref() != Some("0x1002") {
            continue;
        }
        let driver = fs::canonicalize(folder.join("driver")).ok().map(|driver| name_of(&driver));
        let memory = read("mem_info_vram_total").and_then(|bytes| bytes.parse().ok());
        let name = read("product_name").filter(|name| !name.is_empty());
        cards.insert(pci.clone(), Card { pci, name, gfx: None, memory, driver });
    }
    for node in folders(&sys.join("class/kfd/kfd/topology/nodes")) {
        let text = fs::read_to_string(node.join("properties")).unwrap_or_default();
        let Some((pci, gfx)) = node_of(&text) else { continue };
        let driver = Some("amdgpu".to_owned());
        let card = cards.entry(pci.clone()).or_insert_with(|| Card { pci, driver, ..Card::default() });
        card.gfx = Some(gfx);
    }
    cards.into_values().collect()
}

/// The PCI address and the gfx target of a node that is a GPU.
pub(super) fn node_of(properties: &str) -> Option<(String, String)> {
    let value = |name: &str| -> Option<u64> {
        properties.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    };
    let version = value("gfx_target_version").filter(|version| *version > 0)?;
    let (major, minor, stepping) = (version / 10_000, version / 100 % 100, version % 100);
    let location = value("location_id").unwrap_or(0);
    let (bus, device, function) = (location >> 8 & 0xff, location >> 3 & 0x1f, location & 7);
    let pci = format!("{:04x}:{bus:02x}:{device:02x}.{function}", value("domain").unwrap_or(0));
    Some((pci, format!("gfx{major}{minor:x}{stepping:x}")))
}

pub(super) fn folders(folder: &Path) -> Vec<std::path::PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the files of `sys`, each a path and its text.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let file = sys.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        sys
    }

    #[test]
    fn cards_are_found_with_their_target_memory_and_driver() {
        let card = "bus/pci/devices/0000:03:00.0";
        let sys = tree(&[
            (&format!("{card}/vendor"), "0x1002\n"),
            (&format!("{card}/class"), "0x030000\n"),
            (&format!("{card}/mem_info_vram_total"), "25753026560\n"),
            (&format!("{card}/product_name"), "\n"),
            ("bus/pci/drivers/amdgpu/x", ""),
            ("bus/pci/devices/0000:00:02.0/vendor", "0x8086\n"),
            ("bus/pci/devices/0000:00:02.0/class", "0x030000\n"),
            ("bus/pci/devices/0000:00:14.0/vendor", "0x1002\n"),
            ("bus/pci/devices/0000:00:14.0/class", "0x0c0330\n"),
            ("bus/pci/devices/0000:83:00.0/vendor", "0x1002\n"),
            ("bus/pci/devices/0000:83:00.0/class", "0x120000\n"),
            ("class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 16\ngfx_target_version 0\n"),
            (
                "class/kfd/kfd/topology/nodes/1/properties",
                "simd_count 192\ngfx_target_version 110000\nlocation_id 768\ndomain 0\n",
            ),
        ]);
        #[cfg(unix)]
        std::os::unix::fs::symlink(
            sys.path().join("bus/pci/drivers/amdgpu"),
            sys.path().join(card).join("driver"),
        )
        .unwrap();
        let texts: Vec<String> = cards_in(sys.path()).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "AMD GPU at 0000:03:00.0, gfx1100, 24560 MiB",
                "AMD GPU at 0000:83:00.0, without a driver: load amdgpu (sudo modprobe amdgpu)"
            ]
        );
        assert_eq!(cards_in(sys.path())[0].driver.as_deref(), Some("amdgpu"));
    }

    /// Some containers hide the PCI devices.
    #[test]
    fn a_card_that_only_the_driver_describes_is_found() {
        let properties = "gfx_target_version 90402\nlocation_id 33536\ndomain 1\n";
        let sys = tree(&[("class/kfd/kfd/topology/nodes/2/properties", properties)]);
        let [card] = &cards_in(sys.path())[..] else { panic!("one card") };
        assert_eq!((&*card.pci, card.gfx.as_deref()), ("0001:83:00.0", Some("gfx942")));
    }

    #[test]
    fn targets_have_hexadecimal_digits() {
        let gfx = |version: u32| node_of(&format!("gfx_target_version {version}\n")).unwrap().1;
        assert_eq!(
            [90010, 90012, 100306, 110501, 120001].map(gfx),
            ["gfx90a", "gfx90c", "gfx1036", "gfx1151", "gfx1201"]
        );
    }

    #[test]
    fn distributions_with_packages_of_their_own_are_known() {
        assert_eq!(packages_of("NAME=x\nID=manjaro\nID_LIKE=arch\n"), Some("sudo pacman -S rocm-hip-sdk"));
        assert!(packages_of("ID=fedora\nVERSION_ID=43\n").unwrap().contains("dnf"));
        assert_eq!(packages_of("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n"), None);
        assert_eq!(packages_of("ID=debian\n"), None);
    }

    #[test]
    fn the_command_names_the_target() {
        let card = Card { gfx: Some("gfx1201".to_owned()), ..Card::default() };
        let text = installation(&card);
        assert!(text.contains(PACKAGES) && text.contains("\"rocm[libraries,device-gfx1201]\""), "{text}");
    }
}

//! What the system, apart from HIP, says about GPUs: why there is none, and what memory other programs use.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;

/// Why the runtime sees no device, as far as the system shows, and how to fix it.
pub(super) fn no_device() -> String {
    let hidden =
        ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"].into_iter().find_map(
            |name| std::env::var(name).ok().map(|value| format!("{name} is set to {value:?}; unset it")),
        );
    if let Some(windows) = subsystem_of_windows(Path::new("/dev")) {
        return windows;
    }
    let driver = node_problem(Path::new("/dev/kfd"));
    let problem = driver.or_else(|| render_problem(Path::new("/dev/dri"), Path::new("/sys/class/drm")));
    problem.or(hidden).unwrap_or_else(|| {
        "the HIP runtime finds no device, although /dev/kfd and a render node of /dev/dri can be opened; see rocminfo"
            .to_string()
    })
}

/// What ROCm needs in the Windows Subsystem for Linux, which has `/dev/dxg` in place of `/dev/kfd`.
fn subsystem_of_windows(dev: &Path) -> Option<String> {
    (dev.join("dxg").exists() && !dev.join("kfd").exists()).then(|| {
        "this is the Windows Subsystem for Linux: ROCm needs AMD's driver on Windows, and here its library librocdxg \
         (package amdrocm-wsl) with ROCm 7.13 or later; with an earlier one, set HSA_ENABLE_DXG_DETECTION=1"
            .to_string()
    })
}

/// Why a device file of the driver cannot be used. ROCm reports missing permission as missing devices.
fn node_problem(node: &Path) -> Option<String> {
    open(node).map(|error| explain(&node.display().to_string(), error))
}

/// Opens a device file as ROCm does. Returns `None` on success.
fn open(node: &Path) -> Option<ErrorKind> {
    OpenOptions::new().read(true).write(true).open(node).err().map(|error| error.kind())
}

/// Why no GPU's render node can be used: ROCm needs one besides `/dev/kfd`. `drm` is the folder in which the kernel
/// describes the nodes.
fn render_problem(dev: &Path, drm: &Path) -> Option<String> {
    let mut names = render_nodes(drm);
    names.retain(|name| of_amd(&drm.join(name)));
    if names.is_empty() {
        // Some containers hide the kernel's description, but have the nodes.
        names = render_nodes(dev);
    }
    if names.is_empty() {
        names.push("renderD*".to_string());
    }
    let mut problems: BTreeMap<ErrorKind, Vec<String>> = BTreeMap::new();
    for node in names.iter().map(|name| dev.join(name)) {
        // Each node that can be opened is a device that ROCm can use.
        problems.entry(open(&node)?).or_default().push(node.display().to_string());
    }
    let texts: Vec<_> = problems.iter().map(|(error, nodes)| explain(&nodes.join(", "), *error)).collect();
    Some(texts.join("; "))
}

fn render_nodes(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("renderD")).collect();
    names.sort();
    names
}

/// Whether AMD made the device of a render node. True if the kernel does not say.
fn of_amd(node: &Path) -> bool {
    fs::read_to_string(node.join("device/vendor")).map_or(true, |vendor| vendor.trim() == "0x1002")
}

fn explain(node: &str, error: ErrorKind) -> String {
    match error {
        ErrorKind::NotFound => {
            format!(
                "{node} does not exist: there is no AMD GPU, or its driver amdgpu is not loaded, or a container lacks it \
                     (--device /dev/kfd --device /dev/dri)"
            )
        }
        ErrorKind::PermissionDenied => {
            format!(
                "{node} may not be opened by this user: add the user to the groups render and video \
                     (sudo usermod -aG render,video $USER), then log in again; in a container, pass the groups \
                     (--group-add render --group-add video)"
            )
        }
        other => format!("{node} cannot be opened: {other}"),
    }
}

/// Bytes of video memory that no program uses, according to the kernel driver. HIP does not count graphics
/// memory of other programs. `None` if the driver does not say.
pub(super) fn unused_video_memory(sysfs: &Path, pci_bus_id: &str) -> Option<usize> {
    let device = sysfs.join("bus/pci/devices").join(pci_bus_id.to_ascii_lowercase());
    let number = |name| fs::read_to_string(device.join(name)).ok()?.trim().parse::<usize>().ok();
    Some(number("mem_info_vram_total")?.saturating_sub(number("mem_info_vram_used")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_driver_and_a_missing_permission_are_told_apart() {
        let absent = node_problem(Path::new("/no/such/kfd")).unwrap();
        assert!(absent.contains("/no/such/kfd does not exist") && absent.contains("amdgpu"), "{absent}");
        let denied = explain("/dev/kfd", ErrorKind::PermissionDenied);
        assert!(denied.contains("usermod -aG render,video"), "{denied}");
        assert_eq!(node_problem(Path::new("/dev/null")), None);
    }

    #[test]
    fn the_subsystem_of_windows_is_known_by_its_device() {
        let folder = tempfile::tempdir().unwrap();
        let dev = folder.path();
        assert_eq!(subsystem_of_windows(dev), None);
        fs::write(dev.join("dxg"), "").unwrap();
        let text = subsystem_of_windows(dev).unwrap();
        assert!(text.contains("librocdxg") && text.contains("HSA_ENABLE_DXG_DETECTION=1"), "{text}");
        fs::write(dev.join("kfd"), "").unwrap();
        assert_eq!(subsystem_of_windows(dev), None);
    }

    #[test]
    fn render_nodes_of_amd_must_exist_and_open() {
        let root = tempfile::tempdir().unwrap();
        let (dev, drm) = (root.path().join("dri"), root.path().join("drm"));
        let describe = |name: &str, vendor: &str| {
            fs::create_dir_all(drm.join(name).join("device")).unwrap();
            fs::write(drm.join(name).join("device/vendor"), vendor).unwrap();
        };
        fs::create_dir_all(&dev).unwrap();
        let problem = || render_problem(&dev, &drm);
        assert!(problem().unwrap().contains("dri/renderD* does not exist"), "{:?}", problem());
        // Tests may run as root, which ignores permissions; but nobody can open a folder for writing.
        fs::create_dir(dev.join("renderD128")).unwrap();
        assert!(
            problem().unwrap().contains("renderD128 cannot be opened"),
            "without the kernel's description"
        );
        describe("renderD128", "0x8086\n");
        describe("renderD129", "0x1002\n");
        let missing = problem().unwrap();
        assert!(
            missing.contains("renderD129 does not exist") && missing.contains("--device /dev/dri"),
            "{missing}"
        );
        assert!(!missing.contains("renderD128"), "another vendor's: {missing}");
        fs::write(dev.join("renderD129"), "").unwrap();
        describe("renderD130", "0x1002\n");
        assert_eq!(problem(), None, "one of two can be opened");
    }

    #[test]
    fn video_memory_is_read_from_the_driver() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("bus/pci/devices/0000:0b:00.0");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("mem_info_vram_total"), "1000\n").unwrap();
        assert_eq!(unused_video_memory(root.path(), "0000:0B:00.0"), None);
        fs::write(folder.join("mem_info_vram_used"), "300\n").unwrap();
        assert_eq!(unused_video_memory(root.path(), "0000:0B:00.0"), Some(700));
    }
}

//! What the system says about GPUs besides HIP: why there is none, and what memory other programs use.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;

/// Why the runtime sees no device, as far as the system shows, and what to do.
pub(super) fn no_device() -> String {
    let hidden =
        ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"].into_iter().find_map(
            |name| std::env::var(name).ok().map(|value| format!("{name} is set to {value:?}; unset it")),
        );
    kfd_problem(Path::new("/dev/kfd")).or(hidden).unwrap_or_else(|| {
        "the HIP runtime finds none, although /dev/kfd can be opened; see rocminfo".to_string()
    })
}

/// Why the kernel driver's device cannot be used. ROCm shows a lack of permission as an absence of devices.
fn kfd_problem(kfd: &Path) -> Option<String> {
    match OpenOptions::new().read(true).write(true).open(kfd) {
        Ok(_) => None,
        Err(error) => Some(explain_kfd(kfd, error.kind())),
    }
}

fn explain_kfd(kfd: &Path, error: ErrorKind) -> String {
    let kfd = kfd.display();
    match error {
        ErrorKind::NotFound => {
            format!(
                "{kfd} does not exist: there is no AMD GPU, or its driver amdgpu is not loaded, or a container lacks it \
                     (--device /dev/kfd --device /dev/dri)"
            )
        }
        ErrorKind::PermissionDenied => {
            format!(
                "{kfd} may not be opened by this user: add the user to the groups render and video \
                     (sudo usermod -aG render,video $USER), then log in again"
            )
        }
        other => format!("{kfd} cannot be opened: {other}"),
    }
}

/// Bytes of video memory that no program uses, by the kernel driver. HIP does not count what other programs draw with.
/// `None` where the driver does not say.
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
        let absent = kfd_problem(Path::new("/no/such/kfd")).unwrap();
        assert!(absent.contains("/no/such/kfd does not exist") && absent.contains("amdgpu"), "{absent}");
        let denied = explain_kfd(Path::new("/dev/kfd"), ErrorKind::PermissionDenied);
        assert!(denied.contains("usermod -aG render,video"), "{denied}");
        assert_eq!(kfd_problem(Path::new("/dev/null")), None);
    }

    #[test]
    fn video_memory_is_read_from_the_driver() {
        let root = std::env::temp_dir().join(format!("ops-rocm-sysfs-{}", std::process::id()));
        let folder = root.join("bus/pci/devices/0000:0b:00.0");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("mem_info_vram_total"), "1000\n").unwrap();
        assert_eq!(unused_video_memory(&root, "0000:0B:00.0"), None);
        fs::write(folder.join("mem_info_vram_used"), "300\n").unwrap();
        assert_eq!(unused_video_memory(&root, "0000:0B:00.0"), Some(700));
        fs::remove_dir_all(&root).unwrap();
    }
}

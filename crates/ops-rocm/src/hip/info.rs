//! The devices of a machine.

use std::ffi::{CStr, c_char, c_int};

use hip_sys::hip::hipErrorNoDevice;

use super::diagnosis;
use super::error::{Error, Result};
use super::gfx::Gfx;
use super::result::Hip;

/// Properties of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceInfo {
    /// Its number, from 0, among the devices that the process sees.
    pub ordinal: u32,
    /// Its marketing name.
    pub name: String,
    /// Its architecture.
    pub gfx: Gfx,
    /// Its memory in bytes.
    pub memory: usize,
    /// Wave size: 32 or 64 lanes.
    pub wave_size: u32,
    /// Whether it is part of the processor and shares its memory.
    pub integrated: bool,
    /// Number of compute units.
    pub compute_units: u32,
    /// Bytes of LDS available to a block.
    pub lds_bytes: u32,
    /// Maximum number of threads in a block.
    pub max_block_threads: u32,
    /// Maximum number of blocks of a grid in each direction.
    pub max_grid: [u32; 3],
    /// Its place on the PCI bus, such as `0000:0b:00.0`; empty if HIP does not say.
    pub pci_bus_id: String,
}

impl DeviceInfo {
    /// All devices that the process sees.
    ///
    /// # Errors
    ///
    /// [`Error::NoDevice`], with the likely cause, if there is none; errors from HIP.
    pub fn all(hip: &Hip) -> Result<Vec<DeviceInfo>> {
        let count = match hip.device_count() {
            Err(error) if error.code() == Some(hipErrorNoDevice) => 0,
            other => other?,
        };
        if count == 0 {
            return Err(Error::NoDevice(diagnosis::no_device()));
        }
        (0..count).map(|ordinal| DeviceInfo::query(hip, ordinal)).collect()
    }

    fn query(hip: &Hip, ordinal: u32) -> Result<DeviceInfo> {
        let device = ordinal as c_int;
        let properties = hip.device_properties(device)?;
        let number = |n: c_int| u32::try_from(n).unwrap_or(0);
        Ok(DeviceInfo {
            ordinal,
            name: text(&properties.name),
            gfx: Gfx::of_device(&text(&properties.gcnArchName)),
            memory: properties.totalGlobalMem,
            wave_size: number(properties.warpSize),
            integrated: properties.integrated != 0,
            compute_units: number(properties.multiProcessorCount),
            lds_bytes: u32::try_from(properties.sharedMemPerBlock).unwrap_or(u32::MAX),
            max_block_threads: number(properties.maxThreadsPerBlock),
            max_grid: properties.maxGridSize.map(number),
            pci_bus_id: hip.pci_bus_id(device).unwrap_or_default(),
        })
    }

    /// The default device: supported, preferably not integrated, with the most memory.
    pub fn preferred(devices: &[DeviceInfo]) -> Option<&DeviceInfo> {
        let supported = devices.iter().filter(|device| device.gfx.is_supported());
        supported.min_by_key(|device| (device.integrated, std::cmp::Reverse(device.memory), device.ordinal))
    }

    #[cfg(test)]
    pub(super) fn example() -> DeviceInfo {
        DeviceInfo {
            ordinal: 0,
            name: "example".to_string(),
            gfx: Gfx::of_device("gfx1100"),
            memory: 1 << 30,
            wave_size: 32,
            integrated: false,
            compute_units: 4,
            lds_bytes: 65536,
            max_block_threads: 1024,
            max_grid: [i32::MAX as u32, 65536, 65536],
            pci_bus_id: String::new(),
        }
    }
}

/// Remarks on these devices and the environment, for reports.
pub fn remarks(devices: &[DeviceInfo]) -> Vec<String> {
    let overridden = std::env::var("HSA_OVERRIDE_GFX_VERSION").ok();
    remarks_with(devices, overridden.as_deref())
}

fn remarks_with(devices: &[DeviceInfo], overridden: Option<&str>) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(version) = overridden {
        remarks.push(format!(
            "HSA_OVERRIDE_GFX_VERSION is {version}: devices report that architecture, which may not be theirs; \
             kernels may fail or give wrong results. It is not needed here"
        ));
    }
    for device in devices.iter().filter(|device| !device.gfx.is_supported()) {
        let name = &device.name;
        remarks.push(format!(
            "device {} ({name}, {}) is not supported: gfx9 or later is",
            device.ordinal, device.gfx
        ));
    }
    if devices.first().is_some_and(|first| first.integrated)
        && devices.iter().any(|device| !device.integrated)
    {
        remarks.push("the first device is an integrated GPU, so it is not the default".to_string());
    }
    remarks
}

/// Text of a C string in an array; it ends at a zero byte or at the end of the array.
fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|&c| c as u8).chain([0]).collect();
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(ordinal: u32, gfx: &str, integrated: bool, memory: usize) -> DeviceInfo {
        DeviceInfo { ordinal, gfx: Gfx::of_device(gfx), integrated, memory, ..DeviceInfo::example() }
    }

    #[test]
    fn an_integrated_device_is_preferred_only_when_it_is_alone() {
        let shared = device(0, "gfx1036", true, 64 << 30);
        let card = device(1, "gfx1100", false, 16 << 30);
        let larger = device(2, "gfx1100", false, 24 << 30);
        let old = device(3, "gfx803", false, 32 << 30);
        let preferred = |devices: &[&DeviceInfo]| {
            let devices: Vec<_> = devices.iter().map(|&device| device.clone()).collect();
            DeviceInfo::preferred(&devices).map(|device| device.ordinal)
        };
        assert_eq!(preferred(&[&shared, &card, &larger, &old]), Some(2));
        assert_eq!(preferred(&[&shared, &old]), Some(0));
        assert_eq!(preferred(&[&old]), None);
    }

    #[test]
    fn an_override_an_old_card_and_an_integrated_first_device_are_remarked() {
        let devices =
            [device(0, "gfx1036", true, 1), device(1, "gfx1100", false, 1), device(2, "gfx803", false, 1)];
        let remarks = remarks_with(&devices, Some("11.0.0"));
        assert_eq!(remarks.len(), 3, "{remarks:?}");
        assert!(remarks[0].contains("HSA_OVERRIDE_GFX_VERSION is 11.0.0"));
        assert!(remarks[1].contains("device 2") && remarks[1].contains("gfx803"));
        assert!(remarks[2].contains("integrated"));
        assert!(remarks_with(&devices[1..2], None).is_empty());
    }

    #[test]
    fn a_name_ends_at_its_zero_or_with_its_array() {
        assert_eq!(text(&[b'g' as c_char, b'f' as c_char, 0, b'x' as c_char]), "gf");
        assert_eq!(text(&[b'g' as c_char, b'f' as c_char]), "gf");
    }
}

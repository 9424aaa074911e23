//! Level 0: what the system says, without a call to the GPU.
use super::super::info::Machine;
use serde::Serialize;

/// Variables that choose devices, or change what HIP and this program do with them.
const VARIABLES: [&str; 12] = [
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "HSA_OVERRIDE_GFX_VERSION",
    "HSA_ENABLE_SDMA",
    "HSA_XNACK",
    "AMD_SERIALIZE_KERNEL",
    "HIP_LAUNCH_BLOCKING",
    "OPS_ROCM_POLICY",
    "OPS_ROCM_KERNELS",
    "OPS_ROCM_PATH",
];

/// What level 0 finds.
#[derive(Serialize)]
pub(super) struct System {
    pub(super) machine: Machine,
    /// The system's name and version.
    pub(super) distribution: Option<String>,
    pub(super) kernel: Option<String>,
    /// AMD's cards as the kernel describes them.
    pub(super) cards: Vec<String>,
    /// The variables that are set.
    variables: Vec<(&'static str, String)>,
    /// What is likely to go wrong.
    pub(super) warnings: Vec<String>,
}

impl System {
    pub(super) fn here() -> System {
        let value = |name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        let variables = VARIABLES.into_iter().filter_map(|name| Some((name, value(name)?)));
        let mut warnings = ops_rocm::hip::remarks(&[]);
        for name in ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"] {
            if let Some(list) = value(name).filter(|list| list.trim().is_empty() || list.trim() == "-1") {
                warnings.push(format!("{name} is {list:?}, which hides every device; unset it"));
            }
        }
        System {
            machine: Machine::here(),
            distribution: distribution(&read("/etc/os-release").unwrap_or_default()),
            kernel: read("/proc/sys/kernel/osrelease").map(|release| release.trim().to_owned()),
            cards: ops_rocm::hip::cards().iter().map(ToString::to_string).collect(),
            variables: variables.collect(),
            warnings,
        }
    }
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The name in `/etc/os-release`.
fn distribution(text: &str) -> Option<String> {
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

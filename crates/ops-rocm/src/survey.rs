//! A survey of a machine's AMD GPUs: libraries, devices, kernels, and problems.
use crate::group::{PeerAccess, known_peer_access};
use crate::hip::{Card, Compiler, DeviceInfo, Hip, Link, cards, installation, links, remarks};
use crate::kernels::{CacheFolder, CacheLimit, CodeObjects, KernelCount, KernelSource};
use crate::vendor::VENDORS;
use crate::{Policy, Version};
use hip_sys::{Search, rocm_version};
use std::path::{Path, PathBuf};

/// What this machine has for AMD GPUs, found without running anything. It never fails: whatever is absent is
/// part of the result.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The version of ROCm, if its installation says it. HIP's own version differs from it since ROCm 10.
    pub rocm: Option<Version>,
    /// HIP, hipRTC, the vendor libraries and RCCL.
    pub libraries: Vec<SurveyedLibrary>,
    /// The AMD cards that the kernel knows, if there is no HIP or it sees no device.
    pub cards: Vec<Card>,
    /// Connections between AMD cards, as the driver describes them.
    pub links: Vec<Link>,
    /// What the last test found of the devices' access to each other's memory; empty if there was none.
    pub peers: Vec<PeerAccess>,
    /// Every device that HIP sees.
    pub devices: Vec<SurveyedDevice>,
    /// Targets of the kernels that were compiled with this program.
    pub targets: Vec<String>,
    /// Size of these kernels in bytes.
    pub embedded_bytes: usize,
    /// The folder of kernels that hipRTC compiled, if it is used.
    pub cache: Option<PathBuf>,
    /// Problems, each with advice.
    pub warnings: Vec<String>,
}

/// A library of ROCm.
#[derive(Clone, Debug)]
pub struct SurveyedLibrary {
    /// Its name as AMD writes it.
    pub name: &'static str,
    /// The file and the version it reports, or why it cannot be used.
    pub found: Result<(PathBuf, Option<Version>), String>,
}

/// A device with its kernels.
#[derive(Clone, Debug)]
pub struct SurveyedDevice {
    /// The device.
    pub info: DeviceInfo,
    /// Whether it is the default device.
    pub preferred: bool,
    /// The target whose embedded code it would load.
    pub target: Option<String>,
    /// How many kernels are embedded, cached, and still to compile.
    pub kernels: KernelCount,
}

impl Survey {
    /// Surveys this machine, in this environment.
    pub fn here() -> Survey {
        let objects = CodeObjects::embedded();
        let cache = CacheFolder::Standard.usable();
        let mut survey = Survey {
            rocm: None,
            libraries: Vec::new(),
            cards: Vec::new(),
            links: links(),
            peers: known_peer_access(),
            devices: Vec::new(),
            targets: objects.targets().into_iter().map(String::from).collect(),
            embedded_bytes: objects.size(),
            cache: cache.as_ref().ok().cloned(),
            warnings: Vec::new(),
        };
        if let (Err(why), Some(_)) = (cache, CacheFolder::Standard.path()) {
            survey.warnings.push(format!("compiled kernels are not cached: {why}"));
        }
        let source = KernelSource::from_env().unwrap_or_else(|error| {
            survey.warnings.push(error.to_string());
            KernelSource::default()
        });
        survey.warnings.extend(CacheLimit::from_env().err().map(|error| error.to_string()));
        let policy = Policy::from_env().and_then(|policy| policy.check());
        survey.warnings.extend(policy.err().map(|error| error.to_string()));
        match Hip::load() {
            Ok(hip) => survey.with_hip(&hip, source, &objects),
            Err(error) => {
                survey.libraries.push(SurveyedLibrary { name: "HIP", found: Err(error.to_string()) });
                let vendors = VENDORS.iter().map(|vendor| vendor.name);
                let others = ["hipRTC"].into_iter().chain(vendors).chain(["RCCL"]);
                let found = || Err("not searched for without HIP".to_owned());
                survey.libraries.extend(others.map(|name| SurveyedLibrary { name, found: found() }));
                survey.warnings.extend(remarks(&[]));
            }
        }
        if survey.devices.is_empty() {
            survey.cards = cards();
            if !survey.has("HIP") {
                survey.warnings.extend(survey.cards.first().map(installation));
            }
        }
        if source == KernelSource::Aot && objects.is_empty() && !survey.has_supported_device() {
            survey.warnings.push(
                "OPS_ROCM_KERNELS=aot, and this program embeds no kernels: build it with feature `aot`, or unset \
                 OPS_ROCM_KERNELS"
                    .to_owned(),
            );
        }
        survey
    }

    fn has(&self, library: &str) -> bool {
        self.libraries.iter().any(|known| known.name == library && known.found.is_ok())
    }

    fn has_supported_device(&self) -> bool {
        self.devices.iter().any(|device| device.info.gfx.is_supported())
    }

    fn with_hip(&mut self, hip: &Hip, source: KernelSource, objects: &CodeObjects) {
        let mut library = |name, found: Result<(PathBuf, Option<Version>), String>| {
            self.libraries.push(SurveyedLibrary { name, found });
        };
        self.rocm = rocm_version(hip.lib().path());
        self.warnings.extend(hip.lib().note().map(str::to_owned));
        library("HIP", Ok((hip.lib().path().to_path_buf(), hip.lib().version())));
        let compiler = Compiler::load(hip).map_err(|error| error.to_string());
        let found = compiler.as_ref().map(|c| (c.lib().path().to_path_buf(), c.lib().version()));
        library("hipRTC", found.map_err(String::clone));
        let mut vendors = Vec::new();
        for vendor in VENDORS {
            let opened = (vendor.load)(hip.lib()).map_err(|error| error.to_string());
            let found = opened.as_ref().map(|lib| (lib.path().to_path_buf(), lib.version()));
            library(vendor.name, found.map_err(String::clone));
            vendors.extend(opened.map(|lib| (vendor.name, lib)));
        }
        let rccl = rccl_sys::load_from(hip.lib(), &Search::standard()).map_err(|error| error.to_string());
        library("RCCL", rccl.map(|lib| (lib.path().to_path_buf(), lib.version())));
        let loaded = vendors.iter().map(|(name, lib)| (*name, lib.path(), lib.copies()));
        let loaded = [("HIP", hip.lib().path(), hip.lib().copies())].into_iter().chain(loaded);
        self.warnings.extend(loaded.filter_map(|(name, path, copies)| two_copies(name, path, &copies)));

        let devices = DeviceInfo::all(hip).unwrap_or_else(|error| {
            self.warnings.push(error.to_string());
            Vec::new()
        });
        self.warnings.extend(remarks(&devices));
        let preferred = DeviceInfo::preferred(&devices).map(|device| device.ordinal);
        for info in devices {
            let kernels = KernelCount::of(&info.gfx, source, objects, compiler.as_ref().ok());
            let preferred = preferred == Some(info.ordinal);
            if info.gfx.is_supported() {
                self.check_kernels(&info, &kernels, source, compiler.is_ok());
                for (name, lib) in &vendors {
                    let unused = lib.check_kernels(info.gfx.name()).err();
                    self.warnings.extend(
                        unused.map(|why| format!("{name} is not used on device {}: {why}", info.ordinal)),
                    );
                }
            }
            let target = objects.target_for(&info.gfx).map(String::from);
            self.devices.push(SurveyedDevice { info, preferred, target, kernels });
        }
    }

    /// Warns if kernels are not available for the device.
    fn check_kernels(
        &mut self,
        info: &DeviceInfo,
        kernels: &KernelCount,
        source: KernelSource,
        compiler: bool,
    ) {
        let (ordinal, gfx) = (info.ordinal, &info.gfx);
        let target = gfx.generic().unwrap_or(gfx.name());
        if source == KernelSource::Aot && kernels.embedded < kernels.total() {
            self.warnings.push(format!(
                "OPS_ROCM_KERNELS=aot, and this program embeds no kernels for device {ordinal} ({gfx}): build it with \
                 feature `aot` and OPS_ROCM_AOT={target}, or unset OPS_ROCM_KERNELS"
            ));
        } else if kernels.to_compile > 0 && !compiler {
            self.warnings.push(format!(
                "device {ordinal} ({gfx}) has no kernels, and there is no hipRTC to compile them; install it, or \
                 build this program with feature `aot` and OPS_ROCM_AOT={target}"
            ));
        }
    }
}

/// Warns of several copies of one library in this process.
fn two_copies(name: &str, path: &Path, copies: &[PathBuf]) -> Option<String> {
    let others: Vec<String> = copies.iter().map(|copy| copy.display().to_string()).collect();
    (!others.is_empty()).then(|| {
        format!(
            "this process has loaded {name} more than once: {} is used, and {} too; streams and memory of one do not work \
             with the other",
            path.display(),
            others.join(", ")
        )
    })
}

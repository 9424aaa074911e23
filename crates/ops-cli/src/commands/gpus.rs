//! The ROCm libraries and AMD GPUs of this machine, for `ops info` and for reports.
use ops_rocm::{Survey, SurveyedDevice, SurveyedLibrary};
use serde::Serialize;
use std::io::{self, Write};

/// A [`Survey`] in serializable form.
#[derive(Debug, Serialize)]
pub(crate) struct Gpus {
    /// The version of ROCm.
    version: Option<String>,
    libraries: Vec<Library>,
    /// What the kernel knows of AMD's cards, if HIP does not see any.
    cards: Vec<String>,
    /// How AMD's cards are connected, as the driver describes it.
    links: Vec<String>,
    /// What the last test found of the cards' access to each other's memory.
    peers: Vec<String>,
    devices: Vec<Device>,
    embedded: Embedded,
    cache: Option<String>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Library {
    name: &'static str,
    path: Option<String>,
    version: Option<String>,
    /// Why the library cannot be used.
    absent: Option<String>,
}

#[derive(Debug, Serialize)]
struct Device {
    ordinal: u32,
    name: String,
    gfx: String,
    memory: usize,
    wave: u32,
    compute_units: u32,
    integrated: bool,
    supported: bool,
    /// Whether it is the default device.
    preferred: bool,
    /// Present if the device is supported.
    kernels: Option<Kernels>,
}

/// Numbers of kernel units, by where the device loads them from.
#[derive(Debug, Serialize)]
struct Kernels {
    embedded: usize,
    /// The target whose embedded code the device loads.
    target: Option<String>,
    cached: usize,
    to_compile: usize,
}

#[derive(Debug, Serialize)]
struct Embedded {
    targets: Vec<String>,
    bytes: usize,
}

impl Gpus {
    /// Surveys this machine.
    pub(crate) fn here() -> Self {
        let Survey {
            rocm,
            libraries,
            cards,
            links,
            peers,
            devices,
            targets,
            embedded_bytes,
            cache,
            warnings,
        } = Survey::here();
        Gpus {
            version: rocm.map(|version| version.to_string()),
            cards: cards.iter().map(ToString::to_string).collect(),
            links: links.iter().map(ToString::to_string).collect(),
            peers: peers.iter().map(ToString::to_string).collect(),
            libraries: libraries.into_iter().map(Library::of).collect(),
            devices: devices.into_iter().map(Device::of).collect(),
            embedded: Embedded { targets, bytes: embedded_bytes },
            cache: cache.map(|path| path.display().to_string()),
            warnings,
        }
    }

    /// Whether a device can compute, and a list of the devices or the reason why there are none.
    pub(super) fn summary(&self) -> (bool, String) {
        let devices = self.devices.iter().map(|d| format!("{} ({}, {} MiB)", d.name, d.gfx, d.memory >> 20));
        let devices: Vec<String> = devices.collect();
        if self.devices.iter().any(|d| d.supported) {
            return (true, devices.join(", "));
        }
        let no_hip = self.libraries.iter().any(|l| l.name == "HIP" && l.absent.is_some());
        let why = if no_hip { "there is no HIP runtime" } else { "HIP sees no supported GPU" };
        (false, format!("{why}; see below"))
    }

    /// Writes the libraries, devices and kernels as text.
    ///
    /// # Errors
    /// Errors of the writer.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut title = "rocm";
        if let Some(version) = &self.version {
            writeln!(out, "{:<8}  {:<9}  {version}", std::mem::take(&mut title), "ROCm")?;
        }
        for Library { name, path, version, absent } in &self.libraries {
            let version = version.as_deref().unwrap_or("of unknown version");
            let what = match (path, absent) {
                (Some(path), _) => format!("{version}, {path}"),
                (None, absent) => format!("not available: {}", absent.as_deref().unwrap_or("not found")),
            };
            writeln!(out, "{:<8}  {name:<9}  {what}", std::mem::take(&mut title))?;
        }
        self.cards.iter().try_for_each(|card| writeln!(out, "card      {card}"))?;
        for d in &self.devices {
            let kind = if d.integrated { "integrated" } else { "discrete" };
            let marks = [(d.preferred, ", the default"), (!d.supported, ", not supported")];
            let marks: String = marks.iter().filter(|(holds, _)| *holds).map(|(_, text)| *text).collect();
            writeln!(
                out,
                "device {}  {}: {}, {} MiB, waves of {}, {} compute units, {kind}{marks}",
                d.ordinal,
                d.name,
                d.gfx,
                d.memory >> 20,
                d.wave,
                d.compute_units
            )?;
            let Some(Kernels { embedded, target, cached, to_compile }) = &d.kernels else { continue };
            let of =
                target.as_ref().filter(|_| *embedded > 0).map_or(String::new(), |t| format!(" (for {t})"));
            writeln!(
                out,
                "{:<8}  {:<9}  units: {embedded} embedded{of}, {cached} cached, {to_compile} to be compiled on first use",
                "", "kernels"
            )?;
        }
        self.links.iter().try_for_each(|link| writeln!(out, "link      {link}"))?;
        self.peers.iter().try_for_each(|pair| writeln!(out, "link      tested: {pair}"))?;
        let Embedded { targets, bytes } = &self.embedded;
        let embedded = match &targets[..] {
            [] => "none; feature `aot` embeds kernels in the program".to_owned(),
            targets => format!("{} ({} KiB)", targets.join(" "), bytes >> 10),
        };
        writeln!(out, "kernels   embedded   {embedded}")?;
        let cache = self.cache.as_deref().unwrap_or("nowhere: every process compiles what it uses");
        writeln!(out, "{:<8}  {:<9}  {cache}", "", "cache")?;
        self.warnings.iter().try_for_each(|warning| writeln!(out, "warning   {warning}"))
    }
}

impl Library {
    fn of(SurveyedLibrary { name, found }: SurveyedLibrary) -> Self {
        match found {
            Ok((path, version)) => Library {
                name,
                path: Some(path.display().to_string()),
                version: version.map(|v| v.to_string()),
                absent: None,
            },
            Err(why) => Library { name, path: None, version: None, absent: Some(why) },
        }
    }
}

impl Device {
    fn of(SurveyedDevice { info, preferred, target, kernels }: SurveyedDevice) -> Self {
        let supported = info.gfx.is_supported();
        Device {
            ordinal: info.ordinal,
            gfx: info.gfx.to_string(),
            name: info.name,
            memory: info.memory,
            wave: info.wave_size,
            compute_units: info.compute_units,
            integrated: info.integrated,
            supported,
            preferred,
            kernels: supported.then_some(Kernels {
                embedded: kernels.embedded,
                target,
                cached: kernels.cached,
                to_compile: kernels.to_compile,
            }),
        }
    }
}

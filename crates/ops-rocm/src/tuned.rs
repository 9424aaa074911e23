//! Launch parameters measured on a device, in a file next to the compiled kernels.
//!
//! There is one TOML file per device. It names the device and the version of this crate that measured it; if
//! either differs, the file is ignored with a warning.
use crate::error::failed;
use crate::hip::DeviceInfo;
use crate::kernels::CacheFolder;
use crate::own_files;
use ops_core::Result;
use ops_kernels::{KNOBS, Tuning};
use std::path::{Path, PathBuf};

/// Maximum size of a file, which has a line for each parameter.
const MAX_BYTES: u64 = 1 << 16;
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where a device's parameters are stored; `None` if nothing is stored.
pub(crate) fn file(folder: &CacheFolder, info: &DeviceInfo) -> Option<PathBuf> {
    let name = format!("tuning-{}-{}.toml", info.gfx.name(), info.compute_units);
    folder.path().map(|folder| folder.join(name))
}

/// The table's parameters for a device, overridden by those measured on it.
pub(crate) fn load(folder: &CacheFolder, info: &DeviceInfo) -> Tuning {
    let table = Tuning::of(info.gfx.name());
    let Some(path) = file(folder, info) else { return table };
    let text = match own_files::read(&path, MAX_BYTES) {
        Ok((_, bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return table,
        Err(error) => return passed_over(&path, &error.to_string(), table),
    };
    read(&text, info, table).unwrap_or_else(|why| passed_over(&path, &why, table))
}

fn passed_over(path: &Path, why: &str, table: Tuning) -> Tuning {
    tracing::warn!("{} is ignored: {why}; run `ops tune --backend rocm` to write it again", path.display());
    table
}

fn read(text: &str, info: &DeviceInfo, mut tuning: Tuning) -> std::result::Result<Tuning, String> {
    let file: toml::Table = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    let word = |key: &str| file.get(key).and_then(toml::Value::as_str).unwrap_or_default();
    if word("version") != VERSION {
        return Err(format!("it was measured by version {:?}, this is {VERSION}", word("version")));
    }
    let compute_units = file.get("compute_units").and_then(toml::Value::as_integer).unwrap_or_default();
    let there = (word("device"), word("gfx"), compute_units);
    let here = (info.name.as_str(), info.gfx.name(), i64::from(info.compute_units));
    if here != there {
        return Err(format!("it was measured on {there:?}, this is {here:?}"));
    }
    let values = file.get("values").and_then(toml::Value::as_table).ok_or("it has no table `values`")?;
    for (knob, value) in values {
        let number = value.as_integer().and_then(|n| u32::try_from(n).ok()).unwrap_or_default();
        if !tuning.set(knob, number) {
            return Err(format!("`{knob}` cannot be set to {value:?}"));
        }
    }
    Ok(tuning)
}

/// Stores parameters for a device; returns the file.
pub(crate) fn store(folder: &CacheFolder, info: &DeviceInfo, tuning: &Tuning) -> Result<PathBuf> {
    let doing = "storing the measured values";
    let path =
        file(folder, info).ok_or_else(|| failed(doing, "OPS_ROCM_CACHE is empty; set it to a folder"))?;
    own_files::write(&path, render(info, tuning).as_bytes()).map_err(|error| {
        failed(doing, format!("{}: {error}; set OPS_ROCM_CACHE to another folder", path.display()))
    })?;
    Ok(path)
}

fn render(info: &DeviceInfo, tuning: &Tuning) -> String {
    let DeviceInfo { name: device, gfx, compute_units, .. } = info;
    let gfx = gfx.name();
    let mut out = format!(
        "# Measured by `ops tune`; without this file the table's values apply.\nversion = {VERSION:?}\n\
         device = {device:?}\ngfx = {gfx:?}\ncompute_units = {compute_units}\n\n[values]\n"
    );
    for knob in &KNOBS {
        out += &format!("{} = {}\n", knob.name, tuning.get(knob.name).unwrap_or(knob.value));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hip::Gfx;
    use std::fs;

    fn info(name: &str) -> DeviceInfo {
        DeviceInfo {
            ordinal: 0,
            name: name.into(),
            gfx: Gfx::parse("gfx90a:sramecc+:xnack-").unwrap(),
            memory: 1 << 34,
            wave_size: 64,
            integrated: false,
            compute_units: 104,
            lds_bytes: 65536,
            max_block_threads: 1024,
            max_grid: [1; 3],
            pci_bus_id: String::new(),
        }
    }

    #[test]
    fn what_is_stored_is_read_again_and_what_is_foreign_is_passed_over() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("made");
        let folder = CacheFolder::At(path.clone());
        let (one, other) = (info("one"), info("other"));
        let table = Tuning::of("gfx90a");
        assert_eq!(load(&folder, &one), table, "nothing is stored");
        let mut tuning = table;
        assert!(tuning.set("decode_blocks", 7));
        let stored = store(&folder, &one, &tuning).unwrap();
        assert_eq!(load(&folder, &one), tuning);
        assert_eq!(load(&folder, &other), table, "of another device");
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "no partial file is left");
        let text = fs::read_to_string(&stored).unwrap();
        let damaged = [
            text.replace(VERSION, "0.0.0"),
            text.replace("decode_blocks", "no_such_knob"),
            text.replace("= 7", "= 0"),
            text.replace("= 7", "= -7"),
            text.replace("[values]", "[other]"),
            text.replace("104", "103"),
            "not = [toml".to_owned(),
        ];
        for text in damaged {
            fs::write(&stored, &text).unwrap();
            assert_eq!(load(&folder, &one), table, "{text}");
        }
        assert!(store(&CacheFolder::Nowhere, &one, &tuning).is_err());
    }
}

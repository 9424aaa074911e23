//! Launch parameters and orders of providers measured on a device, in files next to the compiled kernels.
//!
//! There are two TOML files per device. Each names the device and the version of this crate that measured it; if
//! either differs, the file is ignored with a warning. That of the providers also names the version of each library; a row is
//! ignored if one of its libraries has another version.
use crate::choice::{Measured, Measurement, Target};
use crate::error::failed;
use crate::hip::DeviceInfo;
use crate::kernels::CacheFolder;
use crate::own_files;
use ops_core::Result;
use ops_kernels::{KNOBS, Tuning};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Maximum size of a file.
const MAX_BYTES: u64 = 1 << 22;
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Whether what was measured is used: unless `OPS_ROCM_TUNED` is `off`.
pub(crate) fn is_wanted() -> bool {
    std::env::var_os("OPS_ROCM_TUNED").is_none_or(|value| value != "off")
}

/// Where a device's parameters are stored; `None` if nothing is stored.
fn file(folder: &CacheFolder, info: &DeviceInfo) -> Option<PathBuf> {
    file_of("tuning", folder, info)
}

fn file_of(kind: &str, folder: &CacheFolder, info: &DeviceInfo) -> Option<PathBuf> {
    let name = format!("{kind}-{}-{}.toml", info.gfx.name(), info.compute_units);
    folder.path().map(|folder| folder.join(name))
}

/// The table's parameters for a device, overridden by those measured on it.
pub(crate) fn load(folder: &CacheFolder, info: &DeviceInfo) -> Tuning {
    let table = Tuning::of(info.gfx.name());
    read_own(file(folder, info), |text| read(text, info, table)).unwrap_or(table)
}

/// Reads a file of ours, and warns if it cannot be used.
fn read_own<T>(
    path: Option<PathBuf>,
    read: impl FnOnce(&str) -> std::result::Result<T, String>,
) -> Option<T> {
    let path = path?;
    let why = match own_files::read(&path, MAX_BYTES) {
        Ok((_, bytes)) => match read(&String::from_utf8_lossy(&bytes)) {
            Ok(found) => return Some(found),
            Err(why) => why,
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => error.to_string(),
    };
    tracing::warn!("{} is ignored: {why}; run `ops tune --backend rocm` to write it again", path.display());
    None
}

fn read(text: &str, info: &DeviceInfo, mut tuning: Tuning) -> std::result::Result<Tuning, String> {
    let file = of_this_device(text, info)?;
    let values = file.get("values").and_then(toml::Value::as_table).ok_or("it has no table `values`")?;
    for (knob, value) in values {
        let number = value.as_integer().and_then(|n| u32::try_from(n).ok()).unwrap_or_default();
        if !tuning.set(knob, number) {
            return Err(format!("`{knob}` cannot be set to {value:?}"));
        }
    }
    Ok(tuning)
}

/// A file that was measured by this version on this device.
fn of_this_device(text: &str, info: &DeviceInfo) -> std::result::Result<toml::Table, String> {
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
    Ok(file)
}

/// The orders of providers measured on a device.
pub(crate) fn load_providers(folder: &CacheFolder, info: &DeviceInfo) -> Measured {
    let path = file_of("providers", folder, info);
    read_own(path, |text| read_providers(text, info)).unwrap_or_default()
}

fn read_providers(text: &str, info: &DeviceInfo) -> std::result::Result<Measured, String> {
    let file = of_this_device(text, info)?;
    let text_of = |value: Option<&toml::Value>| value.and_then(toml::Value::as_str).map(str::to_owned);
    let mut measured = Measured::default();
    for (id, version) in file.get("libraries").and_then(toml::Value::as_table).into_iter().flatten() {
        let version = text_of(Some(version)).ok_or_else(|| format!("the version of {id} is not a text"))?;
        measured.libraries.insert(id.clone(), version);
    }
    for row in file.get("measured").and_then(toml::Value::as_array).into_iter().flatten() {
        let word = |key: &str| text_of(row.get(key)).ok_or_else(|| format!("a row has no text `{key}`"));
        let mut times = Vec::new();
        for (id, ns) in row.get("ns").and_then(toml::Value::as_table).into_iter().flatten() {
            let ns =
                ns.as_float().filter(|ns| *ns > 0.0).ok_or_else(|| format!("the time of {id} is {ns:?}"))?;
            times.push((id.clone(), ns));
        }
        times.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        measured.add([Measurement { op: word("op")?, class: word("class")?, date: word("date")?, times }]);
    }
    Ok(measured)
}

/// Stores orders of providers for a device, beside those that are stored and still hold; returns the file.
pub(crate) fn store_providers(
    folder: &CacheFolder,
    info: &DeviceInfo,
    target: &Target,
    rows: impl IntoIterator<Item = Measurement>,
) -> Result<PathBuf> {
    let version = |id: &str| target.version_of(id);
    let stored = load_providers(folder, info);
    let mut measured = Measured::default();
    measured.add(stored.current(&version).cloned().chain(rows));
    let named: BTreeSet<String> =
        measured.rows().flat_map(|row| row.times.iter().map(|(id, _)| id.clone())).collect();
    measured.libraries = named.into_iter().filter_map(|id| Some((id.clone(), version(&id)?))).collect();
    write_own(file_of("providers", folder, info), &render_providers(info, &measured))
}

/// Stores parameters for a device; returns the file.
pub(crate) fn store(folder: &CacheFolder, info: &DeviceInfo, tuning: &Tuning) -> Result<PathBuf> {
    write_own(file(folder, info), &render(info, tuning))
}

fn write_own(path: Option<PathBuf>, text: &str) -> Result<PathBuf> {
    let doing = "storing the measured values";
    let path = path.ok_or_else(|| failed(doing, "OPS_ROCM_CACHE is empty; set it to a folder"))?;
    own_files::write(&path, text.as_bytes()).map_err(|error| {
        failed(doing, format!("{}: {error}; set OPS_ROCM_CACHE to another folder", path.display()))
    })?;
    Ok(path)
}

/// What both files begin with.
fn head(info: &DeviceInfo) -> String {
    let DeviceInfo { name: device, gfx, compute_units, .. } = info;
    let gfx = gfx.name();
    format!(
        "# Measured by `ops tune`; without this file, and with OPS_ROCM_TUNED=off, the built-in choices apply.\n\
         version = {VERSION:?}\ndevice = {device:?}\ngfx = {gfx:?}\ncompute_units = {compute_units}\n"
    )
}

fn render_providers(info: &DeviceInfo, measured: &Measured) -> String {
    let mut out = head(info) + "\n[libraries]\n";
    for (id, version) in &measured.libraries {
        out += &format!("{id} = {version:?}\n");
    }
    for Measurement { op, class, date, times } in measured.rows() {
        let times: Vec<String> = times.iter().map(|(id, ns)| format!("{id} = {ns:.1}")).collect();
        let times = times.join(", ");
        out +=
            &format!("\n[[measured]]\nop = {op:?}\nclass = {class:?}\ndate = {date:?}\nns = {{ {times} }}\n");
    }
    out
}

fn render(info: &DeviceInfo, tuning: &Tuning) -> String {
    let mut out = head(info) + "\n[values]\n";
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

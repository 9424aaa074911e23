//! `cargo xtask cards`: writes the table in `docs/cards.md` from the accepted reports of `ops check`, the files `reports/*.json`.
use crate::page;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- made by `cargo xtask cards` from reports/*.json -->";

/// The version of the reports' form that this reads: `SCHEMA` of ops-cli.
const SCHEMA: u64 = 1;

/// Runs the command.
pub(crate) fn main(args: &[String]) -> Result<(), String> {
    if let Some(unknown) = args.first() {
        return Err(format!("cards: no option `{unknown}`; there are none"));
    }
    let (path, text) = generated()?;
    page::write(&path, &text)
}

/// The page and what it should hold.
fn generated() -> Result<(PathBuf, String), String> {
    let page = page::root().join("docs/cards.md");
    let text = page::with_part(&page, BEGIN, &table(&page::root().join("reports"))?)?;
    Ok((page, text))
}

/// The table of the reports in a folder, which need not exist.
fn table(folder: &Path) -> Result<String, String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    if files.is_empty() {
        return Ok("No report has been accepted yet.\n".to_owned());
    }
    let mut rows: Vec<String> =
        files.iter().map(|file| rows(file)).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    rows.sort();
    let head = "| card | target | ROCm | level | result | not right | ops | report |\n|---|---|---|---:|---|---|---|---|";
    Ok(format!("{head}\n{}\n", rows.join("\n")))
}

/// One row for each card in a report.
fn rows(file: &Path) -> Result<Vec<String>, String> {
    let fault = |what: String| format!("{}: {what}", file.display());
    let report: Value = serde_json::from_str(&page::read(file)?).map_err(|e| fault(e.to_string()))?;
    if report["schema"] != SCHEMA {
        return Err(fault(format!("schema {}; this reads {SCHEMA}", report["schema"])));
    }
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or("unknown").replace('|', "\\|");
    let devices = list(&report["rocm"]["devices"]);
    if devices.is_empty() {
        return Err(fault("it has no card in `rocm.devices`, so nothing was run on one".to_owned()));
    }
    let bad =
        list(&report["steps"]).into_iter().filter(|step| step["state"] != "ok" && step["state"] != "not_run");
    let bad: BTreeSet<String> = bad
        .map(|step| format!("{} ({})", text(&step["name"]), text(&step["state"]).replace('_', " ")))
        .collect();
    let bad = bad.into_iter().collect::<Vec<_>>().join(", ");
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    // ROCm's own version is not known everywhere; HIP's, in the first row of libraries, is.
    let rocm = report["rocm"]["version"].as_str().map(str::to_owned);
    let rocm = rocm.unwrap_or_else(|| format!("HIP {}", text(&report["rocm"]["libraries"][0]["version"])));
    let row = |device: &Value| {
        [
            text(&device["name"]),
            text(&device["gfx"]),
            rocm.clone(),
            report["level"].to_string(),
            text(&report["verdict"]),
            bad.clone(),
            text(&report["version"]),
            format!("[{name}](../reports/{name})"),
        ]
    };
    // The default card is the one that was checked.
    let checked = devices.iter().filter(|device| device["preferred"] == true);
    Ok(checked.map(|device| format!("| {} |", row(device).join(" | "))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `ops check --op neg --skip matrix_units,tokens,bench` on the stand-in, with a wrong kernel for `neg`; most of its failures are removed.
    const STANDIN: &str = include_str!("cards/standin-report.json");

    #[test]
    fn the_page_is_current() {
        let (path, text) = generated().unwrap();
        assert_eq!(page::read(&path).unwrap(), text, "run `cargo xtask cards`");
    }

    #[test]
    fn a_report_is_a_row_and_a_bad_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(table(&folder.path().join("none")).unwrap(), "No report has been accepted yet.\n");
        let file = folder.path().join("gfx1100.json");
        std::fs::write(&file, STANDIN).unwrap();
        let rows = table(folder.path()).unwrap();
        let row = rows.lines().nth(2).unwrap();
        assert!(
            row.contains("| gfx1100 | HIP 7.2.0 |")
                && row.contains("| 1 | something failed | neg (failed) |"),
            "{row}"
        );
        for (from, to, fault) in [
            ("\"schema\": 1", "\"schema\": 2", "schema 2; this reads 1"),
            ("\"devices\"", "\"none\"", "it has no card"),
            ("{", "[", "expected"),
        ] {
            std::fs::write(&file, STANDIN.replacen(from, to, 1)).unwrap();
            let error = table(folder.path()).unwrap_err();
            assert!(error.contains("gfx1100.json") && error.contains(fault), "{error}");
        }
    }
}

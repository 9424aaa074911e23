//! The report: a JSON document for machines, and a page for people.
use super::child::Ended;
use super::system::System;
use crate::args::CheckArgs;
use crate::exit::{Failure, Outcome};
use crate::output::Versioned;
use ops_gguf::AtomicFile;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;

#[derive(Serialize)]
pub(super) struct Report<'a> {
    version: &'static str,
    level: u8,
    system: System,
    /// What `ops info` finds; null at level 0, or if that ended early.
    pub(super) rocm: Value,
    pub(super) steps: Vec<Step>,
    /// Failed cases, each with the op, type, case and message.
    failures: Vec<Value>,
    /// What no provider could compute.
    unsupported: Vec<Value>,
    /// Lines of `ops bench`.
    pub(super) bench: Vec<Value>,
    /// What was running when the file was written. If the process died, this is the suspect.
    pub(super) running: Option<String>,
    verdict: &'static str,
    #[serde(skip)]
    args: &'a CheckArgs,
}

/// A step and its result.
#[derive(Serialize)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) state: State,
    seconds: f64,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Ok,
    Failed,
    /// A signal ended the process.
    Died,
    TimedOut,
    NotRun,
}

impl Step {
    pub(super) fn of(name: &str, ended: &Ended) -> Step {
        let state = match ended.status.map(|status| status.code()) {
            None => State::TimedOut,
            Some(None) => State::Died,
            Some(Some(0)) => State::Ok,
            Some(Some(_)) => State::Failed,
        };
        let last = ended.stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let message = match (state, ended.status) {
            (State::Ok, _) => String::new(),
            (State::Died, Some(status)) => format!("{status}; {last}"),
            _ => last.to_owned(),
        };
        Step { name: name.to_owned(), state, seconds: ended.seconds, message }
    }

    pub(super) fn not_run(name: &str, why: &str) -> Step {
        Step { name: name.to_owned(), state: State::NotRun, seconds: 0.0, message: why.to_owned() }
    }
}

impl<'a> Report<'a> {
    pub(super) fn new(args: &'a CheckArgs) -> Self {
        Report {
            version: env!("CARGO_PKG_VERSION"),
            level: args.level,
            system: System::here(),
            rocm: Value::Null,
            steps: Vec::new(),
            failures: Vec::new(),
            unsupported: Vec::new(),
            bench: Vec::new(),
            running: None,
            verdict: "not complete",
            args,
        }
    }

    /// `report.json` and `report.md`.
    pub(super) fn files(&self) -> [PathBuf; 2] {
        ["report.json", "report.md"].map(|name| self.args.out.join(name))
    }

    /// A file for the results of one step.
    pub(super) fn scratch(&self) -> PathBuf {
        self.args.out.join("report.step.json")
    }

    /// Adds the results of `ops test --report`.
    pub(super) fn add_tests(&mut self, document: &Value) {
        let rows = |name: &str| document[name].as_array().cloned().unwrap_or_default();
        self.failures.extend(rows("failures"));
        self.unsupported.extend(rows("unsupported"));
    }

    /// Adds the results of `ops replay --json`.
    pub(super) fn add_replay(&mut self, lines: &[Value]) {
        for line in lines {
            let file = line["file"].as_str().map(std::path::Path::new);
            let case = file.and_then(|file| Some(file.file_stem()?.to_string_lossy()));
            let (op, dtype, reason) = (&line["op"], &line["dtype"], &line["reason"]);
            match line["status"].as_str() {
                Some("fail" | "error") => {
                    let message = reason.as_str().map_or_else(
                        || format!("golden case: error {}, limit {}", line["nmse"], line["limit"]),
                        |reason| format!("golden case: {reason}"),
                    );
                    self.failures.push(json!({ "op": op, "dtype": dtype, "case": case, "message": message }));
                }
                Some("unsupported") => {
                    self.unsupported.push(json!({ "op": op, "dtype": dtype, "reason": reason, "count": 1 }));
                }
                _ => {}
            }
        }
    }

    /// Turns a step that ran into one that failed.
    pub(super) fn fail(&mut self, name: &str, message: String) {
        if let Some(step) = self.steps.iter_mut().find(|step| step.name == name) {
            (step.state, step.message) = (State::Failed, message);
        }
    }

    /// Decides what the steps show.
    pub(super) fn finish(&mut self) {
        let ran = self.steps.iter().filter(|step| step.state != State::NotRun);
        let (bad, all) =
            ran.fold((0, 0), |(bad, all), step| (bad + usize::from(step.state != State::Ok), all + 1));
        self.verdict = match (self.level, bad, all) {
            (0, ..) => "nothing was run on a card",
            (_, 0, 0 | 1) => "no card can be used",
            (_, 0, _) => "all that ran is right",
            (_, _, 1) => "ROCm cannot be used",
            _ => "something failed",
        };
    }

    /// 0 if all that ran is right, 1 if something failed, 2 if no card could be checked.
    pub(super) fn outcome(&self) -> Outcome {
        match self.verdict {
            "something failed" => Outcome::CheckFailed,
            "no card can be used" | "ROCm cannot be used" => Outcome::Unreadable,
            _ => Outcome::Fine,
        }
    }

    /// The document, without the names of user, home and host unless they are wanted.
    pub(super) fn document(&self) -> Result<Value, Failure> {
        let mut document = serde_json::to_value(self).map_err(|error| Failure::Usage(error.to_string()))?;
        if !self.args.unredacted {
            redact(&mut document, &secrets());
        }
        Ok(document)
    }

    /// Writes both files.
    pub(super) fn save(&self) -> Result<(), Failure> {
        let unwritten = |error: ops_gguf::Error| Failure::Usage(error.to_string());
        let document = self.document()?;
        let [json, page] = self.files();
        let text = serde_json::to_string_pretty(&Versioned::new(&document))
            .map_err(|error| Failure::Usage(error.to_string()))?;
        AtomicFile::save(&json, format!("{text}\n").as_bytes()).map_err(unwritten)?;
        AtomicFile::save(&page, self.page()?.as_bytes()).map_err(unwritten)
    }

    /// The page.
    pub(super) fn page(&self) -> Result<String, Failure> {
        let document = self.document()?;
        let mut out = format!("# ops check, level {}: {}\n\n", self.level, self.verdict);
        write_page(&document, &mut out).map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(out)
    }
}

fn write_page(document: &Value, out: &mut String) -> std::fmt::Result {
    let text = |value: &Value| value.as_str().map_or_else(|| "unknown".to_owned(), str::to_owned);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let system = &document["system"];
    writeln!(out, "- ops {}, {}", text(&document["version"]), text(&system["machine"]["cpu"]))?;
    writeln!(out, "- {}, Linux {}", text(&system["distribution"]), text(&system["kernel"]))?;
    let rocm = &document["rocm"];
    if !rocm.is_null() {
        writeln!(out, "- ROCm {}", text(&rocm["version"]))?;
    }
    for library in list(&rocm["libraries"]) {
        let what = if library["path"].is_null() { &library["absent"] } else { &library["version"] };
        writeln!(out, "- {}: {}", text(&library["name"]), text(what))?;
    }
    for device in list(&rocm["devices"]) {
        writeln!(out, "- device {}: {}, {}", device["ordinal"], text(&device["name"]), text(&device["gfx"]))?;
    }
    for card in list(&system["cards"]) {
        writeln!(out, "- card: {}", text(&card))?;
    }
    for variable in list(&system["variables"]) {
        writeln!(out, "- {}={}", text(&variable[0]), text(&variable[1]))?;
    }
    for pair in list(&rocm["peers"]) {
        writeln!(out, "- {}", text(&pair))?;
    }
    for warning in list(&system["warnings"]).iter().chain(&list(&rocm["warnings"])) {
        writeln!(out, "- warning: {}", text(warning))?;
    }
    let steps = list(&document["steps"]);
    if !steps.is_empty() {
        writeln!(out, "\n| step | result | seconds | |\n|---|---|---:|---|")?;
    }
    for step in &steps {
        let seconds = step["seconds"].as_f64().unwrap_or(0.0);
        let message = step["message"].as_str().unwrap_or_default().replace('|', "\\|");
        writeln!(
            out,
            "| {} | {} | {seconds:.1} | {message} |",
            text(&step["name"]),
            text(&step["state"]).replace('_', " ")
        )?;
    }
    let failures = list(&document["failures"]);
    if !failures.is_empty() {
        writeln!(out, "\n{} failed cases, the first:\n", failures.len())?;
    }
    for case in failures.iter().take(20) {
        writeln!(out, "- {} {}: {}", text(&case["op"]), text(&case["case"]), text(&case["message"]))?;
    }
    let bench = list(&document["bench"]);
    if !bench.is_empty() {
        writeln!(
            out,
            "\n| op | shape | µs | GB/s | GFLOP/s | of the card's limit |\n|---|---|---:|---:|---:|---:|"
        )?;
    }
    let number = |value: &Value| value.as_f64().map_or_else(String::new, |value| format!("{value:.1}"));
    for line in &bench {
        let micros = line["ns"].as_f64().unwrap_or(0.0) / 1e3;
        let [gbps, gflops, percent] = ["gbps", "gflops", "percent"].map(|key| number(&line[key]));
        writeln!(
            out,
            "| {} | {} | {micros:.1} | {gbps} | {gflops} | {percent} % |",
            text(&line["op"]),
            line["shape"]
        )?;
    }
    Ok(())
}

/// Names that tell who sent a report, each with what replaces it.
fn secrets() -> Vec<(String, &'static str)> {
    let variable = |name| std::env::var(name).ok();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let found = [
        (variable("HOME"), "~"),
        (variable("USER").or_else(|| variable("LOGNAME")), "USER"),
        (variable("HOSTNAME"), "HOST"),
        (host, "HOST"),
    ];
    let found = found.into_iter().filter_map(|(name, with)| Some((name?.trim().to_owned(), with)));
    // The root of the file system and the name `root` tell nothing.
    found.filter(|(name, _)| name.len() > 1 && name != "root" && name != "/root").collect()
}

/// Replaces names in every text of a document.
fn redact(value: &mut Value, secrets: &[(String, &str)]) {
    match value {
        Value::String(text) => {
            for (name, with) in secrets {
                *text = replace_words(text, name, with);
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| redact(value, secrets)),
        Value::Object(values) => values.values_mut().for_each(|value| redact(value, secrets)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces `name` where it is not part of a longer word.
fn replace_words(text: &str, name: &str, with: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(name) {
        let (before, after) = (&rest[..at], &rest[at + name.len()..]);
        let in_a_word = before.ends_with(char::is_alphanumeric) || after.starts_with(char::is_alphanumeric);
        out.push_str(before);
        out.push_str(if in_a_word { name } else { with });
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_replaced_as_whole_words_anywhere() {
        let secrets =
            [("/home/jane".to_owned(), "~"), ("jane".to_owned(), "USER"), ("box".to_owned(), "HOST")];
        let mut document = json!({
            "path": "/home/jane/rocm", "list": ["by jane on box", "janet", "boxes"], "number": 3, "other": "/data/jane/x",
        });
        redact(&mut document, &secrets);
        let expected = json!({
            "path": "~/rocm", "list": ["by USER on HOST", "janet", "boxes"], "number": 3, "other": "/data/USER/x",
        });
        assert_eq!(document, expected);
    }
}

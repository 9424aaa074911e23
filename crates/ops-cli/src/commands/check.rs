//! `ops check`: what is there, whether the card computes correctly, how fast it is, and a report to send.
use crate::args::{CheckArgs, CheckStep, Common};
use crate::catalogue::{entries, find_op};
use crate::exit::{Failure, Outcome};
use crate::output::Progress;
use crate::text::bundled_model;
use child::Ended;
use report::{Report, State, Step};
use serde_json::Value;
use std::io::Write;
use std::time::{Duration, Instant};

mod child;
mod golden;
mod links;
mod report;
mod system;
mod tokens;

/// Where reports are sent; empty as long as there is no such place.
const SEND_TO: &str = "";

/// The steps that `--skip` names.
const STEPS: [&str; 4] = ["matrix_units", "tokens", "links", "bench"];

/// How long a level may take in all.
const LIMITS: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(180), Duration::from_secs(600)];

pub(super) fn run(common: Common, args: &CheckArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    match args.step {
        Some(CheckStep::Tokens) => return tokens::run(common.backend, args, out),
        Some(CheckStep::Links) => return links::run(out),
        None => {}
    }
    for op in &args.op {
        find_op(op)?;
    }
    if let Some(name) = args.skip.iter().find(|name| !STEPS.contains(&name.as_str())) {
        return Err(Failure::Usage(format!(
            "--skip {name}: the steps that may be left out are {}",
            STEPS.join(", ")
        )));
    }
    let report = Report::new(args);
    report.save()?;
    let mut check = Check {
        args,
        report,
        progress: Progress::new(common.progress),
        end: Instant::now() + LIMITS[usize::from(args.level)],
    };
    if args.level > 0 {
        check.card()?;
    }
    check.progress.clear();
    check.report.finish();
    check.report.save()?;
    if common.json {
        crate::output::json_line(&check.report.document()?, out)?;
    } else {
        write!(out, "{}", check.report.page()?)?;
        let [json, page] = check.report.files();
        writeln!(out, "\nWritten to {} and {}.", json.display(), page.display())?;
        match SEND_TO {
            "" => writeln!(out, "docs/reporting.md says where to send both files.")?,
            place => writeln!(out, "Please send both files to {place}.")?,
        }
    }
    Ok(check.report.outcome())
}

/// A run of the command.
struct Check<'a> {
    args: &'a CheckArgs,
    report: Report<'a>,
    progress: Progress,
    /// When the level's time is used up.
    end: Instant,
}

impl Check<'_> {
    /// Levels 1 and 2: everything that needs the card. Each step is a process of its own, because a kernel that faults or a
    /// library that aborts ends its process.
    fn card(&mut self) -> Result<(), Failure> {
        let survey = self.step("survey", &words("info --json"), |_, ended| ended.json())?;
        let has_card = survey.as_ref().is_some_and(|info| info["backends"][2]["available"] == true);
        if let Some(mut info) = survey {
            self.report.rocm = info["rocm"].take();
        }
        if !has_card {
            return Ok(());
        }
        let devices = self.report.rocm["devices"].as_array().into_iter().flatten();
        let devices =
            devices.filter(|device| device["supported"] == true && device["integrated"] == false).count();
        if self.wants("matrix_units") {
            self.tests("matrix_units", &[])?;
        }
        if self.wants("tokens") {
            self.tokens()?;
        }
        if devices > 1 && self.wants("links") {
            let found = self.step("links", &words("check --step links"), |_, ended| ended.json())?;
            if let Some(mut found) = found {
                self.report.rocm["peers"] = found["peers"].take();
            }
        }
        if self.wants("bench") {
            self.bench()?;
        }
        let ops = entries().iter().map(|entry| entry.name).filter(|name| !name.ends_with("_inplace"));
        let chosen = |name: &&str| self.args.op.is_empty() || self.args.op.iter().any(|op| op == name);
        let ops: Vec<&str> = ops.filter(chosen).collect();
        if self.args.level == 2 {
            ops.iter().try_for_each(|op| self.golden(op))?;
            self.report.steps.push(Step::not_run(
                "other golden cases",
                &format!(
                    "{} of {} are part of this program; in the repository, run \
                     ops replay --backend rocm tests/golden*/*.safetensors",
                    golden::EMBEDDED,
                    golden::TOTAL
                ),
            ));
        }
        for op in &ops {
            self.tests(op, &[])?;
        }
        if self.args.level == 2 {
            for op in &ops {
                self.tests(op, &["--rows"])?;
            }
        }
        Ok(())
    }

    /// Replays the golden cases of an op that are part of this program.
    fn golden(&mut self, op: &str) -> Result<(), Failure> {
        let folder = self.report.scratch().with_extension("golden");
        std::fs::create_dir_all(&folder)
            .map_err(|error| Failure::Usage(format!("{}: {error}", folder.display())))?;
        let files = golden::unpack(op, &folder)?;
        if !files.is_empty() {
            let mut command = words("replay --backend rocm --json");
            command.extend(files.iter().map(|file| file.display().to_string()));
            self.step(&format!("{op} golden"), &command, |report, ended| {
                report.add_replay(&ended.lines());
                None::<()>
            })?;
        }
        let _gone = std::fs::remove_dir_all(&folder);
        Ok(())
    }

    /// Whether a step runs; if not, the report says so.
    fn wants(&mut self, name: &'static str) -> bool {
        let skipped = self.args.skip.iter().any(|skipped| skipped == name);
        if skipped {
            self.report.steps.push(Step::not_run(name, "left out by --skip"));
        }
        !skipped
    }

    /// Times a few ops beside the card's own limits.
    fn bench(&mut self) -> Result<(), Failure> {
        let bench = words("bench --quick --backend rocm --json --op rms_norm,linear,attention --dtype f16");
        self.step("bench", &bench, |report, ended| {
            report.bench = ended.lines();
            None::<()>
        })?;
        Ok(())
    }

    /// Runs the suite of one op with these options, or the checks of matrix units. Level 1 runs one case in eight.
    fn tests(&mut self, op: &str, options: &[&str]) -> Result<(), Failure> {
        let file = self.report.scratch();
        let mut command = words("test --backend rocm --op");
        command.extend([op.to_owned(), "--report".to_owned(), file.display().to_string()]);
        command.extend(options.iter().map(|option| (*option).to_owned()));
        if self.args.level == 1 && op != "matrix_units" {
            command.push("--quick".to_owned());
        }
        let name = [&[op], options].concat().join(" ");
        self.step(&name, &command, |report, _| {
            let text = std::fs::read(&file).unwrap_or_default();
            let document: Value = serde_json::from_slice(&text).unwrap_or_default();
            report.add_tests(&document);
            None::<()>
        })?;
        let _gone = std::fs::remove_file(&file);
        Ok(())
    }

    /// Compares the tokens that the card generates with those of the CPU.
    fn tokens(&mut self) -> Result<(), Failure> {
        let Some(model) = self.args.model.clone().or_else(|| bundled_model("tiny-llama-kjv-f16.gguf")) else {
            self.report.steps.push(Step::not_run("tokens", "there is no model: give one with --model"));
            return Ok(());
        };
        let mut of = |name: &str, backend: &str| {
            let mut command = words("check --step tokens --backend");
            command.extend([backend.to_owned(), "--model".to_owned(), model.display().to_string()]);
            self.step(name, &command, |_, ended| ended.json())
        };
        let (card, cpu) = (of("tokens", "rocm")?, of("tokens on the CPU", "cpu")?);
        if let (Some(card), Some(cpu)) = (card, cpu)
            && card["ids"] != cpu["ids"]
        {
            let message = format!("the card generates {}, the CPU {}", card["ids"], cpu["ids"]);
            self.report.fail("tokens", message);
        }
        Ok(())
    }

    /// Runs this program with these words, and adds the result to the report. `read` takes what it needs from a process that
    /// ended by itself, successfully or not.
    fn step<A>(
        &mut self,
        name: &str,
        words: &[String],
        read: impl FnOnce(&mut Report<'_>, &Ended) -> Option<A>,
    ) -> Result<Option<A>, Failure> {
        self.progress.step(self.report.steps.len(), self.report.steps.len() + 1, name);
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            self.report.steps.push(Step::not_run(name, "the time of this level is used up"));
            return Ok(None);
        }
        self.report.running = Some(name.to_owned());
        self.report.save()?;
        let ended = child::run(words, left.min(Duration::from_secs(self.args.step_seconds)))?;
        self.report.running = None;
        let step = Step::of(name, &ended);
        let answer =
            (step.state == State::Ok || step.state == State::Failed).then(|| read(&mut self.report, &ended));
        self.report.steps.push(step);
        self.report.save()?;
        Ok(answer.flatten())
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

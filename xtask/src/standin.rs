//! `cargo xtask standin`: builds the stand-in for ROCm's libraries with the C++ compiler and prints its folder.
//!
//! - `--test`: also builds and runs its self-tests, with both wave sizes
//! - `--cuda`: runs them on the cuda engine instead, which needs an NVIDIA GPU
//! - `--sanitize`: builds everything with AddressSanitizer, in a separate folder
//! - `--headers DIR`: compares every signature with ROCm's public headers in DIR; builds nothing
//!
//! Files that are up to date are not rebuilt. `CXX` names the compiler; the default is g++.

use hip_standin::{Build, Result};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

pub(crate) fn main(args: Vec<String>) -> ExitCode {
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("cargo xtask standin: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let mut test = false;
    let mut cuda = false;
    let mut sanitize = false;
    let mut headers = None;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--test" => test = true,
            "--cuda" => (test, cuda) = (true, true),
            "--sanitize" => sanitize = true,
            "--headers" => headers = Some(rest.next().ok_or("--headers: requires a folder")?),
            other => {
                return Err(format!(
                    "unknown option {other}; there are --test, --cuda, --sanitize, --headers DIR"
                ));
            }
        }
    }
    let build = Build::new(sanitize)?;
    if let Some(folder) = headers {
        build.check_signatures(folder)?;
        println!("every signature agrees with the headers in {folder}");
        return Ok(());
    }
    if test {
        let programs = build.tests()?;
        run_tests(&programs, if cuda { &[("cuda", "32")] } else { &[("host", "32"), ("host", "64")] })?;
    }
    println!("{}", build.libraries()?.display());
    Ok(())
}

/// Runs each program with each engine and wave size.
fn run_tests(programs: &[PathBuf], configurations: &[(&str, &str)]) -> Result<()> {
    let mut failed = Vec::new();
    for program in programs {
        for (engine, wave) in configurations {
            let mut command = Command::new(program);
            // The tests set their own environment, except for these two variables.
            for (name, _) in
                std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HIP_STANDIN_"))
            {
                command.env_remove(name);
            }
            command.env("HIP_STANDIN_ENGINE", engine).env("HIP_STANDIN_WAVE", wave);
            let status = command.status().map_err(|error| format!("{}: {error}", program.display()))?;
            if !status.success() {
                failed.push(format!("{} ({engine} engine, waves of {wave}): {status}", program.display()));
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

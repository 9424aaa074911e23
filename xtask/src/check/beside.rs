//! Runs some steps in parallel with the others.
use crate::page::root;
use std::path::PathBuf;
use std::process::{Child, Command};

/// A child process that runs the parallel steps and logs to a file. If a step of the main process fails, the child starts no further
/// step, but finishes the current one.
pub(super) struct BesideProcess {
    process: Child,
    log: PathBuf,
}

impl BesideProcess {
    /// Starts the process for the selected parallel steps.
    pub(super) fn start(args: &[String]) -> Result<Self, String> {
        let log = root().join("target/check-beside.log");
        let open = || {
            std::fs::create_dir_all(root().join("target"))?;
            // A step left over from an earlier run may still write to the old file.
            let _ = std::fs::remove_file(&log);
            let file = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
            Ok((file.try_clone()?, file))
        };
        let (file, same) = open().map_err(|e: std::io::Error| format!("{}: {e}", log.display()))?;
        let program = std::env::current_exe().map_err(|e| format!("this program's path: {e}"))?;
        println!(
            "== in parallel with the following steps; the output comes after them, from {}",
            log.display()
        );
        let mut command = Command::new(program);
        command.arg("check").args(args).arg("--beside").stdout(file).stderr(same);
        let process = command.spawn().map_err(|e| format!("cannot start the parallel steps: {e}"))?;
        Ok(BesideProcess { process, log })
    }

    pub(super) fn has_failed(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(Some(status)) if !status.success())
    }

    /// Waits for the steps and prints their output.
    pub(super) fn join(mut self) -> Result<(), String> {
        let status = self.process.wait().map_err(|e| format!("the parallel steps: {e}"))?;
        let log = self.log.display();
        print!("{}", String::from_utf8_lossy(&std::fs::read(&self.log).map_err(|e| format!("{log}: {e}"))?));
        if status.success() {
            Ok(())
        } else {
            Err(format!("a parallel step failed; its output is above and in {log}"))
        }
    }
}

impl Drop for BesideProcess {
    fn drop(&mut self) {
        // `kill` fails if the process has already ended, which is fine.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

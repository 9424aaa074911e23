//! The steps that run beside the others.
use crate::page::root;
use std::path::PathBuf;
use std::process::{Child, Command};

/// A child process that runs the steps beside the others and logs to a file. If a step in order fails, no further one of these begins, but
/// the present one runs on to its end.
pub(super) struct BesideProcess {
    process: Child,
    log: PathBuf,
}

impl BesideProcess {
    /// Starts a process for those of the selected steps that run beside the others.
    pub(super) fn start(args: &[String]) -> Result<Self, String> {
        let log = root().join("target/check-beside.log");
        let open = || {
            std::fs::create_dir_all(root().join("target"))?;
            // A step that ran on from before may still write to the old file.
            let _ = std::fs::remove_file(&log);
            let file = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
            Ok((file.try_clone()?, file))
        };
        let (file, same) = open().map_err(|e: std::io::Error| format!("{}: {e}", log.display()))?;
        let program = std::env::current_exe().map_err(|e| format!("this program's path: {e}"))?;
        println!("== beside the following steps, and printed after them: {}", log.display());
        let mut command = Command::new(program);
        command.arg("check").args(args).arg("--beside").stdout(file).stderr(same);
        let process =
            command.spawn().map_err(|e| format!("cannot start the steps beside the others: {e}"))?;
        Ok(BesideProcess { process, log })
    }

    pub(super) fn has_failed(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(Some(status)) if !status.success())
    }

    /// Waits for them and prints what they printed.
    pub(super) fn join(mut self) -> Result<(), String> {
        let status = self.process.wait().map_err(|e| format!("the steps beside the others: {e}"))?;
        let log = self.log.display();
        print!("{}", String::from_utf8_lossy(&std::fs::read(&self.log).map_err(|e| format!("{log}: {e}"))?));
        if status.success() {
            Ok(())
        } else {
            Err(format!("a step beside the others failed; its output is above and in {log}"))
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

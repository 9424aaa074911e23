//! How this program is started again, and where its models are.
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// A program that has the command inside.
#[derive(Clone, Debug)]
pub struct Host {
    /// What starts the command: a program, and the words before those of the command.
    pub start: Vec<OsString>,
    /// The folder that has `models`.
    pub folder: PathBuf,
}

static HOST: OnceLock<Option<Host>> = OnceLock::new();

/// Remembers the host. Only the first one counts, because a process runs the command once.
pub(crate) fn set_host(host: Option<Host>) {
    HOST.get_or_init(|| host);
}

fn host() -> Option<&'static Host> {
    HOST.get().and_then(Option::as_ref)
}

/// This command as a process of its own, without its words.
///
/// # Errors
/// The system does not know this program's path.
pub(crate) fn command() -> io::Result<Command> {
    let Some((program, words)) = host().and_then(|host| host.start.split_first()) else {
        return Ok(Command::new(std::env::current_exe()?));
    };
    let mut command = Command::new(program);
    command.args(words);
    Ok(command)
}

/// The folders that may have `models`: the host's, or the program's and those around it.
pub(crate) fn folders() -> Vec<PathBuf> {
    match host() {
        Some(host) => vec![host.folder.clone()],
        None => std::env::current_exe()
            .map(|program| program.ancestors().skip(1).map(PathBuf::from).collect())
            .unwrap_or_default(),
    }
}

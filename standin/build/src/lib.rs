//! Builds the stand-in for ROCm's libraries with the C++ compiler, for `cargo xtask standin` and for tests. A test that
//! started cargo would wait for every other running cargo, so tests use this library directly.
//!
//! Files that are up to date are not rebuilt. The sources of a folder are compiled as one, in half the time, most of which is that of the
//! C++ library's headers. `CXX` names the compiler; the default is g++.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

/// A shared library: its file name, its sources (files or folders in `src/`) and the libraries it links to.
struct Library {
    file: &'static str,
    sources: &'static [&'static str],
    needs: &'static [&'static str],
}

const HIP: &str = "libamdhip64.so.7";
const COMGR: &str = "libamd_comgr.so.3";
const LIBRARIES: [Library; 7] = [
    Library { file: HIP, sources: &["core", "engine", "hip"], needs: &[] },
    Library { file: COMGR, sources: &["comgr.cpp"], needs: &[] },
    Library { file: "libhiprtc.so.7", sources: &["hiprtc.cpp"], needs: &[HIP, COMGR] },
    Library { file: "librocblas.so.5", sources: &["rocblas"], needs: &[HIP] },
    Library { file: "libhipblaslt.so.1", sources: &["hipblaslt"], needs: &[HIP] },
    Library { file: "libMIOpen.so.1", sources: &["miopen"], needs: &[HIP] },
    Library { file: "librccl.so.1", sources: &["rccl"], needs: &[HIP] },
];

/// Targets with an (empty) Tensile library next to rocBLAS and hipBLASLt, which look it up by name.
const TENSILE_TARGETS: [&str; 2] = ["gfx1100", "gfx90a"];

/// A message for the user.
pub type Result<T> = std::result::Result<T, String>;

/// A build of the stand-in in the target folder.
#[derive(Debug)]
pub struct Build {
    source: PathBuf,
    out: PathBuf,
    compiler: String,
    flags: Vec<String>,
}

impl Build {
    /// A build in `target/hip-standin`, or, with AddressSanitizer, in a separate folder. `CARGO_TARGET_DIR` names another target
    /// folder.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn new(sanitize: bool) -> Result<Build> {
        let target = target_folder()?;
        let source = root()?.join("standin");
        // Kernels ask for their lane so often that a call to find the thread's variables takes 6 % of the suite's time. With this model
        // there is no call. The variables fit in what the C library keeps free for libraries that are opened at run time.
        let tls = "-ftls-model=initial-exec";
        let mut flags: Vec<String> =
            ["-std=c++17", "-O2", "-g1", "-fPIC", tls, "-Wall", "-Wextra", "-fvisibility=hidden"]
                .map(String::from)
                .to_vec();
        flags.extend(["include", "src"].map(|folder| format!("-I{}", source.join(folder).display())));
        if sanitize {
            flags.push("-fsanitize=address".into());
        }
        let out = target.join(if sanitize { "hip-standin-asan" } else { "hip-standin" });
        fs::create_dir_all(out.join("objects")).map_err(at(&out))?;
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".into());
        Ok(Build { source, out, compiler, flags })
    }

    /// Builds the libraries and returns their folder.
    ///
    /// # Errors
    /// The compiler cannot be started or fails, or the folder cannot be written.
    pub fn libraries(&self) -> Result<&Path> {
        let _lock = self.lock()?;
        self.build_libraries()?;
        Ok(&self.out)
    }

    /// Two test runs may need the libraries at once: the second waits and then finds them built.
    fn lock(&self) -> Result<File> {
        let file = File::create(self.out.join("lock")).map_err(at(&self.out))?;
        file.lock().map_err(at(&self.out))?;
        Ok(file)
    }

    fn build_libraries(&self) -> Result<()> {
        for library in &LIBRARIES {
            let mut sources = Vec::new();
            for part in library.sources {
                cpp_files(&self.source.join("src").join(part), &mut sources)?;
            }
            let objects = self.objects(&self.by_folder(sources)?)?;
            let mut link = vec!["-shared".into(), format!("-Wl,-soname,{}", library.file)];
            // Threads of streams run this code until the process ends, so the library must not be unloaded.
            link.extend(
                ["-Wl,-z,nodelete", "-Wl,-z,defs", "-Wl,-rpath,$ORIGIN", "-pthread", "-ldl"]
                    .map(String::from),
            );
            if self.flags.iter().any(|flag| flag.starts_with("-fsanitize")) {
                link.retain(|flag| flag != "-Wl,-z,defs"); // the sanitizer's functions are in the program
            }
            self.link(&self.out.join(library.file), &objects, library.needs, link)?;
        }
        for library in ["rocblas", "hipblaslt"] {
            let tensile = self.out.join(library).join("library");
            fs::create_dir_all(&tensile).map_err(at(&tensile))?;
            for gfx in TENSILE_TARGETS {
                let file = tensile.join(format!("TensileLibrary_lazy_{gfx}.dat"));
                if !file.exists() {
                    File::create(&file).map_err(at(&file))?;
                }
            }
        }
        Ok(())
    }

    /// Builds the libraries and one self-test for each source in `tests/`; returns the programs.
    ///
    /// # Errors
    /// As [`libraries`](Self::libraries).
    pub fn tests(&self) -> Result<Vec<PathBuf>> {
        let _lock = self.lock()?;
        self.build_libraries()?;
        let mut sources = Vec::new();
        cpp_files(&self.source.join("tests"), &mut sources)?;
        let objects = self.objects(&sources)?;
        let needs: Vec<&str> = LIBRARIES.iter().map(|library| library.file).collect();
        let mut programs = Vec::new();
        for (source, object) in sources.iter().zip(objects) {
            let name = source.file_stem().unwrap_or_default().to_string_lossy();
            let program = self.out.join(format!("test-{name}"));
            self.link(&program, &[object], &needs, vec!["-Wl,-rpath,$ORIGIN".into(), "-pthread".into()])?;
            programs.push(program);
        }
        Ok(programs)
    }

    /// For each folder, a file that includes its sources.
    fn by_folder(&self, mut sources: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
        sources.sort_by(|a, b| a.parent().cmp(&b.parent()));
        let mut files = Vec::new();
        for sources in sources.chunk_by(|a, b| a.parent() == b.parent()) {
            if let [only] = sources {
                files.push(only.clone());
                continue;
            }
            let folder = sources[0].parent().unwrap_or(&self.source);
            let name =
                folder.strip_prefix(&self.source).unwrap_or(folder).to_string_lossy().replace('/', "-");
            let file = self.out.join("objects").join(name + "-all.cpp");
            let text: String =
                sources.iter().map(|source| format!("#include \"{}\"\n", source.display())).collect();
            // An unchanged file keeps its time, so that it is not compiled again.
            if fs::read_to_string(&file).ok().as_ref() != Some(&text) {
                fs::write(&file, text).map_err(at(&file))?;
            }
            files.push(file);
        }
        Ok(files)
    }

    /// Compiles the files that have changed, as many at once as there are processors.
    fn objects(&self, sources: &[PathBuf]) -> Result<Vec<PathBuf>> {
        let objects: Vec<PathBuf> = sources.iter().map(|source| self.object_of(source)).collect();
        let next = AtomicUsize::new(0);
        let failure = Mutex::new(None);
        let work = || {
            while let Some((source, object)) = {
                let i = next.fetch_add(1, Ordering::Relaxed);
                sources.get(i).zip(objects.get(i))
            } {
                if let Err(message) = self.compile(source, object) {
                    *failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(message);
                    return;
                }
            }
        };
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
        match failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            Some(message) => Err(message),
            None => Ok(objects),
        }
    }

    fn object_of(&self, source: &Path) -> PathBuf {
        let inside =
            source.strip_prefix(&self.source).or_else(|_| source.strip_prefix(self.out.join("objects")));
        let name = inside.unwrap_or(source).to_string_lossy().replace('/', "-");
        self.out.join("objects").join(name + ".o")
    }

    fn compile(&self, source: &Path, object: &Path) -> Result<()> {
        let mut command = Command::new(&self.compiler);
        command.args(&self.flags).args(["-MMD", "-c", "-o"]).arg(object).arg(source);
        let dependencies = fs::read_to_string(object.with_extension("d")).unwrap_or_default();
        // Without a dependency file, the source counts as newer than the object.
        let inputs: Vec<PathBuf> = dependencies
            .split_once(':')
            .map(|(_, list)| {
                list.split_whitespace().filter(|word| *word != "\\").map(PathBuf::from).collect()
            })
            .unwrap_or_default();
        if !inputs.is_empty() && is_current(object, &command, &inputs) {
            return Ok(());
        }
        execute(command, object)
    }

    fn link(&self, file: &Path, objects: &[PathBuf], needs: &[&str], options: Vec<String>) -> Result<()> {
        let needed: Vec<PathBuf> = needs.iter().map(|name| self.out.join(name)).collect();
        let mut command = Command::new(&self.compiler);
        command.args(self.flags.iter().filter(|flag| flag.starts_with("-fsanitize")));
        command.arg("-o").arg(file).args(objects).args(&needed).args(options);
        let inputs: Vec<PathBuf> = objects.iter().chain(&needed).cloned().collect();
        if is_current(file, &command, &inputs) { Ok(()) } else { execute(command, file) }
    }

    /// Compiles every source with ROCm's own declarations instead of ours, so that a signature that differs is an error.
    ///
    /// # Errors
    /// A signature differs, or the compiler cannot be started.
    pub fn check_signatures(&self, headers: &str) -> Result<()> {
        let mut sources = Vec::new();
        cpp_files(&self.source.join("src"), &mut sources)?;
        for source in sources {
            let mut command = Command::new(&self.compiler);
            command.args(&self.flags).args([
                "-w",
                "-fsyntax-only",
                "-DSTANDIN_REAL_HEADERS",
                "-D__HIP_PLATFORM_AMD__",
            ]);
            command.args(["-DMIOPEN_BETA_API=1", "-isystem", headers]).arg(&source);
            let status = command.status().map_err(at(Path::new(&self.compiler)))?;
            if !status.success() {
                return Err(format!("{} does not agree with the headers in {headers}", source.display()));
            }
        }
        Ok(())
    }
}

/// The workspace's target folder: `CARGO_TARGET_DIR`, or `target`.
///
/// # Errors
/// The current folder, to which `CARGO_TARGET_DIR` may be relative, is unknown.
pub fn target_folder() -> Result<PathBuf> {
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => folder.into(),
        None => root()?.join("target"),
    };
    std::path::absolute(&target).map_err(at(&target))
}

fn root() -> Result<&'static Path> {
    // This package is in standin/build.
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .ok_or("the stand-in is not in a workspace".into())
}

fn at(path: &Path) -> impl Fn(io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}

/// The C++ sources in a folder and its subfolders, or the file itself, in a fixed order.
fn cpp_files(path: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_dir() {
        let entries = fs::read_dir(path).map_err(at(path))?;
        let mut paths: Vec<PathBuf> =
            entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
        paths.sort();
        return paths.iter().try_for_each(|path| cpp_files(path, found));
    }
    if path.extension().is_some_and(|extension| extension == "cpp") {
        found.push(path.to_path_buf());
    }
    Ok(())
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// Whether this very command made `output` from inputs that have not changed since.
fn is_current(output: &Path, command: &Command, inputs: &[PathBuf]) -> bool {
    let Some(made) = modified(output) else { return false };
    let same_command =
        fs::read_to_string(command_record(output)).is_ok_and(|recorded| recorded == format!("{command:?}"));
    same_command && inputs.iter().all(|input| modified(input).is_some_and(|changed| changed <= made))
}

/// The file that records the command that made `output`.
fn command_record(output: &Path) -> PathBuf {
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    output.with_file_name(format!(".{name}.command"))
}

fn execute(mut command: Command, output: &Path) -> Result<()> {
    eprintln!("  {}", output.file_name().unwrap_or_default().to_string_lossy());
    let status = command.status().map_err(|error| {
        format!(
            "cannot run {:?}: {error}; the stand-in needs a C++17 compiler (CXX names it)",
            command.get_program()
        )
    })?;
    if !status.success() {
        return Err(format!("making {} failed", output.display()));
    }
    let record = command_record(output);
    fs::write(&record, format!("{command:?}")).map_err(at(&record))
}

//! Compiles every kernel unit for every target, and packs the objects for `include_bytes!`.
//!
//! `OPS_ROCM_AOT` lists the targets; the default is those that every change is checked on. `CLANG` names the
//! compiler; the default is clang-19. No ROCm is needed. Objects are cached by their inputs, so a change
//! recompiles only what it affects. `OPS_ROCM_AOT_OBJECTS` names a folder of such objects to take them from and put them in, which several builds and
//! `cargo xtask kernels` share.
use crate::fingerprint::Fingerprint;
use ops_kernels::{Unit, source, target};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

type Result<T> = std::result::Result<T, String>;

/// The objects of a family are similar, most of all for targets of one generation, so they are packed together: alone, they take three
/// times as much. A program unpacks a part as far as the object that it needs, so parts are limited, in bytes before packing.
const PART: u64 = 1 << 20;
const LEVEL: i32 = 19;

pub(crate) fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=src/fingerprint.rs");
    for variable in ["OPS_ROCM_AOT", "OPS_ROCM_AOT_OBJECTS", "CLANG"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?).join("kernels");
    let shared =
        std::env::var_os("OPS_ROCM_AOT_OBJECTS").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let objects = shared.clone().unwrap_or_else(|| out.join("objects"));
    for folder in [&objects, &out.join("packed")] {
        create(folder)?;
    }
    let compiler = Compiler::find()?;
    let targets = targets()?;
    for target in &targets {
        compiler.check(target, &out)?;
    }
    let mut units = Unit::all();
    units.retain(|unit| targets.iter().any(|target| unit.runs_on(target)));
    let jobs: Vec<Job> = units
        .iter()
        .flat_map(|unit| targets.iter().filter(|t| unit.runs_on(t)).map(|t| compiler.job(*unit, t, &objects)))
        .collect::<Result<_>>()?;
    compile_all(&compiler, &jobs)?;
    if shared.is_none() {
        remove_old(&objects, &jobs)?;
    }
    let mut table = String::from("pub(super) static PARTS: &[Part] = &[\n");
    for (number, jobs) in parts(&jobs)?.iter().enumerate() {
        table += &pack(number, jobs, &out)?;
    }
    table += "];\n";
    fs::write(out.join("embedded.rs"), table).map_err(at(&out))
}

/// The requested targets, without duplicates.
fn targets() -> Result<Vec<String>> {
    let asked = std::env::var("OPS_ROCM_AOT").unwrap_or_default();
    let mut list: Vec<String> =
        asked.split(',').map(str::trim).filter(|t| !t.is_empty()).map(String::from).collect();
    if list.is_empty() {
        list = target::recorded().into_iter().map(String::from).collect();
    }
    let mut seen = HashSet::new();
    list.retain(|target| seen.insert(target.clone()));
    match list.iter().find(|target| target::wave_of(target).is_none()) {
        Some(unknown) => Err(format!(
            "OPS_ROCM_AOT names `{unknown}`, which is not a gfx9 to gfx12 target; the default is {}",
            target::recorded().join(",")
        )),
        None => Ok(list),
    }
}

struct Compiler {
    program: String,
    version: String,
}

/// One unit for one target.
struct Job {
    unit: Unit,
    target: String,
    flags: Vec<String>,
    object: PathBuf,
}

impl Compiler {
    fn find() -> Result<Compiler> {
        let named = std::env::var("CLANG").ok().filter(|name| !name.is_empty());
        let program = named.unwrap_or_else(|| "clang-19".into());
        let advice = "feature `aot` compiles GPU kernels with clang 19 or newer and its lld: \
                      `apt-get install clang-19 lld-19`, or name another clang in CLANG, or build without `aot` and \
                      let hipRTC compile where the program runs";
        let output = Command::new(&program).arg("--version").output();
        let output = output.map_err(|error| format!("{program}: {error}\n{advice}"))?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() || !version.contains("clang version") {
            return Err(format!("{program} --version does not report clang\n{advice}"));
        }
        Ok(Compiler { program, version })
    }

    /// Checks that the compiler knows a target and can link for it, before hundreds of units fail one by one.
    fn check(&self, target: &str, out: &Path) -> Result<()> {
        target::check_clang(&self.version, target).map_err(|error| format!("{}: {error}", self.program))?;
        let (source, object) = (out.join("nothing.hip"), out.join("nothing.hsaco"));
        fs::write(&source, "").map_err(at(&source))?;
        self.run(target, &source, &object, &flags(target)?)
    }

    fn job(&self, unit: Unit, target: &str, objects: &Path) -> Result<Job> {
        let name = unit.object_name(&self.version, target);
        let name = name.ok_or_else(|| format!("there are no kernels for {target}"))?;
        Ok(Job { unit, target: target.to_owned(), flags: flags(target)?, object: objects.join(name) })
    }

    fn compile(&self, job: &Job) -> Result<()> {
        let (source, part) = (job.object.with_extension("hip"), job.object.with_extension("part"));
        fs::write(&source, job.unit.text(&job.target)).map_err(at(&source))?;
        self.run(&job.target, &source, &part, &job.flags)?;
        fs::remove_file(&source).map_err(at(&source))?;
        // An interrupted build must not leave a partial object under its final name.
        fs::rename(&part, &job.object).map_err(at(&part))
    }

    fn run(&self, target: &str, source: &Path, object: &Path, flags: &[String]) -> Result<()> {
        let output = Command::new(&self.program).args(flags).arg(source).arg("-o").arg(object).output();
        let output = output.map_err(|error| format!("{}: {error}", self.program))?;
        if output.status.success() {
            return Ok(());
        }
        let messages = String::from_utf8_lossy(&output.stderr);
        let errors: Vec<&str> = messages.lines().filter(|line| line.contains("error")).take(5).collect();
        let version = self.version.lines().next().unwrap_or_default();
        Err(format!("{} ({version}) does not compile for {target}:\n{}", self.program, errors.join("\n")))
    }
}

fn flags(target: &str) -> Result<Vec<String>> {
    source::clang_options(target).ok_or_else(|| format!("there are no kernels for {target}"))
}

/// Compiles the missing objects, in as many processes as cargo allows.
fn compile_all(compiler: &Compiler, jobs: &[Job]) -> Result<()> {
    // SAFETY: nothing in this process has touched the file descriptors passed by cargo.
    let tokens = unsafe { jobserver::Client::from_env() };
    let threads = std::env::var("NUM_JOBS").ok().and_then(|n| n.parse().ok()).unwrap_or(1usize).max(1);
    let wanted: Vec<&Job> = jobs.iter().filter(|job| !job.object.exists()).collect();
    let next = AtomicUsize::new(0);
    let failure: Mutex<Option<String>> = Mutex::default();
    let failed = || failure.lock().unwrap_or_else(|e| e.into_inner());
    let work = |number: usize| {
        loop {
            // The first thread uses the token that every process has.
            let _token = match (&tokens, number) {
                (Some(tokens), 1..) => tokens.acquire().ok(),
                _ => None,
            };
            let Some(job) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            if failed().is_some() {
                return;
            }
            if let Err(message) = compiler.compile(job) {
                failed().get_or_insert(message);
            }
        }
    };
    let threads = threads.min(wanted.len());
    std::thread::scope(|scope| (0..threads).for_each(|number| drop(scope.spawn(move || work(number)))));
    failure.into_inner().unwrap_or_else(|e| e.into_inner()).map_or(Ok(()), Err)
}

/// Removes objects of earlier sources.
fn remove_old(folder: &Path, jobs: &[Job]) -> Result<()> {
    let current: HashSet<&Path> = jobs.iter().map(|job| job.object.as_path()).collect();
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        if !current.contains(path.as_path()) {
            fs::remove_file(&path).map_err(at(&path))?;
        }
    }
    Ok(())
}

/// Divides the objects into parts: those of one family for targets of one generation, unit by unit, up to a limit.
fn parts(jobs: &[Job]) -> Result<Vec<Vec<&Job>>> {
    let kind = |job: &Job| (job.unit.family().name(), target::generation(&job.target));
    let mut jobs: Vec<&Job> = jobs.iter().collect();
    // Stable: units stay together.
    jobs.sort_by_key(|job| kind(job));
    let (mut parts, mut size) = (Vec::<Vec<&Job>>::new(), 0);
    for job in jobs {
        let bytes = fs::metadata(&job.object).map_err(at(&job.object))?.len();
        size += bytes;
        match parts.last_mut().filter(|part| kind(part[0]) == kind(job) && size <= PART) {
            Some(part) => part.push(job),
            None => {
                parts.push(vec![job]);
                size = bytes;
            }
        }
    }
    Ok(parts)
}

/// Packs objects one after the other, and writes the table of their positions.
fn pack(number: usize, jobs: &[&Job], out: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let mut known: HashMap<u128, (usize, usize)> = HashMap::new();
    let mut objects = String::new();
    for job in jobs {
        let code = fs::read(&job.object).map_err(at(&job.object))?;
        let hash = Fingerprint::of(&code);
        let (start, len) = *known.entry(hash).or_insert((bytes.len(), code.len()));
        if start == bytes.len() {
            bytes.extend_from_slice(&code);
        }
        let _ = write!(
            objects,
            "Object {{ unit: Cow::Borrowed({:?}), target: Cow::Borrowed({:?}), start: {start}, len: {len}, hash: {hash:#x} }}, ",
            job.unit.name(),
            job.target
        );
    }
    let family = jobs.first().map_or("", |job| job.unit.family().name());
    let name = format!("{number}-{family}");
    let packed = zstd::bulk::compress(&bytes, LEVEL).map_err(|error| format!("packing {name}: {error}"))?;
    let file = out.join("packed").join(format!("{name}.zst"));
    fs::write(&file, packed).map_err(at(&file))?;
    Ok(format!(
        "Part {{ family: Cow::Borrowed({family:?}), packed: true, objects: Cow::Borrowed(&[{objects}]), \
         data: Cow::Borrowed(include_bytes!(concat!(env!(\"OUT_DIR\"), \"/kernels/packed/{name}.zst\"))) }},\n"
    ))
}

fn create(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(at(folder))
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}

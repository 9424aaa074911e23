//! This project's kernels on a device: either compiled with the program, or compiled on first use and then
//! kept in memory and on disk.
mod count;
mod disk;
mod embedded;
mod evict;
mod foreign;
mod helper;
mod identity;
mod launch;
mod loaded;
mod rehearsal;
mod select;

pub use count::KernelCount;
pub use disk::CacheFolder;
pub use embedded::CodeObjects;
pub(crate) use evict::CacheLimit;
pub use loaded::{KernelOrigin, LoadedUnit};

use crate::error::failed;
use crate::hip::{self, Compiler, Device, Function, Gfx, Module, Source};
use crate::sync::Mutex;
use disk::Disk;
use foreign::Foreign;
use helper::Worker;
use ops_core::Result;
use ops_kernels::{Instance, Unit};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Instant;

/// Where compiled kernels come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelSource {
    /// As [`Aot`](KernelSource::Aot) if this program has code for the device, otherwise as
    /// [`Jit`](KernelSource::Jit).
    #[default]
    Either,
    /// hipRTC compiles them for the device on first use; code objects are cached on disk.
    Jit,
    /// They were compiled with this program, by feature `aot`, for the device or its generic target.
    Aot,
}

impl KernelSource {
    /// The value of `OPS_ROCM_KERNELS`.
    pub(crate) fn from_env() -> Result<Self> {
        match std::env::var("OPS_ROCM_KERNELS").as_deref() {
            Ok("") | Err(_) => Ok(KernelSource::Either),
            Ok("jit") => Ok(KernelSource::Jit),
            Ok("aot") => Ok(KernelSource::Aot),
            Ok(other) => Err(failed("reading OPS_ROCM_KERNELS", format!("{other:?} is neither jit nor aot"))),
        }
    }
}

const AHEAD_OF_TIME: &str = "loading kernels compiled ahead of time";

/// Maximum number of units compiled at a time. Each takes a process of a few hundred megabytes.
const MAX_WORKERS: usize = 8;

// The counters of a stream suffice for every launch.
const _: () = assert!(ops_kernels::attention::ARRIVALS as usize <= hip::ARRIVALS);

/// The message when a program has no code for a device.
fn absent(objects: &CodeObjects, gfx: &Gfx) -> String {
    if objects.is_empty() {
        return "this program embeds no kernels: build it with feature `aot`".into();
    }
    let targets = objects.targets().join(", ");
    let name = gfx.generic().unwrap_or(gfx.name());
    format!(
        "this program embeds kernels for {targets}, and none of them runs on {gfx}: build it with OPS_ROCM_AOT={name}"
    )
}

/// The kernels of a device.
#[derive(Debug)]
pub(crate) struct Kernels {
    device: Device,
    source: KernelSource,
    objects: CodeObjects,
    compiler: OnceLock<Compiler>,
    disk: OnceLock<std::result::Result<Disk, String>>,
    folder: CacheFolder,
    limit: CacheLimit,
    /// By index of their instance in the table.
    functions: Box<[OnceLock<Function>]>,
    units: Mutex<HashMap<Unit, Arc<Mutex<Option<Module>>>>>,
    foreign: Foreign,
}

impl Kernels {
    pub(crate) fn new(
        device: &Device,
        source: KernelSource,
        objects: CodeObjects,
        folder: CacheFolder,
        limit: CacheLimit,
    ) -> Result<Self> {
        if source == KernelSource::Aot && objects.target_for(&device.info().gfx).is_none() {
            let why = format!("{}, or set OPS_ROCM_KERNELS=jit", absent(&objects, &device.info().gfx));
            return Err(failed(AHEAD_OF_TIME, why));
        }
        let (gfx, wave) = (&device.info().gfx, device.info().wave_size);
        if wave != gfx.wave_size() {
            let why = format!(
                "{gfx} has waves of {wave} lanes, but kernels for it are compiled for {} lanes",
                gfx.wave_size()
            );
            return Err(failed("choosing kernels", why));
        }
        Ok(Kernels {
            device: device.clone(),
            source,
            objects,
            compiler: OnceLock::new(),
            disk: OnceLock::new(),
            folder,
            limit,
            functions: ops_kernels::instances().iter().map(|_| OnceLock::new()).collect(),
            units: Mutex::default(),
            foreign: Foreign::default(),
        })
    }

    /// The kernel of an instance, compiled if necessary.
    fn function(&self, instance: &'static Instance) -> Result<&Function> {
        let place = &self.functions[instance.index];
        if let Some(function) = place.get() {
            return Ok(function);
        }
        let (begin, unit) = (Instant::now(), Unit::of(instance));
        let (module, origin) = self.module(unit, &mut Worker::Here)?;
        if origin == KernelOrigin::Compiled {
            let (name, gfx, seconds) = (unit.name(), &self.device.info().gfx, begin.elapsed().as_secs_f64());
            tracing::info!(
                "{} waited {seconds:.2} s for hipRTC to compile {name} for {gfx}, on first use; `ops warm` and Rocm::prepare \
                 compile beforehand",
                instance.op
            );
        }
        let function = module.function(&instance.symbol)?;
        Ok(place.get_or_init(|| function))
    }

    /// The module of a unit. If several threads need the same one, the first makes it.
    fn module(&self, unit: Unit, worker: &mut Worker) -> Result<(Module, KernelOrigin)> {
        let place = {
            let mut units = self.units.lock();
            units.entry(unit).or_default().clone()
        };
        let mut place = place.lock();
        if let Some(module) = &*place {
            return Ok((module.clone(), KernelOrigin::Loaded));
        }
        let (module, origin) = self.load(&unit, worker)?;
        Ok((place.insert(module).clone(), origin))
    }

    /// Runs `calls` and returns their result and the units that they would use. Nothing is launched; see
    /// [`rehearsal`].
    pub(crate) fn rehearse<R>(&self, calls: impl FnOnce() -> R) -> Result<(R, Vec<Unit>)> {
        rehearsal::rehearse(self, calls)
    }

    /// Whether this thread rehearses calls.
    pub(crate) fn is_rehearsing(&self) -> bool {
        rehearsal::is_on(self)
    }

    /// Loads units, several at a time. Calls `report` when each is ready, with the number ready and the
    /// total.
    pub(crate) fn load_all(
        &self,
        units: &[Unit],
        report: &mut dyn FnMut(&LoadedUnit, usize, usize),
    ) -> Result<Vec<LoadedUnit>> {
        let threads =
            std::thread::available_parallelism().map_or(1, |n| n.get()).min(MAX_WORKERS).min(units.len());
        // Kernels for matrix units take the longest: if one began last, everything would wait for it.
        let mut ordered: Vec<&Unit> = units.iter().collect();
        ordered.sort_by_key(|unit| !unit.family().needs_matrix());
        let queue = Mutex::new(ordered.into_iter());
        let (sender, receiver) = mpsc::channel();
        let mut loaded = Vec::with_capacity(units.len());
        let work = |mut worker: Worker, sender: mpsc::Sender<Result<LoadedUnit>>| {
            while let Some(unit) = { queue.lock().next() } {
                let begin = Instant::now();
                let result = self.module(*unit, &mut worker).map(|(_, origin)| LoadedUnit {
                    name: unit.name(),
                    origin,
                    time: begin.elapsed(),
                });
                // The receiver is gone if another unit failed.
                if sender.send(result).is_err() {
                    break;
                }
            }
        };
        std::thread::scope(|scope| {
            let started = (0..threads).filter(|thread| {
                let worker = if *thread == 0 { Worker::Here } else { Worker::NotStarted };
                let (work, sender) = (&work, sender.clone());
                std::thread::Builder::new().spawn_scoped(scope, move || work(worker, sender)).is_ok()
            });
            // The system may start no thread; then this one does all the work before it reports.
            if started.count() == 0 {
                work(Worker::Here, sender.clone());
            }
            drop(sender);
            for result in receiver {
                loaded.push(result?);
                if let Some(unit) = loaded.last() {
                    report(unit, loaded.len(), units.len());
                }
            }
            Ok(loaded)
        })
    }

    fn load(&self, unit: &Unit, worker: &mut Worker) -> Result<(Module, KernelOrigin)> {
        let refused = match self.source {
            KernelSource::Jit => None,
            _ => match self.embedded(unit)? {
                Ok(module) => return Ok((module, KernelOrigin::Embedded)),
                Err(why) => Some(why),
            },
        };
        match (self.source, refused) {
            (KernelSource::Aot, Some(why)) => Err(failed(AHEAD_OF_TIME, why)),
            (_, refused) => {
                let compiler = self.compiler().map_err(|error| match refused {
                    Some(why) => failed("loading kernels", format!("{why}; {error}")),
                    None => failed("opening hipRTC", error),
                })?;
                self.compile(unit, compiler, worker)
            }
        }
    }

    /// The module compiled with the program, or why there is no usable one.
    fn embedded(&self, unit: &Unit) -> Result<Result<Module, String>> {
        let gfx = &self.device.info().gfx;
        let Some(found) = self.objects.find(unit, gfx) else { return Ok(Err(absent(&self.objects, gfx))) };
        let loaded = found.read().map(|code| Module::load(&self.device, code));
        let why = match loaded {
            Ok(Ok(module)) => return Ok(Ok(module)),
            Ok(Err(hip::Error::Module { source, .. })) if source.call() == "hipModuleLoadData" => {
                source.to_string()
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(why) => why,
        };
        let why =
            format!("the code of {} compiled for {} cannot be loaded: {why}", unit.name(), found.target);
        if self.source != KernelSource::Aot {
            tracing::warn!("{why}; hipRTC will compile it");
        }
        Ok(Err(why))
    }

    fn compile(
        &self,
        unit: &Unit,
        compiler: &Compiler,
        worker: &mut Worker,
    ) -> Result<(Module, KernelOrigin)> {
        let gfx = &self.device.info().gfx;
        let (text, options) = (unit.text(gfx.full()), options_for(gfx)?);
        let disk = self.disk(compiler).as_ref().ok();
        let key = disk.map(|disk| disk.key(gfx, &options, &text));
        if let (Some(disk), Some(key)) = (disk, key)
            && let Some(code) = disk.read(key)
        {
            match Module::load(&self.device, code) {
                Ok(module) => return Ok((module, KernelOrigin::Cached)),
                // Complete, but not for this device: compile it again.
                Err(hip::Error::Module { source, .. }) if source.call() == "hipModuleLoadData" => {
                    tracing::warn!("a cached kernel cannot be loaded and is compiled again: {source}");
                }
                Err(error) => return Err(error.into()),
            }
        }
        let (code, origin) = match worker.compile(gfx, unit, &text, compiler) {
            Some(code) => (code, KernelOrigin::CompiledByHelper),
            None => {
                let name = unit.name() + ".hip";
                let options: Vec<&str> = options.iter().map(String::as_str).collect();
                let code = compiler.compile(Source { name: &name, text: &text, headers: &[] }, gfx, &options);
                (code.map_err(hip::Error::from)?, KernelOrigin::Compiled)
            }
        };
        if let (Some(disk), Some(key)) = (disk, key) {
            disk.write(key, &code);
        }
        Ok((Module::load(&self.device, code)?, origin))
    }

    /// The cache on disk, or why there is none. The first use logs why a folder is not used.
    fn disk(&self, compiler: &Compiler) -> &std::result::Result<Disk, String> {
        self.disk.get_or_init(|| {
            let disk = Disk::new(&self.folder, compiler, self.limit);
            if let (Err(why), Some(_)) = (&disk, self.folder.path()) {
                tracing::warn!("compiled kernels are not cached: {why}");
            }
            disk
        })
    }

    /// The folder in which later processes find these units, or why they do not.
    pub(crate) fn kept(&self, units: impl Iterator<Item = Unit>) -> std::result::Result<PathBuf, String> {
        let mut units = units.peekable();
        if units.peek().is_none() {
            return self.folder.usable();
        }
        let gfx = &self.device.info().gfx;
        let compiler = self.compiler().map_err(|error| error.to_string())?;
        let disk = self.disk(compiler).as_ref().map_err(String::clone)?;
        let options = options_for(gfx).map_err(|error| error.to_string())?;
        disk.holds_all(units.map(|unit| disk.key(gfx, &options, &unit.text(gfx.full()))))
    }

    fn compiler(&self) -> std::result::Result<&Compiler, hip_sys::LoadError> {
        if let Some(compiler) = self.compiler.get() {
            return Ok(compiler);
        }
        let compiler = Compiler::load(self.device.hip())?;
        Ok(self.compiler.get_or_init(|| compiler))
    }
}

/// The compiler's options for an architecture, which is passed separately.
fn options_for(gfx: &Gfx) -> Result<Vec<String>> {
    let options = ops_kernels::source::hiprtc_options(gfx.full());
    let mut options =
        options.ok_or_else(|| failed("compiling a kernel", format!("there are no kernels for {gfx}")))?;
    options.retain(|option| !option.starts_with("--offload-arch"));
    Ok(options)
}

//! This project's kernels on a device: compiled on first use, kept in memory and on disk.
//!
//! A unit of compilation is one family for one set of element types, so that a program waits only for what it uses.
mod disk;

pub use disk::CacheFolder;

use crate::error::failed;
use crate::hip::{self, Compiler, Device, Function, Gfx, KernelArgs, Launch, Module, Source, Stream};
use disk::Disk;
use ops_core::Result;
use ops_kernels::{Arguments, Dtype, Family, Instance};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// Where compiled kernels come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelSource {
    /// hipRTC compiles them for the device on first use; code objects are cached on disk.
    #[default]
    Jit,
    /// They were compiled with this program.
    Aot,
}

impl KernelSource {
    /// What `OPS_ROCM_KERNELS` says.
    pub(crate) fn from_env() -> Result<Self> {
        match std::env::var("OPS_ROCM_KERNELS").as_deref() {
            Ok("jit" | "") | Err(_) => Ok(KernelSource::Jit),
            Ok("aot") => Ok(KernelSource::Aot),
            Ok(other) => Err(failed("reading OPS_ROCM_KERNELS", format!("{other:?} is neither jit nor aot"))),
        }
    }
}

/// The kernels of a device.
#[derive(Debug)]
pub(crate) struct Kernels {
    device: Device,
    compiler: OnceLock<Compiler>,
    disk: OnceLock<Option<Disk>>,
    folder: CacheFolder,
    functions: RwLock<HashMap<&'static str, Function>>,
    units: Mutex<HashMap<Unit, Arc<Mutex<Option<Module>>>>>,
}

/// What is compiled together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Unit {
    family: Family,
    types: &'static [Dtype],
}

impl Unit {
    fn of(instance: &'static Instance) -> Self {
        // Casts are many and small.
        let types = match instance.family {
            Family::Cast => &instance.types[..1],
            _ => &instance.types[..],
        };
        Unit { family: instance.family, types }
    }

    fn name(&self) -> String {
        let types: Vec<&str> = self.types.iter().map(|t| t.name()).collect();
        format!("{}-{}.hip", self.family.name(), types.join("-"))
    }

    fn text(&self) -> String {
        let mine = |k: &&Instance| k.family == self.family && k.types.starts_with(self.types);
        ops_kernels::source::unit(self.family, ops_kernels::instances().iter().filter(mine))
    }
}

impl Kernels {
    pub(crate) fn new(device: &Device, source: KernelSource, folder: CacheFolder) -> Result<Self> {
        if source == KernelSource::Aot {
            let why = "this program was built without kernels; set OPS_ROCM_KERNELS=jit";
            return Err(failed("loading kernels compiled ahead of time", why));
        }
        let (gfx, wave) = (&device.info().gfx, device.info().wave_size);
        if wave != gfx.wave_size() {
            let why =
                format!("{gfx} has waves of {wave}, kernels for it are compiled for {}", gfx.wave_size());
            return Err(failed("choosing kernels", why));
        }
        Ok(Kernels {
            device: device.clone(),
            compiler: OnceLock::new(),
            disk: OnceLock::new(),
            folder,
            functions: RwLock::default(),
            units: Mutex::default(),
        })
    }

    /// The kernel of an instance, compiled if it was not yet.
    fn function(&self, instance: &'static Instance) -> Result<Function> {
        let symbol = instance.symbol.as_str();
        let functions = self.functions.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = functions.get(symbol) {
            return Ok(function.clone());
        }
        drop(functions);
        let function = self.module(Unit::of(instance))?.function(symbol)?;
        let mut functions = self.functions.write().unwrap_or_else(PoisonError::into_inner);
        Ok(functions.entry(symbol).or_insert(function).clone())
    }

    /// The module of a unit. Of several threads that want the same one, the first makes it.
    fn module(&self, unit: Unit) -> Result<Module> {
        let place = {
            let mut units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
            units.entry(unit.clone()).or_default().clone()
        };
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = &*place {
            return Ok(module.clone());
        }
        Ok(place.insert(self.load(&unit)?).clone())
    }

    fn load(&self, unit: &Unit) -> Result<Module> {
        let gfx = &self.device.info().gfx;
        let (text, options) = (unit.text(), options_for(gfx)?);
        let compiler = self.compiler()?;
        let disk = self.disk.get_or_init(|| Disk::new(&self.folder, compiler));
        let key = disk.as_ref().map(|disk| disk.key(gfx, &options, &text));
        if let (Some(disk), Some(key)) = (disk, key)
            && let Some(code) = disk.read(key)
        {
            match Module::load(&self.device, code) {
                Ok(module) => return Ok(module),
                // Whole, and yet not for this device: made anew.
                Err(hip::Error::Module { source, .. }) if source.call() == "hipModuleLoadData" => {
                    tracing::warn!("a cached kernel does not load: {source}");
                }
                Err(error) => return Err(error.into()),
            }
        }
        let name = unit.name();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let code = compiler.compile(Source { name: &name, text: &text, headers: &[] }, gfx, &options);
        let code = code.map_err(hip::Error::from)?;
        if let (Some(disk), Some(key)) = (disk, key) {
            disk.write(key, &code);
        }
        Ok(Module::load(&self.device, code)?)
    }

    fn compiler(&self) -> Result<&Compiler> {
        if let Some(compiler) = self.compiler.get() {
            return Ok(compiler);
        }
        let compiler = Compiler::load(self.device.hip()).map_err(|error| failed("opening hipRTC", error))?;
        Ok(self.compiler.get_or_init(|| compiler))
    }

    /// Enqueues a kernel.
    ///
    /// # Errors
    /// The kernel does not compile or load; HIP's.
    ///
    /// # Safety
    /// `args` were made by this launch's function of `ops-kernels` for views that lie in their memory, which is lent to
    /// the stream until this has returned.
    pub(crate) unsafe fn launch<A: KernelArgs + Arguments>(
        &self,
        stream: &Stream,
        launch: &ops_kernels::Launch,
        args: &A,
    ) -> Result<()> {
        if launch.is_empty() {
            return Ok(());
        }
        let instance = launch.instance;
        if (instance.args, instance.args_size) != (A::NAME, size_of::<A>()) {
            let got = format!("{} takes {}, not {}", instance.symbol, instance.args, A::NAME);
            return Err(failed("launching a kernel", got));
        }
        let function = self.function(instance)?;
        let sizes = Launch { grid: launch.grid, block: [launch.block, 1, 1], dynamic_lds: 0 };
        // SAFETY: the structure is the kernel's, as compared above; the rest is the caller's promise.
        Ok(unsafe { function.launch(stream, sizes, args) }?)
    }
}

/// The compiler's options for an architecture, which it is given separately.
fn options_for(gfx: &Gfx) -> Result<Vec<String>> {
    let options = ops_kernels::source::hiprtc_options(gfx.full());
    let mut options =
        options.ok_or_else(|| failed("compiling a kernel", format!("there are no kernels for {gfx}")))?;
    options.retain(|option| !option.starts_with("--offload-arch"));
    Ok(options)
}

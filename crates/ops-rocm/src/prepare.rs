//! Compiling and loading kernels before they are needed.
use crate::hip::Gfx;
use crate::{Error, KernelOrigin, LoadedUnit, Rocm};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The result of [`Rocm::prepare`].
#[derive(Clone, Debug)]
pub struct Prepared {
    gfx: Gfx,
    units: Vec<LoadedUnit>,
    time: Duration,
    cache: Result<PathBuf, String>,
}

impl Prepared {
    /// The units, in the order in which they became ready.
    pub fn units(&self) -> &[LoadedUnit] {
        &self.units
    }
    /// The number of units from this origin.
    pub fn count(&self, origin: KernelOrigin) -> usize {
        self.units.iter().filter(|unit| unit.origin == origin).count()
    }
    /// The number of units compiled by this process or by helpers.
    pub fn compiled(&self) -> usize {
        self.count(KernelOrigin::Compiled) + self.count(KernelOrigin::CompiledByHelper)
    }
    /// The folder in which later processes find the units that were compiled or read from it, or why they do not.
    ///
    /// # Errors
    /// The folder is not used, or the kernels cannot be stored there or exceed its limit.
    pub fn cache(&self) -> Result<&Path, &str> {
        self.cache.as_deref().map_err(String::as_str)
    }
    /// The time to load all of them, without the calls that used them.
    pub fn time(&self) -> Duration {
        self.time
    }
}

impl fmt::Display for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Prepared { gfx, units, time, .. } = self;
        write!(f, "{} units of kernels for {gfx} ready in {:.1} s", units.len(), time.as_secs_f64())?;
        let origins = [
            (KernelOrigin::Compiled, "compiled"),
            (KernelOrigin::CompiledByHelper, "compiled by helpers"),
            (KernelOrigin::Cached, "from the cache"),
            (KernelOrigin::Embedded, "from this program"),
            (KernelOrigin::Loaded, "loaded before"),
        ];
        let counts = origins.map(|(origin, word)| (self.count(origin), word));
        let words: Vec<String> =
            counts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
        if words.is_empty() { Ok(()) } else { write!(f, ": {}", words.join(", ")) }
    }
}

impl Rocm {
    /// Compiles and loads the kernels that `calls` needs, so that no later call waits for the compiler.
    /// It compiles several at a time on Linux, in further processes of this program, unless this crate is part of a shared
    /// library.
    ///
    /// `calls` makes the calls that the program will make, for example one step of a model with a prompt and
    /// one with a single token: which kernels run depends on types and shapes. It is called on this thread
    /// and uses this queue, or any other on the same device. Ops check, allocate and copy as usual, and
    /// rocBLAS and MIOpen do compute, which makes them load their own kernels. **This project's kernels are
    /// not launched**: outputs are undefined, so do not pass tensors that are still needed, and do not act on
    /// results. Other threads are not affected.
    ///
    /// Compiled kernels go to the [cache](crate::CacheFolder); if all are already there, this takes
    /// milliseconds.
    ///
    /// ```no_run
    /// use rocm_ops::prelude::*;
    /// use rocm_ops::rocm::Rocm;
    ///
    /// let gpu = Rocm::new()?;
    /// let (weight, scale) = (gpu.zeros::<f16>(&[4096, 4096])?, gpu.zeros::<f32>(&[4096])?);
    /// let prepared = gpu.prepare(|| {
    ///     for tokens in [512, 1] {
    ///         let x = gpu.zeros::<f16>(&[tokens, 4096])?;
    ///         gpu.linear(&gpu.rms_norm(&x, &scale, 1e-5)?, &weight)?;
    ///     }
    ///     Ok::<(), rocm_ops::Error>(())
    /// })?;
    /// println!("{prepared}"); // 4 units of kernels for gfx1100 ready in 3.1 s: 4 compiled
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of `calls`; a kernel that cannot be compiled or loaded; a nested call of this function.
    pub fn prepare<E: From<Error>>(&self, calls: impl FnOnce() -> Result<(), E>) -> Result<Prepared, E> {
        self.prepare_with(calls, |_, _, _| ())
    }

    /// [`prepare`](Rocm::prepare), which reports each unit when it is ready, with how many are and how many there are.
    ///
    /// # Errors
    /// As [`prepare`](Rocm::prepare).
    pub fn prepare_with<E: From<Error>>(
        &self,
        calls: impl FnOnce() -> Result<(), E>,
        mut report: impl FnMut(&LoadedUnit, usize, usize),
    ) -> Result<Prepared, E> {
        let (done, names) = self.kernels().rehearse(calls)?;
        done?;
        let begin = Instant::now();
        let units = self.kernels().load_all(&names, &mut report)?;
        let time = begin.elapsed();
        // Units that were found in the cache count, too: a unit that was compiled may have evicted them.
        let in_cache: Vec<&str> = (units.iter())
            .filter(|unit| !matches!(unit.origin, KernelOrigin::Embedded | KernelOrigin::Loaded))
            .map(|unit| unit.name.as_str())
            .collect();
        let to_find = names.into_iter().filter(|unit| in_cache.contains(&unit.name().as_str()));
        let cache = self.kernels().kept(to_find);
        Ok(Prepared { gfx: self.device().info().gfx.clone(), units, time, cache })
    }
}

//! Where a device's kernels would come from.
use super::disk::Disk;
use super::{CacheFolder, CacheLimit, CodeObjects, KernelSource, options_for};
use crate::hip::{Compiler, Gfx};
use ops_kernels::Unit;

/// Numbers of kernel units, by where a device gets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCount {
    /// Compiled with this program.
    pub embedded: usize,
    /// Compiled earlier and cached on disk.
    pub cached: usize,
    /// Not yet compiled; hipRTC will compile them on first use.
    pub to_compile: usize,
}

impl KernelCount {
    pub(crate) fn of(
        gfx: &Gfx,
        source: KernelSource,
        objects: &CodeObjects,
        compiler: Option<&Compiler>,
    ) -> Self {
        let disk = compiler.and_then(|c| Disk::new(&CacheFolder::Standard, c, CacheLimit::default()).ok());
        let options = options_for(gfx).ok();
        let cached = |unit: &Unit| match (&disk, &options) {
            (Some(disk), Some(options)) => disk.holds(disk.key(gfx, options, &unit.text(gfx.full()))),
            _ => false,
        };
        let mut count = KernelCount::default();
        for unit in Unit::all().into_iter().filter(|unit| unit.runs_on(gfx.full())) {
            let place = if source != KernelSource::Jit && objects.find(&unit, gfx).is_some() {
                &mut count.embedded
            } else if cached(&unit) {
                &mut count.cached
            } else {
                &mut count.to_compile
            };
            *place += 1;
        }
        count
    }

    /// The total.
    pub fn total(&self) -> usize {
        self.embedded + self.cached + self.to_compile
    }
}

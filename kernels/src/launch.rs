//! What a launch is made of.
use crate::{Instance, Shape};

/// What grids depend on.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// Compute units (multiprocessors).
    pub compute_units: u32,
    /// Threads of a wave: 32 or 64, as the instance was compiled.
    pub wave: u32,
}

impl Device {
    /// Blocks enough to fill the device `rounds` times over with small blocks.
    pub(crate) fn blocks(&self, rounds: u32) -> u64 {
        u64::from(self.compute_units.max(1)) * u64::from(rounds)
    }
}

/// One kernel launch, but for its arguments. A grid of 0 blocks means there is nothing to do.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// What to launch.
    pub instance: &'static Instance,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: u32,
}

impl Launch {
    /// Whether the problem is empty and no kernel needs to run.
    pub fn is_empty(&self) -> bool {
        self.grid.contains(&0)
    }

    /// The launch of an elementwise kernel.
    pub(crate) fn elementwise(instance: &'static Instance, shape: &Shape, device: &Device) -> Launch {
        let packs = shape.count().div_ceil(u64::from(shape.pack()));
        Launch::over(instance, packs, u64::from(instance.block), device.blocks(32))
    }

    /// A one-dimensional grid for `items` units of work, `per_block` to a block, at most `most` blocks:
    /// kernels step over what exceeds the grid.
    pub(crate) fn over(instance: &'static Instance, items: u64, per_block: u64, most: u64) -> Launch {
        let blocks = items.div_ceil(per_block.max(1)).min(most).min(u64::from(u32::MAX) / 1024);
        Launch { instance, grid: [blocks as u32, 1, 1], block: instance.block }
    }
}

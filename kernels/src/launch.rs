//! Launches: the device, grid and block.
use crate::{Dot4, ElementType, Instance, Matrix, Refused, Shape, Tuning, find};

/// The properties of a device that launches depend on.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// Number of compute units (multiprocessors).
    pub compute_units: u32,
    /// The wave size that the instance was compiled for: 32 or 64.
    pub wave: u32,
    /// The matrix units to use, if any.
    pub matrix: Option<Matrix>,
    /// The instruction for byte dot products, if any.
    pub dot4: Option<Dot4>,
    /// Tuning parameters.
    pub tuning: Tuning,
}

impl Device {
    /// Largest number of blocks of a kernel that processes rows.
    pub(crate) fn row_blocks(&self) -> u64 {
        self.blocks(self.tuning.row_blocks())
    }

    /// Largest number of blocks of a product of one row by a quantized weight.
    pub(crate) fn dot_blocks(&self) -> u64 {
        self.blocks(self.tuning.dot_blocks())
    }

    /// Whether this many large tiles fill the device. Launches whose rows must not depend on each other
    /// always use the same tile size.
    pub(crate) fn takes_large(&self, tiles: u64) -> bool {
        !self.tuning.is_by_row()
            && tiles.saturating_mul(100) >= self.blocks(1).saturating_mul(self.tuning.large_tiles())
    }

    /// Number of small blocks that fill the device `rounds` times.
    pub(crate) fn blocks(&self, rounds: u32) -> u64 {
        u64::from(self.compute_units.max(1)) * u64::from(rounds)
    }
}

/// One kernel launch, without its arguments. If the grid has 0 blocks, there is nothing to do.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// The kernel to launch.
    pub instance: &'static Instance,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads per block.
    pub block: u32,
}

impl Launch {
    /// Whether the problem is empty and no kernel needs to run.
    pub fn is_empty(&self) -> bool {
        self.grid.contains(&0)
    }

    /// Makes the launch of an elementwise kernel.
    pub(crate) fn elementwise(instance: &'static Instance, shape: &Shape, device: &Device) -> Launch {
        let packs = shape.count().div_ceil(u64::from(shape.pack()));
        Launch::over(
            instance,
            packs,
            u64::from(instance.block),
            device.blocks(device.tuning.element_blocks()),
        )
    }

    /// Makes a one-dimensional grid for `items` units of work, `per_block` per block, with at most `most`
    /// blocks. If the grid is smaller than the work, the kernel loops over the rest.
    pub(crate) fn over(instance: &'static Instance, items: u64, per_block: u64, most: u64) -> Launch {
        let blocks = items.div_ceil(per_block.max(1)).min(most).min(u64::from(u32::MAX) / 1024);
        Launch { instance, grid: [blocks as u32, 1, 1], block: instance.block }
    }
}

/// The instance for this op, variant and types, or an error.
pub(crate) fn need(op: &str, variant: &str, types: &[ElementType]) -> Result<&'static Instance, Refused> {
    find(op, variant, types).ok_or_else(|| Refused::NoKernel { op: op.to_owned(), types: types.to_vec() })
}

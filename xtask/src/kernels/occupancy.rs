//! How many waves of a kernel fit a SIMD, as LLVM computes it. A code object's metadata has no such figure.
use super::figures::Figures;
use ops_kernels::{GfxTarget, target};

/// What the waves of a compute unit share; on RDNA, of a work-group processor.
struct Machine {
    /// Most waves of a SIMD.
    waves: u32,
    /// VGPRs of each lane on a SIMD, and the number that they are allocated by.
    vgprs: (u32, u32),
    /// Most blocks of several waves.
    blocks: u32,
    lds: u32,
}

/// SIMDs of a compute unit of gfx9 and of a work-group processor of RDNA.
const SIMDS: u32 = 4;

fn machine(known: &GfxTarget) -> Machine {
    let large =
        matches!(known.name, "gfx1100" | "gfx1101" | "gfx1151") || target::generation(known.name) == 12;
    match (known.wave, known.name) {
        (64, "gfx90a" | "gfx942" | "gfx950" | "gfx9-4-generic") => {
            Machine { waves: 8, vgprs: (512, 8), blocks: 16, lds: known.lds_bytes }
        }
        (64, _) => Machine { waves: 10, vgprs: (256, 4), blocks: 16, lds: known.lds_bytes },
        (_, name) => {
            let (waves, by) =
                if name.starts_with("gfx101") || name == "gfx10-1-generic" { (20, 8) } else { (16, 16) };
            // The two compute units of a work-group processor bring 64 KiB of LDS each.
            let vgprs = if large { (1536, 24) } else { (1024, by) };
            Machine { waves, vgprs, blocks: 32, lds: 2 * known.lds_bytes }
        }
    }
}

/// Waves per SIMD of a kernel with blocks of `block` threads; `None` if the target is not in the table.
pub(super) fn waves(target: &str, f: &Figures, block: u32) -> Option<u32> {
    let known = GfxTarget::find(target)?;
    let machine = machine(known);
    let (all, by) = machine.vgprs;
    let by_vgprs = (all / f.vgprs.max(1).next_multiple_of(by)).max(1);
    let by_sgprs = match f.sgprs {
        _ if known.wave == 32 => machine.waves,
        0..=80 => 10,
        81..=88 => 9,
        89..=100 => 8,
        _ => 7,
    };
    let waves_of_block = block.div_ceil(known.wave);
    let slots = machine.waves * SIMDS;
    let most_blocks = if waves_of_block == 1 { slots } else { (slots / waves_of_block).min(machine.blocks) };
    let blocks = most_blocks.min(machine.lds / f.lds.max(1));
    let by_lds = (blocks * waves_of_block).div_ceil(SIMDS).max(1);
    Some(machine.waves.min(by_vgprs).min(by_sgprs).min(by_lds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page;
    use ops_kernels::by_symbol;

    /// The committed tables hold the occupancy that the compiler itself reports.
    #[test]
    fn it_is_what_compilers_report() {
        let mut compared = 0;
        for file in ["resources.tsv", "resources-newer-clang.tsv"] {
            let table = page::read(&page::root().join("kernels").join(file)).unwrap();
            let heading: Vec<&str> = table.lines().nth(1).unwrap().split('\t').collect();
            for line in table.lines().skip(2) {
                let row: Vec<&str> = line.split('\t').collect();
                let Some(k) = by_symbol(row[0]) else { continue };
                for (target, cell) in heading.iter().zip(&row).skip(3).filter(|(_, cell)| **cell != "-") {
                    let numbers: Vec<u32> = cell.split('/').map(|n| n.parse().unwrap()).collect();
                    let f =
                        Figures { vgprs: numbers[0], sgprs: numbers[1], lds: k.lds, ..Figures::default() };
                    // The table adds AGPRs to VGPRs. On gfx908 those are two files of 256.
                    if *target == "gfx908" && k.family.needs_matrix() {
                        continue;
                    }
                    assert_eq!(
                        waves(target, &f, k.block),
                        Some(numbers[2]),
                        "{} on {target}: {cell}",
                        k.symbol
                    );
                    compared += 1;
                }
            }
        }
        assert!(compared > 5000, "{compared}");
    }

    #[test]
    fn a_target_outside_the_table_has_none() {
        assert_eq!(waves("gfx1250", &Figures::default(), 256), None);
    }
}

//! How many waves of a kernel fit a SIMD, computed as LLVM does. A code object's metadata has no such figure.
use super::figures::Figures;
use ops_kernels::GfxTarget;

/// SIMDs of a compute unit of gfx9, and of a work-group processor of RDNA.
const SIMDS: u32 = 4;

/// Waves per SIMD of a kernel with blocks of `block` threads; `None` if the target is not in the table.
pub(super) fn waves(target: &str, f: &Figures, block: u32) -> Option<u32> {
    let target = GfxTarget::find(target)?;
    let rdna = target.wave == 32;
    let by_sgprs = match f.sgprs {
        _ if rdna => target.max_waves(),
        0..=80 => 10,
        81..=88 => 9,
        89..=100 => 8,
        _ => 7,
    };
    // A work-group processor has two compute units' LDS and barriers.
    let units = if rdna { 2 } else { 1 };
    let waves_of_block = block.div_ceil(target.wave);
    let slots = target.max_waves() * SIMDS;
    let most_blocks = if waves_of_block == 1 { slots } else { (slots / waves_of_block).min(16 * units) };
    let blocks = most_blocks.min(target.lds_bytes * units / f.lds.max(1));
    let by_lds = (blocks * waves_of_block).div_ceil(SIMDS).max(1);
    Some(target.waves_with(f.vgprs).min(by_sgprs).min(by_lds).min(target.max_waves()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page;
    use ops_kernels::by_symbol;

    /// The committed tables have the occupancy that the compiler itself reports.
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
        assert_eq!(waves("gfx1251", &Figures::default(), 256), None);
    }
}

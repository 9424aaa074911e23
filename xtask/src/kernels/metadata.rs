//! Reads the metadata of a code object's kernels: registers, spills, scratch and LDS.
//!
//! Every compiler writes it, so the same code reads the figures of clang and of hipRTC.
use super::disassembly::run_tool;
use super::figures::Figures;
use super::occupancy;
use std::path::PathBuf;

/// The kernels of code objects for a target.
pub(super) fn read(
    readelf: &str,
    objects: &[PathBuf],
    target: &str,
) -> Result<Vec<(String, Figures)>, String> {
    let text = run_tool(readelf, &["--notes"], objects)?;
    let kernels = parse(&text).map_err(|e| format!("{objects:?}: {e}"))?;
    kernels
        .into_iter()
        .map(|(name, block, mut f)| {
            f.occupancy =
                occupancy::waves(target, &f, block).ok_or_else(|| format!("{target}: unknown target"))?;
            Ok((name, f))
        })
        .collect()
}

/// Name, block size and figures of each kernel in the output of `llvm-readelf --notes`.
fn parse(text: &str) -> Result<Vec<(String, u32, Figures)>, String> {
    let mut out: Vec<(String, u32, Figures)> = Vec::new();
    for line in text.lines() {
        // A kernel begins with `  - `; its keys are indented by four, those of its arguments by more.
        let line = match line.strip_prefix("  - ") {
            Some(rest) => {
                out.push(Default::default());
                rest
            }
            None => line.strip_prefix("    ").unwrap_or_default(),
        };
        let Some((key, value)) = line.strip_prefix('.').and_then(|l| l.split_once(':')) else { continue };
        let (Some((name, block, f)), value) = (out.last_mut(), value.trim()) else { continue };
        let place = match key {
            "name" => {
                *name = value.to_owned();
                continue;
            }
            "max_flat_workgroup_size" => block,
            "vgpr_count" => &mut f.vgprs,
            "sgpr_count" => &mut f.sgprs,
            "group_segment_fixed_size" => &mut f.lds,
            "private_segment_fixed_size" => &mut f.scratch,
            "vgpr_spill_count" => &mut f.vector_spills,
            "sgpr_spill_count" => &mut f.scalar_spills,
            _ => continue,
        };
        *place = value.parse().map_err(|_| format!("{key} of {name} is {value}"))?;
    }
    // `amdhsa.version` is also a list, of plain numbers.
    out.retain(|(name, ..)| !name.is_empty());
    if out.is_empty() { Err("its metadata lists no kernel".into()) } else { Ok(out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTES: &str = "Displaying notes found in: .note\n    AMDGPU Metadata:\n        ---\namdhsa.kernels:\n  - .agpr_count:     4\n    .args:\n\
        \x20     - .name:           args\n        .offset:         0\n        .size:           296\n\
        \x20   .group_segment_fixed_size: 512\n    .max_flat_workgroup_size: 256\n    .name:           sigmoid_f16\n\
        \x20   .private_segment_fixed_size: 16\n    .sgpr_count:     44\n    .sgpr_spill_count: 3\n\
        \x20   .vgpr_count:     23\n    .vgpr_spill_count: 2\n  - .args:\n    .name:           sigmoid_f32\n    .vgpr_count:     9\n\
        amdhsa.target:   amdgcn-amd-amdhsa--gfx1100\namdhsa.version:\n  - 1\n  - 2\n";

    #[test]
    fn every_kernel_is_read_and_no_argument_is_taken_for_one() {
        let read = parse(NOTES).unwrap();
        let [(name, block, f), (other, _, g)] = &read[..] else { panic!("{read:?}") };
        assert_eq!((name.as_str(), *block, other.as_str()), ("sigmoid_f16", 256, "sigmoid_f32"));
        assert_eq!((f.vgprs, f.sgprs, f.lds, f.scratch), (23, 44, 512, 16));
        assert_eq!((f.vector_spills, f.scalar_spills, g.vgprs, g.sgprs), (2, 3, 9, 0));
        assert!(parse("Displaying notes found in: .note\n").is_err());
    }
}

//! Kernel sources as text for run-time compilers, and the compiler flags for them.
pub use crate::family::Family;

use crate::target::wave_of;
use crate::{Dot4, Instance, Matrix};
use std::fmt::Write;

/// The headers that kernels include, by name: for kernels of others, too. `ops_platform.h` is the first to read.
pub const HEADERS: &[(&str, &str)] = &[
    ("ops_host.h", include_str!("../include/ops_host.h")),
    ("ops_platform.h", include_str!("../include/ops_platform.h")),
    ("ops_lanes.h", include_str!("../include/ops_lanes.h")),
    ("ops_types.h", include_str!("../include/ops_types.h")),
    ("ops_math.h", include_str!("../include/ops_math.h")),
    ("ops_near.h", include_str!("../include/ops_near.h")),
    ("ops_pow.h", include_str!("../include/ops_pow.h")),
    ("ops_trig.h", include_str!("../include/ops_trig.h")),
    ("ops_f16_math.h", include_str!("../include/ops_f16_math.h")),
    ("ops_view.h", include_str!("../include/ops_view.h")),
    ("ops_planes.h", include_str!("../include/ops_planes.h")),
    ("ops_reduce.h", include_str!("../include/ops_reduce.h")),
    ("ops_first.h", include_str!("../include/ops_first.h")),
    ("ops_key.h", include_str!("../include/ops_key.h")),
    ("ops_row.h", include_str!("../include/ops_row.h")),
    ("ops_team.h", include_str!("../include/ops_team.h")),
    ("ops_arrival.h", include_str!("../include/ops_arrival.h")),
    ("ops_attention.h", include_str!("../include/ops_attention.h")),
    ("ops_tile.h", include_str!("../include/ops_tile.h")),
    ("ops_blocks.h", include_str!("../include/ops_blocks.h")),
    ("ops_formats.h", include_str!("../include/ops_formats.h")),
    ("ops_formats_grid.h", include_str!("../include/ops_formats_grid.h")),
    ("ops_formats_levels.h", include_str!("../include/ops_formats_levels.h")),
    ("ops_formats_more.h", include_str!("../include/ops_formats_more.h")),
    ("ops_grids.h", include_str!("../include/ops_grids.h")),
    ("ops_qlinear.h", include_str!("../include/ops_qlinear.h")),
    ("ops_stage_blocks.h", include_str!("../include/ops_stage_blocks.h")),
    ("ops_paired.h", include_str!("../include/ops_paired.h")),
    ("ops_dot4.h", include_str!("../include/ops_dot4.h")),
    ("ops_columns.h", include_str!("../include/ops_columns.h")),
    ("ops_bytes.h", include_str!("../include/ops_bytes.h")),
    ("ops_dot_step.h", include_str!("../include/ops_dot_step.h")),
    ("ops_byte_planes.h", include_str!("../include/ops_byte_planes.h")),
    ("ops_row_step.h", include_str!("../include/ops_row_step.h")),
    ("ops_dot_tiles.h", include_str!("../include/ops_dot_tiles.h")),
    ("ops_dot_row.h", include_str!("../include/ops_dot_row.h")),
    ("ops_cache.h", include_str!("../include/ops_cache.h")),
    ("ops_float_kind.h", include_str!("../include/ops_float_kind.h")),
    ("ops_projected.h", include_str!("../include/ops_projected.h")),
    ("ops_matmul.h", include_str!("../include/ops_matmul.h")),
    ("ops_mma.h", include_str!("../include/ops_mma.h")),
    ("ops_mma_amd.h", include_str!("../include/ops_mma_amd.h")),
    ("ops_mma_plain.h", include_str!("../include/ops_mma_plain.h")),
    ("ops_mma_stage.h", include_str!("../include/ops_mma_stage.h")),
    ("ops_mma_parts.h", include_str!("../include/ops_mma_parts.h")),
    ("ops_mma_blocks.h", include_str!("../include/ops_mma_blocks.h")),
    ("ops_mma_keys.h", include_str!("../include/ops_mma_keys.h")),
    ("ops_conv.h", include_str!("../include/ops_conv.h")),
    ("ops_index.h", include_str!("../include/ops_index.h")),
    ("ops_head.h", include_str!("../include/ops_head.h")),
    ("ops_sequences.h", include_str!("../include/ops_sequences.h")),
    ("ops_experts.h", include_str!("../include/ops_experts.h")),
    ("ops_experts_fused.h", include_str!("../include/ops_experts_fused.h")),
    ("ops_peer.h", include_str!("../include/ops_peer.h")),
    ("ops_decode.h", include_str!("../include/ops_decode.h")),
];

/// The whole family as one translation unit: all instances, no include path needed.
pub fn source(family: Family) -> String {
    unit(family, crate::instances().iter().filter(|k| k.family == family))
}

/// The family as one translation unit with only the instances that can run on a target.
pub fn source_for(family: Family, target: &str) -> String {
    unit_for(family, crate::instances().iter().filter(|k| k.family == family && k.runs_on(target)), target)
}

/// A translation unit with the given instances of one family. Instances of other families are skipped.
pub fn unit<'a>(family: Family, instances: impl IntoIterator<Item = &'a Instance>) -> String {
    unit_for(family, instances, "")
}

/// A [`unit`] for a target; the target's registers determine the bounds of some kernels.
pub(crate) fn unit_for<'a>(
    family: Family,
    instances: impl IntoIterator<Item = &'a Instance>,
    target: &str,
) -> String {
    let mut out = String::new();
    let mut seen = Vec::new();
    inline(&mut out, &mut seen, &format!("{}.hip", family.name()), family.text());
    out.push_str("#line 1 \"instances\"\nnamespace ops {\n");
    for k in instances.into_iter().filter(|k| k.family == family) {
        let (symbol, args, block, body) = (&k.symbol, k.args, k.block, &k.body);
        // Writing to a String cannot fail.
        let _ = match k.min_waves(target) {
            Some(waves) => {
                writeln!(out, "OPS_BOUNDED_KERNEL({symbol}, {args}, {block}, {waves}) {{ {body} }}")
            }
            None => writeln!(out, "OPS_KERNEL({symbol}, {args}, {block}) {{ {body} }}"),
        };
    }
    out.push_str("}  // namespace ops\n");
    out
}

/// Appends a file and the headers that it includes, each once. Line directives make compiler messages name the
/// original files.
fn inline(out: &mut String, seen: &mut Vec<&'static str>, name: &str, text: &str) {
    let _ = writeln!(out, "#line 1 \"{name}\"");
    for (number, line) in text.lines().enumerate() {
        let header = line
            .strip_prefix("#include \"")
            .and_then(|rest| rest.strip_suffix('"'))
            .and_then(|wanted| HEADERS.iter().find(|(name, _)| *name == wanted));
        match header {
            Some((header, _)) if seen.contains(header) => out.push('\n'),
            Some((header, body)) => {
                seen.push(header);
                inline(out, seen, header, body);
                let _ = writeln!(out, "#line {} \"{name}\"", number + 2);
            }
            None if line == "#pragma once" => out.push('\n'),
            None => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
}

fn common(wave: u32, matrix: Option<Matrix>) -> Vec<String> {
    let units = matrix.map(|matrix| format!("-DOPS_MATRIX={}", matrix.define()));
    ["-std=c++17".into(), format!("-DOPS_WAVE={wave}")].into_iter().chain(units).collect()
}

/// The common flags for an AMD target; `None` if [`wave_of`] does not know the target.
fn common_for(target: &str) -> Option<Vec<String>> {
    let dot4 = Dot4::of(target).map(|dot4| format!("-DOPS_DOT4={}", dot4.define()));
    Some(common(wave_of(target)?, Matrix::of(target)).into_iter().chain(dot4).collect())
}

/// Flags for hipRTC; `None` if [`wave_of`] does not know the target.
pub fn hiprtc_options(target: &str) -> Option<Vec<String>> {
    let mut out = common_for(target)?;
    out.extend(["-O3".into(), format!("--offload-arch={target}")]);
    Some(out)
}

/// Flags for clang 19 or newer, which needs no ROCm files; `None` if [`wave_of`] does not know the target.
pub fn clang_options(target: &str) -> Option<Vec<String>> {
    let mut out = common_for(target)?;
    let fixed =
        ["-x", "hip", "--cuda-device-only", "-O3", "-nogpuinc", "-nogpulib", "--no-gpu-bundle-output"];
    out.extend(fixed.map(String::from));
    out.push(format!("--offload-arch={target}"));
    if target.ends_with("-generic") {
        out.push("-mcode-object-version=6".into());
    }
    Some(out)
}

/// Flags for NVRTC for an architecture such as `sm_90`.
pub fn nvrtc_options(arch: &str) -> Vec<String> {
    let mut out = common(32, Some(Matrix::Wmma11));
    // Warning 186 is a pointless comparison in the unsigned instances of a template.
    out.extend([format!("--gpu-architecture={arch}"), "--diag-suppress=186".into()]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_bounded_where_the_target_is_known() {
        let bounded = "OPS_BOUNDED_KERNEL(matmul_mma128_f16_f16, MatmulArgs, 256, 8)";
        assert!(source_for(Family::MatmulMma, "gfx1100").contains(bounded));
        assert!(source(Family::MatmulMma).contains("OPS_KERNEL(matmul_mma128_f16_f16, MatmulArgs, 256)"));
    }

    #[test]
    fn units_need_no_include_path() {
        for &family in Family::ALL {
            let text = source(family);
            assert!(!text.contains("#include \""), "{}", family.name());
            assert!(!text.contains("#pragma once"));
        }
    }

    /// NVRTC treats generic lambdas (`auto` parameters) as host functions, and refuses them.
    #[test]
    fn parameters_of_lambdas_have_types() {
        let generic = |text: &str| {
            let lists = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            lists
                .flat_map(|list| list.split(','))
                .any(|parameter| parameter.split(|c: char| !c.is_alphanumeric()).any(|word| word == "auto"))
        };
        assert!(generic("[&](const auto& to, u32 at) { }") && generic("[&](u32 at, auto to) { }"));
        assert!(!generic("auto load = [&](u64 first) { auto to = x[0](first); }"));
        for &family in Family::ALL {
            assert!(!generic(&source(family)), "{}", family.name());
        }
    }
}

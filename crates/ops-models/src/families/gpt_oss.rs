//! GPT-OSS: sinks, windows in every second layer beginning with the first, biases everywhere, experts scored
//! after the choice. OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card", 2025.
use super::{Family, PLAIN};
use crate::folder::options::Options;
use crate::folder::parts::{COMMON, Folder, Found, Keys, Split, Waiting, Windows};
use crate::{Activation, Experts, Result, Window};
use ops_core::model::RopeScaling;
use ops_core::ops::ScoringOrder;
use ops_gguf::{Assembly, GgmlType};
use safetensors::Dtype;

pub(super) const FAMILY: Family = Family {
    name: "gpt-oss",
    folders: &[Folder {
        model_type: "gpt_oss",
        title: "GPT-OSS",
        example: "openai/gpt-oss-20b",
        rope_base: Some(150_000.0),
        own_head_dim: true,
        windows: Windows::ButEvery(2),
        post_attention_norm: true,
        experts,
        translate,
        add_changed: add,
        ..COMMON
    }],
    adjust: |keys, config| {
        // There are no keys for these two.
        config.activation = Activation::SwigluClamped { alpha: 1.702, limit: 7.0 };
        config.feed_norm = "post_attention_norm";
        let size = keys.count("attention.sliding_window")?;
        config.window = Some(Window::but_every(2, size));
        let experts = Experts::read(keys, keys.count("expert_feed_forward_length")?)?;
        // There is no key for this.
        config.experts = Some(Experts { order: ScoringOrder::After, ..experts });
        // The published configuration has `truncate: false`, for which GGUF files have no key.
        if let RopeScaling::Yarn { truncate, .. } = &mut config.rope_scaling {
            *truncate = keys.find("rope.scaling.truncate")?.unwrap_or(false);
        }
        Ok(())
    },
    ..PLAIN
};

// Folders have a single tensor for all experts of a layer, in floats with inputs before outputs or in blocks of MXFP4. The
// rows of gate and up alternate.

/// Bytes of a block's values.
const BLOCK: usize = 16;
/// Rows that a transposition reads together: a cache line of 16-bit columns.
const TOGETHER: usize = 32;

/// A GGUF tensor that consists of some of the outputs: every `step`-th from `first` on.
struct Part {
    name: &'static str,
    first: usize,
    step: usize,
}

const GATE_UP: [Part; 2] =
    [Part { name: "ffn_gate_exps", first: 0, step: 2 }, Part { name: "ffn_up_exps", first: 1, step: 2 }];
const DOWN: [Part; 1] = [Part { name: "ffn_down_exps", first: 0, step: 1 }];

/// The options of experts.
fn experts(options: &Options, keys: &mut Keys) -> Result<()> {
    let width = options.required("intermediate_size", options.count("intermediate_size")?)?;
    keys.set("expert_feed_forward_length", width)?;
    let used = options.count("num_experts_per_tok")?.unwrap_or(0);
    options.only("experts_per_token", &used.to_string(), |value| value.as_u64() == Some(used.into()))
}

/// The options that only this family has.
fn translate(options: &Options, _: &mut Keys) -> Result<Split> {
    for (option, only) in [("swiglu_alpha", 1.702), ("swiglu_limit", 7.0)] {
        options.only(option, &only.to_string(), |value| value.as_f64() == Some(only))?;
    }
    options.only("quantization_config", "quant_method mxfp4", |value| {
        value.get("quant_method").and_then(|method| method.as_str()) == Some("mxfp4")
    })?;
    Ok(Split::None)
}

/// Adds a tensor of a layer's experts.
fn add(model: &mut Assembly, found: &Found<'_>, _: Split, waiting: &mut Waiting) -> Result<()> {
    let what = found.part.trim_start_matches("mlp.experts.");
    let (parts, form) = match (what.strip_prefix("gate_up_proj"), what.strip_prefix("down_proj")) {
        (Some(form), _) => (&GATE_UP[..], form),
        (_, Some(form)) => (&DOWN[..], form),
        _ => return Err(found.foreign()),
    };
    match (form, found.dims) {
        ("", &[experts, inputs, outputs]) => {
            add_parts(model, found, parts, ([experts, outputs], Some(inputs)), |part, to| {
                transpose(found.bytes(), [experts, inputs, outputs], part, to);
            })
        }
        ("_bias", &[experts, outputs]) => {
            add_parts(model, found, parts, ([experts, outputs], None), |part, to| {
                transpose(found.bytes(), [experts, 1, outputs], part, to);
            })
        }
        ("_blocks" | "_scales", _) if found.dtype != Dtype::U8 => {
            Err(found.wrong(format!("type {:?}", found.dtype), "U8"))
        }
        ("_blocks", &[_, _, _, BLOCK]) | ("_scales", &[_, _, _]) => {
            let name = found.name.trim_end_matches("_blocks").trim_end_matches("_scales").to_owned();
            let Some((dims, other)) = waiting.remove(&name) else {
                waiting.insert(name, (found.dims.to_vec(), found.piece.clone()));
                return Ok(());
            };
            let other = (dims.as_slice(), &other.0[other.1]);
            let own = (found.dims, found.bytes());
            let (blocks, scales) = if form == "_blocks" { (own, other) } else { (other, own) };
            add_blocks(model, found, parts, blocks, scales)
        }
        (_, dims) => Err(found.wrong(format!("{dims:?}"), "extents of experts, outputs and inputs")),
    }
}

/// Adds the parts of a float tensor, which `fill` writes.
fn add_parts(
    model: &mut Assembly,
    found: &Found<'_>,
    parts: &[Part],
    ([experts, outputs], inputs): ([usize; 2], Option<usize>),
    fill: impl Fn(&Part, &mut [u8]),
) -> Result<()> {
    let (ty, kind) = (found.ty()?, if inputs.is_some() { "weight" } else { "bias" });
    for part in parts {
        let n = evenly(found, outputs, part)?;
        let mut bytes = vec![0; found.bytes().len() / part.step];
        fill(part, &mut bytes);
        let dims: Vec<usize> = [experts, n].into_iter().chain(inputs).collect();
        let all = 0..bytes.len();
        let name = format!("blk.{}.{}.{kind}", found.layer, part.name);
        model.tensor(&name, ty, &dims, &[(bytes.into(), all)])?;
    }
    Ok(())
}

/// The number of outputs in a part.
fn evenly(found: &Found<'_>, outputs: usize, part: &Part) -> Result<usize> {
    match outputs.is_multiple_of(part.step) {
        true => Ok(outputs / part.step),
        false => Err(found.wrong(format!("{outputs} outputs"), "an even number: gate and up alternate")),
    }
}

/// A part of `[experts, inputs, outputs]` as `[experts, outputs of the part, inputs]`.
fn transpose(from: &[u8], [experts, inputs, outputs]: [usize; 3], part: &Part, to: &mut [u8]) {
    let size = from.len().checked_div(experts * inputs * outputs).unwrap_or(0);
    let n = outputs / part.step;
    for expert in 0..experts {
        for start in (0..inputs).step_by(TOGETHER) {
            for row in 0..n {
                for column in start..inputs.min(start + TOGETHER) {
                    let source = ((expert * inputs + column) * outputs + part.first + row * part.step) * size;
                    let target = ((expert * n + row) * inputs + column) * size;
                    to[target..target + size].copy_from_slice(&from[source..source + size]);
                }
            }
        }
    }
}

/// Adds the parts of matrices in blocks: `[experts, outputs, blocks, 16]` and one scale per block.
fn add_blocks(
    model: &mut Assembly,
    found: &Found<'_>,
    parts: &[Part],
    (dims, blocks): (&[usize], &[u8]),
    (of_scales, scales): (&[usize], &[u8]),
) -> Result<()> {
    let (&[experts, outputs, count, BLOCK], true) = (dims, dims.get(..3) == Some(of_scales)) else {
        return Err(
            found.wrong(format!("{dims:?} and {of_scales:?}"), "blocks of 16 bytes with a scale each")
        );
    };
    for part in parts {
        let n = evenly(found, outputs, part)?;
        let mut bytes = Vec::with_capacity((BLOCK + 1) * (scales.len() / part.step));
        for row in (0..experts * outputs).skip(part.first).step_by(part.step) {
            let row = row * count..(row + 1) * count;
            for (scale, block) in scales[row.clone()].iter().zip(blocks.chunks_exact(BLOCK).skip(row.start)) {
                bytes.push(*scale);
                bytes.extend(reordered(block));
            }
        }
        let all = 0..bytes.len();
        let name = format!("blk.{}.{}.weight", found.layer, part.name);
        model.tensor(&name, GgmlType::MXFP4, &[experts, n, 2 * BLOCK * count], &[(bytes.into(), all)])?;
    }
    Ok(())
}

/// A block's codes in GGUF's order: a byte holds neighbours here, but there a value of the first half and the
/// one 16 later.
fn reordered(block: &[u8]) -> impl Iterator<Item = u8> {
    let code = |at: usize| block[at / 2] >> (4 * (at % 2)) & 15;
    (0..BLOCK).map(move |at| code(at) | code(at + BLOCK) << 4)
}

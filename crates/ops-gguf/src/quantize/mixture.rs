//! Mixtures: the type of each tensor in a quantized file.
use crate::GgmlType;
use std::fmt;
use table::TABLE;

mod table;

/// The role of a tensor in a model, as far as mixtures distinguish roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The output matrix, or the embedding table if it serves as both.
    Output,
    Value,
    Key,
    /// Query, key and value in one matrix.
    Fused,
    AttentionOutput,
    /// The second matrix of a feed-forward block, including those of experts.
    Down,
    Other,
}

impl Role {
    fn of(name: &str, tied: bool) -> Self {
        let Some(stem) = name.strip_suffix(".weight") else { return Role::Other };
        match stem.rsplit('.').next().unwrap_or(stem) {
            "output" if stem == "output" => Role::Output,
            "token_embd" if tied => Role::Output,
            "attn_v" => Role::Value,
            "attn_k" => Role::Key,
            "attn_qkv" => Role::Fused,
            "attn_output" => Role::AttentionOutput,
            part if part.starts_with("ffn_down") => Role::Down,
            _ => Role::Other,
        }
    }
}

/// The layers and models that a rule applies to.
#[derive(Clone, Copy, Debug)]
enum When {
    Always,
    /// The first layers, this many.
    First(usize),
    /// The first layers, one in this many of all.
    FirstPart(usize),
    /// The first and the last eighth, and every third layer in between.
    Spread,
    /// At least this many query heads per key head.
    Grouped(usize),
    /// Models with eight experts, whose attention is small in comparison.
    EightExperts,
}

/// The properties of a model that the rules need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    pub(super) layers: usize,
    pub(super) experts: usize,
    /// Query heads per key head.
    pub(super) group: usize,
    /// Whether the embedding table is also the output matrix.
    pub(super) tied: bool,
}

impl When {
    fn holds(self, layer: usize, model: &Model) -> bool {
        let eighth = model.layers / 8;
        match self {
            When::Always => true,
            When::First(n) => layer < n,
            When::FirstPart(n) => layer < model.layers / n,
            When::Spread => layer < eighth || layer >= 7 * model.layers / 8 || (layer - eighth) % 3 == 2,
            When::Grouped(n) => model.group >= n,
            When::EightExperts => model.experts == 8,
        }
    }
}

/// A named choice of types for the tensors of a file, identical to llama.cpp's.
///
/// A mixture has one type for most matrices, and more bits for those that are most sensitive: the output
/// matrix, values, and some layers of the second feed-forward matrix. [`Mixture::all`] lists them.
///
/// ```
/// use rocm_ops::gguf::Mixture;
///
/// let mixture = Mixture::from_name("q4_k_m").unwrap();
/// assert_eq!(mixture.name(), "q4_k_m");
/// assert!(Mixture::from_name("q9").is_none());
/// ```
#[derive(Clone, Copy)]
pub struct Mixture(&'static Row);

struct Row {
    name: &'static str,
    /// The number in `general.file_type`.
    file_type: u32,
    base: GgmlType,
    /// The first rule that applies decides.
    rules: &'static [(Role, When, GgmlType)],
}

impl Mixture {
    /// The mixture with this name, such as `q4_k_m`, in upper or lower case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|mixture| mixture.0.name.eq_ignore_ascii_case(name))
    }

    /// All mixtures.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(Mixture)
    }

    /// The name, in lower case.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The number of this mixture in `general.file_type`.
    pub fn file_type(self) -> u32 {
        self.0.file_type
    }

    /// The type for a tensor with these extents; `None` if it keeps its type.
    pub(super) fn choose(self, name: &str, dims: &[usize], model: &Model) -> Option<GgmlType> {
        if !is_matrix(name, dims) {
            return None;
        }
        let (role, layer) = (Role::of(name, model.tied), layer_of(name));
        let rule = self.0.rules.iter().find(|(r, when, _)| *r == role && when.holds(layer, model));
        let wanted = rule.map_or(self.0.base, |(_, _, ty)| *ty);
        Some(that_divides(wanted, dims[dims.len() - 1]))
    }
}

impl fmt::Debug for Mixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

/// Whether a tensor is a weight matrix. Vectors, norms, routers, position tables and short convolutions are
/// not: they are small, and errors in them spread.
fn is_matrix(name: &str, dims: &[usize]) -> bool {
    const KEPT: [&str; 6] =
        ["_norm.", "ffn_gate_inp", "position_embd.", "token_types.", "ssm_conv1d.", "rope_f"];
    dims.len() >= 2 && name.ends_with(".weight") && !KEPT.iter().any(|part| name.contains(part))
}

/// The layer in `blk.N.`; 0 outside of layers.
fn layer_of(name: &str) -> usize {
    let number = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next());
    number.and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// The first of `ty`, a format with blocks of 32, and f16 whose blocks divide a row.
fn that_divides(ty: GgmlType, row: usize) -> GgmlType {
    let divides = |ty: GgmlType| ty.block().is_some_and(|block| row.is_multiple_of(block.len));
    let short = match ty {
        GgmlType::Q2_K | GgmlType::Q3_K | GgmlType::IQ4_XS => GgmlType::IQ4_NL,
        GgmlType::Q4_K => GgmlType::Q5_0,
        GgmlType::Q5_K => GgmlType::Q5_1,
        GgmlType::Q6_K => GgmlType::Q8_0,
        other => other,
    };
    [ty, short].into_iter().find(|ty| divides(*ty)).unwrap_or(GgmlType::F16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use GgmlType as T;

    const MODEL: Model = Model { layers: 32, experts: 0, group: 4, tied: false };

    fn choose(mixture: &str, name: &str, model: &Model) -> Option<GgmlType> {
        Mixture::from_name(mixture).unwrap().choose(name, &[4096, 4096], model)
    }

    #[test]
    fn names_and_numbers_are_unique() {
        for (i, a) in TABLE.iter().enumerate() {
            assert!(
                TABLE[i + 1..].iter().all(|b| a.name != b.name && a.file_type != b.file_type),
                "{}",
                a.name
            );
        }
    }

    #[test]
    fn q4_k_m_of_a_llama() {
        let layers_of_six_bits: Vec<usize> = (0..32)
            .filter(|i| choose("q4_k_m", &format!("blk.{i}.ffn_down.weight"), &MODEL) == Some(T::Q6_K))
            .collect();
        assert_eq!(layers_of_six_bits, [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]);
        let chosen = |name: &str| choose("q4_k_m", name, &MODEL);
        assert_eq!(chosen("output.weight"), Some(T::Q6_K));
        assert_eq!(chosen("token_embd.weight"), Some(T::Q4_K));
        assert_eq!(chosen("blk.6.attn_v.weight"), Some(T::Q6_K));
        assert_eq!(chosen("blk.7.attn_v.weight"), Some(T::Q4_K));
        assert_eq!(chosen("blk.7.attn_output.weight"), Some(T::Q4_K));
        assert_eq!(choose("q4_k_m", "token_embd.weight", &Model { tied: true, ..MODEL }), Some(T::Q6_K));
    }

    #[test]
    fn what_is_no_matrix_keeps_its_type() {
        for name in [
            "blk.0.attn_norm.weight",
            "blk.0.ffn_gate_inp.weight",
            "blk.0.ssm_conv1d.weight",
            "blk.0.attn_q.bias",
            "rope_freqs.weight",
        ] {
            assert_eq!(choose("q4_k_m", name, &MODEL), None, "{name}");
        }
        assert_eq!(Mixture::from_name("q8_0").unwrap().choose("output_norm.weight", &[64], &MODEL), None);
    }

    #[test]
    fn rows_that_blocks_do_not_divide_take_shorter_blocks() {
        let choose = |mixture, k| Mixture::from_name(mixture).unwrap().choose("a.weight", &[8, k], &MODEL);
        for (mixture, at_32, otherwise) in [
            ("q2_k", T::IQ4_NL, T::F16),
            ("q4_k_m", T::Q5_0, T::F16),
            ("q5_k_m", T::Q5_1, T::F16),
            ("q6_k", T::Q8_0, T::F16),
            ("q8_0", T::Q8_0, T::F16),
        ] {
            assert_eq!(
                (choose(mixture, 96), choose(mixture, 100)),
                (Some(at_32), Some(otherwise)),
                "{mixture}"
            );
        }
    }

    #[test]
    fn attention_beside_eight_experts_has_eight_bits() {
        let model = Model { experts: 8, ..MODEL };
        assert_eq!(choose("q4_k_m", "blk.9.attn_k.weight", &model), Some(T::Q8_0));
        assert_eq!(choose("q4_k_m", "blk.9.attn_output.weight", &model), Some(T::Q5_K));
        assert_eq!(choose("q4_k_m", "blk.4.ffn_down_exps.weight", &model), Some(T::Q4_K));
    }
}

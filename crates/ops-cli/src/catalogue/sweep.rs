//! The shapes and types that ops are timed on.
use super::{Entry, Group, Sweep, Types};
use ops_core::DType;
use std::collections::BTreeMap;

/// The shapes of one benchmark case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shapes {
    /// Shapes by operand; those of the other operands follow.
    pub(crate) given: BTreeMap<String, Vec<usize>>,
    /// Whether attention is causal.
    pub(crate) causal: bool,
}

/// Which fixed shapes products and attention are timed on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fixed {
    /// Shapes as in models.
    Usual,
    /// Small shapes.
    Small,
    /// No fixed shapes: sizes apply to all ops. Matrices are square, and attention decodes one token.
    None,
}

/// Features of a layer, as in models with seven billion weights.
const FEATURES: usize = 4096;
/// Tokens of a vocabulary.
const VOCABULARY: usize = 1 << 17;

impl Entry {
    /// A small valid shape of the first operand in these types.
    pub(crate) fn small(&self, types: &Types) -> Vec<usize> {
        match self.sweep {
            Sweep::Rows | Sweep::Matrices => vec![4, self.block_values(types).max(64)],
            Sweep::Heads | Sweep::TokensHeads | Sweep::Attention => vec![1, 2, 4, 64],
            Sweep::Cached => vec![4, 2, 64],
            Sweep::Channels => vec![2, 64, 4],
            Sweep::Ragged => vec![4, 2, 64],
            Sweep::Planes => vec![2, 8, 6, 6],
            Sweep::Images => self.image(4, 9),
            Sweep::Blocks => vec![4, 2],
            Sweep::Experts => vec![4, self.choices(), self.block_values(types).max(64)],
            Sweep::Logits => vec![4, 16],
            Sweep::Vocabulary => vec![4, 64],
        }
    }

    /// The shapes to time: one per size, in bytes of a tensor in the type that the op runs in. Products and
    /// attention use the `fixed` shapes instead.
    pub(crate) fn shapes(&self, types: &Types, sizes: &[usize], fixed: Fixed) -> Vec<Shapes> {
        let first =
            |dims: Vec<usize>| Shapes { given: BTreeMap::from([(self.first().into(), dims)]), causal: false };
        let decode = |keys: usize| {
            let mut decode = first(vec![1, 32, 1, 128]);
            decode.given.insert("k".into(), vec![1, 8, keys, 128]);
            decode
        };
        match (self.sweep, fixed) {
            (Sweep::Matrices, Fixed::Small) => {
                vec![first(vec![64, self.block_values(types).max(64)]), first(vec![1, FEATURES])]
            }
            (Sweep::Matrices, Fixed::Usual) => {
                let rows = [1, 8, 512].map(|m| first(vec![m, FEATURES]));
                rows.into_iter().chain([first(vec![64, self.block_values(types).max(64)])]).collect()
            }
            (Sweep::Attention, Fixed::None) => {
                let keys = |size: &usize| size / types.runs_in.size() / (8 * 128);
                sizes.iter().map(|size| decode(keys(size).max(1))).collect()
            }
            (Sweep::Attention, _) => {
                let tokens = if fixed == Fixed::Small { 64 } else { 512 };
                vec![Shapes { causal: true, ..first(vec![1, 32, tokens, 128]) }, decode(FEATURES)]
            }
            (Sweep::Ragged, Fixed::None) => {
                let keys = |size: &usize| size / types.runs_in.size() / (8 * 128);
                sizes.iter().map(|size| self.sequence(1, keys(size).max(1), 8)).collect()
            }
            (Sweep::Ragged, _) => {
                let tokens = if fixed == Fixed::Small { 64 } else { 512 };
                let prefill = Shapes { causal: true, ..self.sequence(tokens, tokens, 32) };
                vec![prefill, self.sequence(1, FEATURES, 8)]
            }
            (Sweep::Experts, Fixed::Usual) if self.operand_named("ids") => {
                [1, 32, 1024].map(|tokens| self.routed(types, tokens)).into()
            }
            _ => sizes.iter().map(|size| first(self.sized(types, *size))).collect(),
        }
    }

    /// One sequence of 32 heads.
    fn sequence(&self, tokens: usize, keys: usize, kv_heads: usize) -> Shapes {
        const BLOCK: usize = 16;
        let blocks = keys.div_ceil(BLOCK);
        let mut given = BTreeMap::from([("q".to_owned(), vec![tokens, 32, 128])]);
        if self.operand_named("block_table") {
            given.insert("k".into(), vec![blocks, BLOCK, kv_heads, 128]);
            given.insert("block_table".into(), vec![1, blocks]);
        } else {
            given.insert("k".into(), vec![keys, kv_heads, 128]);
        }
        Shapes { given, causal: false }
    }

    /// The first product of a layer with 64 experts, eight per token; or the last one, if the op adds the results of experts.
    fn routed(&self, types: &Types, tokens: usize) -> Shapes {
        let is_last = self.operand_named("weights");
        let (choices, [d, o]) = if is_last { (8, [768, 2048]) } else { (1, [2048, 768]) };
        let weight = vec![64, o, d / self.block_values(types)];
        let name = if self.operand_named("gate") { "gate" } else { "weight" };
        let given = [("x", vec![tokens, choices, d]), (name, weight), ("ids", vec![tokens, 8])];
        Shapes { given: given.map(|(name, dims)| (name.to_owned(), dims)).into(), causal: false }
    }

    fn operand_named(&self, name: &str) -> bool {
        self.contract.inputs().any(|operand| operand.name == name)
    }

    /// Number of values in a block of the operand that consists of blocks; 1 if there is none.
    fn block_values(&self, types: &Types) -> usize {
        self.block_operand().map_or(1, |o| types.get(self, o.name).values())
    }

    /// The extents of the first operand at a size in bytes.
    fn sized(&self, types: &Types, size: usize) -> Vec<usize> {
        let (values, block) = ((size / types.runs_in.size()).max(2), self.block_values(types));
        let over = |inner: usize| vec![values.div_ceil(inner.min(values)), inner.min(values)];
        let heads = |d: usize| {
            let rows = values.div_ceil(d).max(1);
            let heads = rows.min(32);
            (heads, rows.div_ceil(heads), d)
        };
        match self.sweep {
            Sweep::Heads => {
                let (h, t, d) = heads(128);
                vec![1, h, t, d]
            }
            Sweep::TokensHeads => {
                let (h, t, d) = heads(128);
                vec![1, t, h, d]
            }
            Sweep::Cached => vec![values.div_ceil(8 * 128), 8, 128],
            Sweep::Experts => {
                let d = values.min(2048).next_multiple_of(block.max(32));
                vec![values.div_ceil(d * self.choices()).max(1), self.choices(), d]
            }
            Sweep::Logits => over(128),
            Sweep::Vocabulary => over(VOCABULARY),
            // A row of the weight consists of whole blocks.
            Sweep::Matrices => {
                let side = values.isqrt().next_multiple_of(block.max(32));
                vec![side, side]
            }
            Sweep::Channels => vec![1, 64, values.div_ceil(64).max(1)],
            // Square planes with even extents.
            Sweep::Planes => {
                let side = (values / 64).isqrt().next_multiple_of(2).max(2);
                vec![1, values.div_ceil(side * side).max(1), side, side]
            }
            Sweep::Images => self.image(64, values.div_ceil(64).max(1)),
            Sweep::Blocks => {
                let [rows, values] = over(FEATURES)[..] else { return Vec::new() };
                vec![rows, values.div_ceil(block).max(1)]
            }
            // Rows that are quantized must be whole blocks.
            _ if self.typed.iter().any(|o| o.group == Group::Blocks) => {
                let rows = over(FEATURES);
                vec![rows[0], rows[1].next_multiple_of(block)]
            }
            _ => over(FEATURES),
        }
    }

    /// Rows per token: one for each of its experts if they are summed, otherwise the one that all experts
    /// get.
    fn choices(&self) -> usize {
        if self.name == "combine_experts" { 8 } else { 1 }
    }

    /// An image of `channels` channels of about `pixels` pixels, in as many axes as the op has.
    fn image(&self, channels: usize, pixels: usize) -> Vec<usize> {
        match self.name.ends_with("2d") {
            true => vec![1, channels, pixels.isqrt().max(1), pixels.div_ceil(pixels.isqrt().max(1))],
            false => vec![1, channels, pixels],
        }
    }

    /// The types that are timed by default.
    pub(crate) fn timed_types(&self) -> Vec<Types> {
        let named = |text: &str| Types::parse(self, &[text.to_owned()]).ok();
        let texts: &[&str] = match self.name {
            "matmul" | "attention" => &["f32", "f16", "bf16"],
            "linear" => &["f32", "f16", "bf16", "f32,weight=f16"],
            "linear_experts" => &["f32", "f16"],
            "cast" => &["f32,y=f16", "f32,y=bf16", "f16,y=f32", "bf16,y=f32"],
            // The type of logits in models. With f32, logits may be so close that their scores are equal on one backend but not on another.
            "router_topk" => &["bf16"],
            _ if self.block_operand().is_some() => &["q8_0", "q4_0", "q4_k", "q6_k"],
            _ => &["f32"],
        };
        texts.iter().filter_map(|text| named(text)).collect()
    }

    /// The types to time if only the element types `wanted` were requested. For each of them: the defaults
    /// that run in it or have blocks of it, or otherwise the op in that type.
    pub(crate) fn timed_types_in(&self, wanted: &[DType]) -> Vec<Types> {
        let mut found = Vec::new();
        for dtype in wanted {
            let usual = self.timed_types().into_iter();
            let of = |types: &Types| {
                let block = self.block_operand().is_some_and(|o| types.get(self, o.name) == *dtype);
                types.runs_in == *dtype || block
            };
            let mut matching: Vec<_> = usual.filter(of).collect();
            if matching.is_empty() {
                matching.extend(Types::of(self, *dtype).ok());
            }
            found.extend(matching.into_iter().filter(|types| !found.contains(types)).collect::<Vec<_>>());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::Fixed;

    #[test]
    fn sizes_are_met() {
        let add = crate::catalogue::find("add").unwrap();
        let types = &add.timed_types()[0];
        let shapes = add.shapes(types, &[1 << 10, 1 << 26], Fixed::Usual);
        assert_eq!(shapes[0].given["a"], [1, 256]);
        assert_eq!(shapes[1].given["a"], [4096, 4096]);
    }
}

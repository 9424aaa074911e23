//! StarCoder 2: layer norms, biases everywhere, gelu without a gate. Lozhkov et al., 2024.
use super::Family;
use crate::folder::options::Options;
use crate::folder::parts::{COMMON, Folder, Keys, Split, Windows};
use crate::{Activation, NormKind, Result};

pub(super) const FAMILY: Family = Family {
    name: "starcoder2",
    folders: &[Folder {
        model_type: "starcoder2",
        title: "StarCoder 2",
        example: "bigcode/starcoder2-7b",
        eps: "norm_epsilon",
        activation: "gelu_pytorch_tanh",
        windows: Windows::All,
        tied: true,
        translate,
        ..COMMON
    }],
    adjust: |_, config| {
        config.norm = NormKind::Layer;
        config.activation = Activation::Gelu;
        Ok(())
    },
    generates: true,
    lost_window: |_, _| Some("StarCoder 2"),
};

fn translate(options: &Options, _: &mut Keys) -> Result<Split> {
    options.only("norm_type", "layer_norm", |value| value.as_str() == Some("layer_norm"))?;
    options.only("mlp_type", "default", |value| value.as_str() == Some("default"))?;
    // Left over from the model's training: `transformers` reads `hidden_act`.
    options.only("activation_function", "gelu", |value| value.as_str() == Some("gelu"))?;
    options.only("scale_attn_weights", "true", |value| value.as_bool() == Some(true))?;
    Ok(Split::None)
}

//! The block of Qwen's models that predicts the token after the next one, compared with `transformers` in float64.
use super::folders::{Copy, folder};
use ops_tests::families;
use ops_tests::largest;
use ops_tests::rewritten::{stored, written};
use rocm_ops::gguf::{GgmlType, Gguf};
use rocm_ops::model::Transformer;
use rocm_ops::models::{self, Config, Decoder};
use rocm_ops::{Checked, Cpu, Reference};
use serde_json::{Value, json};

fn load<B: Transformer<f32>>(b: &B, model: &Gguf) -> Result<Decoder<f32, B>, String> {
    let config = Config::new(model.metadata()).unwrap().with_further(true);
    Decoder::load_with(b, model, config, 64, &mut |_, _| ()).map_err(|e| e.to_string())
}

fn file() -> Gguf {
    Gguf::open(format!("{}/qwen3_5_mtp-f16.gguf", families::folder())).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// Each prompt as a whole, and token by token.
fn check<B: Transformer<f32>>(b: &B, model: &Gguf, prompts: usize, bound: f64) {
    let text = std::fs::read_to_string(format!("{}/qwen3_5_mtp-f16.json", families::folder())).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let decoder = load(b, model).unwrap();
    for i in 0..prompts {
        let (prompt, top1) = (ids(&expected["prompts"][i]), ids(&expected["mtp"]["top1"][i]));
        let hidden = decoder.forward_hidden(b, &mut decoder.state(b, 64).unwrap(), &prompt).unwrap();
        let all = decoder.logits_of(b, hidden.as_ref()).unwrap();
        let own: Vec<u32> = all.chunks(decoder.vocabulary()).map(largest).collect();
        assert_eq!(own, ids(&expected["top1"][i]), "the model itself");

        let (known, mut state) = (prompt.len() - 1, decoder.further_state(b, 64).unwrap());
        let rows = |at, n| hidden.as_ref().narrow(0, at, n).unwrap();
        let whole = decoder.further(b, &mut state, rows(0, known), &prompt[1..]).unwrap();
        let want = expected["mtp"]["last_logits"][i].as_array().unwrap();
        let want: Vec<f64> = want.iter().map(|logit| logit.as_f64().unwrap()).collect();
        let off: f64 = whole.iter().zip(&want).map(|(got, want)| (f64::from(*got) - want).powi(2)).sum();
        let nmse = off / want.iter().map(|want| want * want).sum::<f64>();
        assert!(nmse <= bound, "{} on {}", nmse, b.name());

        state.truncate(0).unwrap();
        for (at, want) in top1.iter().enumerate() {
            let logits = decoder.further(b, &mut state, rows(at, 1), &[prompt[at + 1]]).unwrap();
            assert_eq!(largest(&logits), *want, "position {at} on {}", b.name());
        }
        assert_eq!((state.len(), top1.len()), (known, known));
    }
}

#[test]
fn the_token_after_the_next_one_is_that_of_float64() {
    let model = models::open(folder("qwen3_5_mtp")).unwrap();
    check(&Cpu::new(), &model, 3, 1e-9);
    check(&Reference::new(), &model, 2, 1e-9);
    let checked = Checked::new(Cpu::new(), Reference::new());
    check(&checked, &model, 1, 1e-9);
    assert!(checked.calls() > 100);
}

/// In the file, the weights of the block's norms are rounded to f16 after 1 was added; the numbers are those of the folder.
#[test]
fn a_file_has_the_same_block() {
    check(&Cpu::new(), &file(), 3, 1e-6);
}

/// The other families, whose blocks have experts. No numbers of theirs exist, so the block is a copy of an attention layer that
/// reads the token alone or the hidden state alone.
#[test]
fn blocks_with_experts_read_both_inputs() {
    let cpu = Cpu::new();
    for (name, from) in [("qwen3next-f16", 2), ("qwen3_5_moe-f16", 1)] {
        let model = Gguf::open(format!("{}/{name}.gguf", families::folder())).unwrap();
        let plain = Decoder::<f32, Cpu>::load(&cpu, &model, 8).unwrap();
        let tokens = [5, 6, 7, 8];
        let want = plain.forward_all(&cpu, &mut plain.state(&cpu, 8).unwrap(), &tokens).unwrap();
        let mut seen = Vec::new();
        for reads_token in [true, false] {
            let decoder = load(&cpu, &with_block(&model, from, reads_token)).unwrap();
            let hidden = decoder.forward_hidden(&cpu, &mut decoder.state(&cpu, 8).unwrap(), &tokens).unwrap();
            assert_eq!(decoder.logits_of(&cpu, hidden.as_ref()).unwrap(), want, "{name}");
            let further = |at, next| {
                let mut state = decoder.further_state(&cpu, 8).unwrap();
                decoder.further(&cpu, &mut state, hidden.as_ref().narrow(0, at, 1).unwrap(), &[next]).unwrap()
            };
            assert_eq!(further(1, 9) == further(1, 10), !reads_token, "{name}");
            assert_eq!(further(1, 9) == further(2, 9), reads_token, "{name}");
            seen.push(further(1, 9));
        }
        assert!(seen.iter().flatten().all(|logit| logit.is_finite()) && seen[0] != seen[1], "{name}");
    }
}

/// The model with a copy of layer `from` after its last one, as a block that reads one of its two inputs.
fn with_block(model: &Gguf, from: usize, reads_token: bool) -> Gguf {
    let config = Config::new(model.metadata()).unwrap();
    let (at, dim) = (config.layers, config.dim);
    let mut metadata = model.metadata().clone();
    metadata.set(format!("{}.block_count", config.architecture), at as u32 + 1).unwrap();
    metadata.set(format!("{}.nextn_predict_layers", config.architecture), 1_u32).unwrap();
    let prefix = format!("blk.{from}.");
    let mut all = stored(model);
    let copies = all.clone().into_iter().filter_map(|(name, ty, dims, bytes)| {
        Some((format!("blk.{at}.{}", name.strip_prefix(&prefix)?), ty, dims, bytes))
    });
    all.extend(copies);
    let floats = |floats: Vec<f32>| floats.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    for norm in ["enorm", "hnorm", "shared_head_norm"] {
        let name = format!("blk.{at}.nextn.{norm}.weight");
        all.push((name, GgmlType::F32, vec![dim], floats(vec![1.0; dim])));
    }
    let read = if reads_token { 0 } else { dim };
    let ones = (0..dim * 2 * dim).map(|i| f32::from(u8::from(i % (2 * dim) == i / (2 * dim) + read)));
    let name = format!("blk.{at}.nextn.eh_proj.weight");
    all.push((name, GgmlType::F32, vec![dim, 2 * dim], floats(ones.collect())));
    written(metadata, &all)
}

/// The block's positions are those that are left after a truncation, and those before a failed step.
#[test]
fn positions_can_be_removed() {
    let cpu = Cpu::new();
    let decoder = load(&cpu, &file()).unwrap();
    let hidden = decoder.forward_hidden(&cpu, &mut decoder.state(&cpu, 8).unwrap(), &[5, 6, 7, 8]).unwrap();
    let rows = |at, n| hidden.as_ref().narrow(0, at, n).unwrap();
    let mut state = decoder.further_state(&cpu, 4).unwrap();
    decoder.further(&cpu, &mut state, rows(0, 2), &[6, 7]).unwrap();
    let want = decoder.further(&cpu, &mut state, rows(2, 2), &[8, 9]).unwrap();
    state.truncate(2).unwrap();
    for (n, next) in [(2, &[8][..]), (2, &[8, 9, 10]), (2, &[]), (2, &[8, 1 << 20])] {
        assert!(decoder.further(&cpu, &mut state, rows(2, n), next).is_err(), "{next:?}");
        assert_eq!(state.len(), 2);
    }
    assert_eq!(decoder.further(&cpu, &mut state, rows(2, 2), &[8, 9]).unwrap(), want);
    let full = decoder.further(&cpu, &mut state, rows(3, 1), &[1]).unwrap_err().to_string();
    assert!(full.contains("a step of 1 tokens after 4"), "{full}");
}

/// Without the request, the block is passed over; with it, a model must have one, and all that it needs.
#[test]
fn a_block_is_loaded_only_if_asked_for() {
    let cpu = Cpu::new();
    let without = Decoder::<f32, Cpu>::load(&cpu, &file(), 8).unwrap();
    let error = without.further_state(&cpu, 8).err().unwrap().to_string();
    assert!(error.contains("qwen35.nextn_predict_layers") && error.contains("with_further"), "{error}");
    for name in ["qwen3_5-f16", "qwen3-f16"] {
        let model = Gguf::open(format!("{}/{name}.gguf", families::folder())).unwrap();
        let error = load(&cpu, &model).err().unwrap();
        assert!(error.contains("nextn_predict_layers`: got 0"), "{error}");
    }
    let open = |from: &str, to: &str| {
        let copy = Copy::new("qwen3_5_mtp", "renamed");
        super::folders::replace(&copy.0.join("model.safetensors"), from, to);
        models::open(&copy.0).unwrap()
    };
    for (from, to, named) in [
        ("mtp.fc.weight", "mtp.xx.weight", "tensor mtp.fc.weight"),
        ("mtp.layers.0.mlp.up_proj", "mtp.layers.0.mlp.zz_proj", "tensor mtp.layers.0.mlp.up_proj.weight"),
        (
            "mtp.layers.0.self_attn.q_norm",
            "mtp.layers.0.self_attn.z_norm",
            "tensor mtp.layers.0.self_attn.z_norm",
        ),
        ("mtp.layers.0.mlp.up_proj", "mtp.layers.1.mlp.up_proj", "nextn_predict_layers"),
    ] {
        let model = open(from, to);
        Decoder::<f32, Cpu>::load(&cpu, &model, 8).unwrap();
        let error = load(&cpu, &model).err().unwrap();
        assert!(error.contains(named), "{error}");
    }
    // Options about the block do not matter.
    let copy = Copy::changed("qwen3_5_mtp", "mtp_num_hidden_layers", json!(null));
    check(&cpu, &models::open(&copy.0).unwrap(), 1, 1e-9);
}

//! Encoders of every kind, in GGUF files and folders.
use crate::folders::copy_all;
use ops_tests::encoders::{check_file, file, files, ids, largest_difference, numbers};
use rocm_ops::gguf::{GgmlType, Gguf};
use rocm_ops::models::{self, Decoder, Encoder, EncoderConfig, Pooling};
use rocm_ops::{Cpu, Reference};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

#[test]
fn every_kind_of_encoder_gives_the_vectors_of_float64_on_the_cpu() {
    files().iter().for_each(|name| check_file(&Cpu::new(), name, &models::open(file(name)).unwrap()));
}

#[test]
fn every_kind_of_encoder_gives_the_vectors_of_float64_on_the_reference() {
    files().iter().for_each(|name| check_file(&Reference::new(), name, &models::open(file(name)).unwrap()));
}

/// The texts of the files, through the tokenizers in them.
#[test]
fn every_kind_of_encoder_reads_texts() {
    let cpu = Cpu::new();
    let mut seen = 0;
    for name in &files() {
        let (model, numbers) = (models::open(file(name)).unwrap(), numbers(name));
        let (tokenizer, encoder) =
            (model.tokenizer().unwrap(), Encoder::<f32, Cpu>::load(&cpu, &model).unwrap());
        for (i, pair) in numbers["tokenizer"].as_array().unwrap().iter().enumerate() {
            let text = pair[0].as_str().unwrap();
            let got = tokenizer.encode(text).unwrap();
            let want = ids(&pair[1]);
            if numbers["of_texts"].is_null() {
                // The keys of one file ask for an end token, which its tokenizer.json does not add.
                let end = &got[want.len().min(got.len())..];
                assert!(
                    got.starts_with(&want) && [&[][..], &[316]].contains(&end),
                    "{name}: {text:?}: {got:?}"
                );
                continue;
            }
            assert_eq!(got, want, "{name}: {text:?}");
            let off = largest_difference(&encoder.embed(&cpu, &[&got]).unwrap()[0], &numbers["of_texts"][i]);
            assert!(off <= 2e-5, "{name}: {text:?}: {off}");
            seen += 1;
        }
    }
    assert!(seen >= 20, "{seen} texts");
}

#[test]
fn files_say_how_tokens_become_a_vector() {
    for name in &files() {
        let config = EncoderConfig::new(models::open(file(name)).unwrap().metadata()).unwrap();
        let want = match numbers(name)["pooling"].as_str().unwrap() {
            "mean" => Pooling::Mean,
            "cls" => Pooling::First,
            _ => Pooling::Last,
        };
        assert_eq!((config.pooling, config.normalize), (want, true), "{name}");
    }
}

/// A copy of one of the folders.
fn copy(name: &str) -> TempDir {
    let to = tempfile::tempdir().unwrap();
    copy_all(Path::new(&file(name)), to.path());
    to
}

/// Changes an option of a copy.
fn change(folder: &Path, option: &str, value: Value) {
    let path = folder.join("config.json");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    config[option] = value;
    std::fs::write(path, config.to_string()).unwrap();
}

fn refused(model: models::Result<Gguf>) -> String {
    match model {
        Err(error) => error.to_string(),
        Ok(model) => Encoder::<f32, Cpu>::load(&Cpu::new(), &model).err().expect("refused").to_string(),
    }
}

#[test]
fn options_that_are_not_understood_are_errors_that_name_them() {
    for (name, option, value) in [
        ("nomic_bert", "activation_function", json!("gelu")),
        ("nomic_bert", "hidden_act", json!("gelu")),
        ("nomic_bert", "rotary_emb_base", json!(10000)),
        ("nomic_bert", "rotary_emb_fraction", json!(0.5)),
        ("nomic_bert", "rotary_scaling_factor", json!(2)),
        ("nomic_bert", "causal", json!(true)),
        ("nomic_bert", "prenorm", json!(true)),
        ("nomic_bert", "num_experts", json!(8)),
        ("nomic_bert", "head_dim", json!(16)),
        ("nomic_bert", "architectures", json!(["NomicBertForSequenceClassification"])),
        ("modernbert", "hidden_activation", json!("relu")),
        ("modernbert", "local_rope_theta", json!(20000)),
        ("modernbert", "layer_types", json!(["sliding_attention", "full_attention"])),
        ("modernbert", "bias_of_mine", json!(true)),
        ("jina_v3", "position_embedding_type", json!("absolute")),
        ("jina_v3", "lora_adaptations", json!(["retrieval.query"])),
        ("jina_v3", "hidden_act", json!("silu")),
        ("embeddinggemma", "use_bidirectional_attention", json!("vision")),
        ("qwen3_embedding", "use_sliding_window", json!(true)),
        ("qwen3_embedding", "architectures", json!(["Qwen3ForSequenceClassification"])),
    ] {
        let copy = copy(name);
        change(copy.path(), option, value);
        let message = refused(models::open(copy.path()));
        assert!(message.contains(option), "{name}, {option}: {message}");
    }
}

/// A GGUF file with another value of a key.
fn with(name: &str, key: &str, value: rocm_ops::gguf::Value) -> Gguf {
    use rocm_ops::gguf::Writer;
    let model = models::open(file(name)).unwrap();
    let mut metadata = model.metadata().clone();
    metadata.set(key, value).unwrap();
    let mut writer = Writer::with_metadata(metadata);
    for tensor in model.tensors() {
        writer.tensor(tensor.name(), tensor.ggml_type(), tensor.dims()).unwrap();
    }
    let mut body = writer.write_to(Vec::new()).unwrap();
    for tensor in model.tensors() {
        body.write(tensor.name(), tensor.bytes().unwrap()).unwrap();
    }
    Gguf::from_bytes(body.finish().unwrap()).unwrap()
}

#[test]
fn keys_that_are_not_understood_are_errors_that_name_them() {
    for (name, key, value) in [
        ("nomic_bert-f16.gguf", "nomic-bert.expert_count", 8_u32.into()),
        ("nomic_bert-f16.gguf", "nomic-bert.attention.key_length", 8_u32.into()),
        ("nomic_bert-f16.gguf", "nomic-bert.pooling_type", 4_u32.into()),
        ("nomic_bert-f16.gguf", "nomic-bert.attention.causal", true.into()),
        ("modernbert-f16.gguf", "modern-bert.rope.scaling.type", "yarn".into()),
        ("modernbert-f16.gguf", "modern-bert.hidden_activation", "silu".into()),
        ("xlm_roberta-f16.gguf", "bert.rope.freq_base", 1e4_f32.into()),
        ("qwen3_embedding-f16.gguf", "qwen3.pooling_type", 4_u32.into()),
        ("embeddinggemma-f16.gguf", "gemma-embedding.attn_logit_softcapping", 50_f32.into()),
    ] {
        let message = refused(Ok(with(name, key, value)));
        assert!(message.contains(key), "{name}, {key}: {message}");
    }
}

#[test]
fn an_encoder_with_the_layers_of_a_decoder_does_not_generate() {
    for name in ["embeddinggemma-f16.gguf", "embeddinggemma"] {
        let model = models::open(file(name)).unwrap();
        let message = Decoder::<f32, Cpu>::load(&Cpu::new(), &model, 16).err().expect("refused").to_string();
        assert!(message.contains("this is an encoder"), "{name}: {message}");
    }
    // This one does, with a warning.
    let model = models::open(file("qwen3_embedding")).unwrap();
    assert!(models::warnings(&model).iter().any(|warning| warning.contains("embedding model")));
    Decoder::<f32, Cpu>::load(&Cpu::new(), &model, 16).unwrap();
}

/// A safetensors file with these tensors.
fn safetensors(tensors: &[(String, &str, Vec<usize>, Vec<u8>)]) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, dtype, shape, bytes) in tensors {
        let range = [data.len(), data.len() + bytes.len()];
        header.insert(name.clone(), json!({"dtype": dtype, "shape": shape, "data_offsets": range}));
        data.extend(bytes);
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

/// The file of XLM-RoBERTa as a folder.
#[test]
fn a_folder_of_xlm_roberta_has_rows_for_padding() {
    let (folder, model) = (copy("bert"), models::open(file("xlm_roberta-f16.gguf")).unwrap());
    for (option, value) in [
        ("model_type", json!("xlm-roberta")),
        ("architectures", json!(["XLMRobertaModel"])),
        ("layer_norm_eps", json!(1e-5)),
        ("pad_token_id", json!(1)),
        ("max_position_embeddings", json!(66)),
        ("type_vocab_size", json!(1)),
        ("vocab_size", json!(160)),
    ] {
        change(folder.path(), option, value);
    }
    let theirs = |name: &str| {
        let parts = [
            ("blk.", "encoder.layer."),
            ("token_embd_norm", "embeddings.LayerNorm"),
            ("token_embd", "embeddings.word_embeddings"),
            ("position_embd", "embeddings.position_embeddings"),
            ("token_types", "embeddings.token_type_embeddings"),
            ("attn_output_norm", "attention.output.LayerNorm"),
            ("attn_output", "attention.output.dense"),
            ("attn_q", "attention.self.query"),
            ("attn_k", "attention.self.key"),
            ("attn_v", "attention.self.value"),
            ("layer_output_norm", "output.LayerNorm"),
            ("ffn_up", "intermediate.dense"),
            ("ffn_down", "output.dense"),
        ];
        // What a later pair would find in an earlier one's result is kept from it.
        let found = parts[1..].iter().find(|(ours, _)| name.contains(ours)).unwrap();
        name.replace(found.0, found.1).replace(parts[0].0, parts[0].1)
    };
    let tensors = model.tensors().map(|tensor| {
        let (mut dims, mut bytes) = (tensor.dims().to_vec(), tensor.bytes().unwrap().to_vec());
        if tensor.name() == "position_embd.weight" {
            // Other numbers than the file's, so that their use would show.
            bytes.splice(..0, vec![0x3f; bytes.len() / dims[0] * 2]);
            dims[0] += 2;
        }
        let dtype = if tensor.ggml_type() == GgmlType::F16 { "F16" } else { "F32" };
        (theirs(tensor.name()), dtype, dims, bytes)
    });
    let whole = safetensors(&tensors.collect::<Vec<_>>());
    std::fs::write(folder.path().join("model.safetensors"), whole).unwrap();
    check_file(&Cpu::new(), "xlm_roberta-f16.gguf", &models::open(folder.path()).unwrap());
    change(folder.path(), "pad_token_id", json!(0));
    let message = refused(models::open(folder.path()));
    assert!(message.contains("pad_token_id"), "{message}");
}

/// Matrices after pooling: one that doubles the first half of the numbers and leaves out the rest, and one that swaps pairs.
#[test]
fn matrices_after_pooling_are_applied() {
    let folder = copy("embeddinggemma");
    let module = |at: usize, name: &str, kind: &str| json!({"idx": at, "name": at.to_string(), "path": name, "type": format!("sentence_transformers.models.{kind}")});
    let modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"), ("3_Dense", "Dense")];
    let modules: Vec<Value> =
        modules.iter().enumerate().map(|(at, (path, kind))| module(at, path, kind)).collect();
    std::fs::write(folder.path().join("modules.json"), json!(modules).to_string()).unwrap();
    let dense =
        |name: &str, function: &str, [rows, columns]: [usize; 2], at: &dyn Fn(usize) -> (usize, f32)| {
            let own = folder.path().join(name);
            std::fs::create_dir_all(&own).unwrap();
            let options = json!({"in_features": columns, "out_features": rows, "bias": false,
            "activation_function": format!("torch.nn.modules.linear.{function}")});
            std::fs::write(own.join("config.json"), options.to_string()).unwrap();
            let mut matrix = vec![0_f32; rows * columns];
            (0..rows).for_each(|row| matrix[row * columns + at(row).0] = at(row).1);
            let bytes = matrix.iter().flat_map(|v| v.to_le_bytes()).collect();
            let whole = safetensors(&[("linear.weight".to_owned(), "F32", vec![rows, columns], bytes)]);
            std::fs::write(own.join("model.safetensors"), whole).unwrap();
        };
    dense("2_Dense", "Identity", [16, 32], &|row| (row, 2.0));
    dense("3_Dense", "Identity", [16, 16], &|row| (row ^ 1, 1.0));
    let (cpu, text) = (Cpu::new(), [2, 9, 8]);
    let embed = |path: &Path| {
        let model = models::open(path).unwrap();
        Encoder::<f32, Cpu>::load(&cpu, &model).unwrap().embed(&cpu, &[&text]).unwrap().remove(0)
    };
    let (got, plain) = (embed(folder.path()), embed(Path::new(&file("embeddinggemma"))));
    // The plain vector is normalised, the other is not.
    let scale = got[1] / plain[0];
    assert_eq!(got.len(), 16);
    (0..16).for_each(|i| assert!((got[i ^ 1] - scale * plain[i]).abs() < 1e-5 * scale.abs(), "{i}"));
    dense("3_Dense", "Tanh", [16, 16], &|row| (row, 1.0));
    let message = refused(models::open(folder.path()));
    assert!(message.contains("activation_function") && message.contains("Identity"), "{message}");
}

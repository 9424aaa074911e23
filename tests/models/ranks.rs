//! Models divided over the ranks of a group, in host memory.
mod faults;

use ops_tests::families::{all, folder};
use ops_tests::ranks::{self, PROMPT, error, load, logits};
use ops_tests::{expected, model};
use rocm_ops::gguf::Gguf;
use rocm_ops::model::Transformer;
use rocm_ops::models::{
    BatchEvent, BatchOptions, Config, Continuation, Decoder, GenerateOptions, Rank, Result, TextModel,
};
use rocm_ops::ops::Sample;
use rocm_ops::{Activations, Cpu, Determinism, Float, HostGroup, f16};

fn file(name: &str) -> Gguf {
    Gguf::open(format!("{}/{name}.gguf", folder())).unwrap()
}

/// Tokens are the same on every number of ranks only if rows do not depend on each other. Activations that are rounded to 8 bits are so only
/// for products of some size, which a rank's part of these small models does not have.
fn cpu(level: Determinism) -> Cpu {
    Cpu::builder().threads(1).determinism(level).activations(Activations::Exact).build().unwrap()
}

/// What `run` returns on each of `n` ranks.
fn each<R: Send>(
    n: usize,
    level: Determinism,
    run: impl Fn(&Rank<'_, Cpu>) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    ranks::each(HostGroup::of(vec![cpu(level); n]).unwrap(), level, run)
}

fn logits_of<T: Float>(gguf: &Gguf, n: usize, level: Determinism, more: usize) -> Vec<f32>
where
    Cpu: Transformer<T>,
{
    ranks::logits_of(HostGroup::of(vec![cpu(level); n]).unwrap(), gguf, level, |b, model: &Decoder<T, _>| {
        logits(b, model, more)
    })
}

#[test]
fn every_family_has_the_same_bits_on_1_2_4_and_8_ranks_at_batch() {
    for name in all() {
        let gguf = file(&name);
        let one = logits_of::<f32>(&gguf, 1, Determinism::Batch, 8);
        for n in [2, 4, 8] {
            assert!(logits_of::<f32>(&gguf, n, Determinism::Batch, 8) == one, "{name} on {n}");
        }
    }
    for name in ["llama-f16", "qwen3moe-f16", "qwen3_5-f16"] {
        let gguf = file(name);
        let one = logits_of::<f16>(&gguf, 1, Determinism::Batch, 8);
        assert!(logits_of::<f16>(&gguf, 4, Determinism::Batch, 8) == one, "{name} in f16");
    }
}

/// Also where heads, columns, experts and ids do not divide, and where a rank has none.
#[test]
fn every_family_is_close_to_the_whole_model() {
    for name in all() {
        let gguf = file(&name);
        let model = Decoder::<f32, _>::load(&cpu(Determinism::Run), &gguf, 64).unwrap();
        let whole = logits(&cpu(Determinism::Run), &model, 2).unwrap();
        let one = logits_of::<f32>(&gguf, 1, Determinism::Run, 2);
        assert!(one == whole, "{name}: one rank changes no bits");
        for n in [2, 3, 5, 8] {
            let error = error(&logits_of::<f32>(&gguf, n, Determinism::Run, 2), &whole);
            assert!(error < 1e-9, "{name} on {n}: {error}");
        }
    }
}

/// Activations are rounded here: the parts are large enough. In f16, the tokens are those of float64.
#[test]
fn tokens_of_the_bundled_model_are_the_same() {
    for dtype in ["f16", "q8_0"] {
        let (gguf, (prompt, tokens)) = (model(dtype), expected().swap_remove(0));
        let mut want = (dtype == "f16").then(|| tokens[..16].to_vec());
        for n in [1, 2, 4, 8] {
            let run = |rank: &Rank<'_, Cpu>| -> Result<Vec<u32>> {
                let cpu = Cpu::builder().threads(1).determinism(Determinism::Batch).build()?;
                let model = TextModel::new(load::<f32, _>(rank, &gguf)?, None);
                let options = GenerateOptions { max_tokens: 16, temperature: 0.0, ..Default::default() };
                model.generate(&cpu, &prompt, options)?.map(|token| Ok(token?.id)).collect()
            };
            for got in each(n, Determinism::Batch, run).unwrap() {
                assert_eq!(&got, want.get_or_insert(got.clone()), "{dtype} on {n}");
            }
        }
    }
}

/// The tokens of a batch whose texts draw in different ways, and run out of blocks.
fn batch(rank: &Rank<'_, Cpu>, gguf: &Gguf) -> Result<Vec<Vec<u32>>> {
    let model = TextModel::new(load::<f32, _>(rank, gguf)?, None);
    let size = BatchOptions { blocks: 12, block_size: 4, prefill: 5, ..Default::default() };
    let mut batch = model.batch(rank.backend(), size)?;
    let texts: [&[u32]; 4] = [&PROMPT, &PROMPT[..5], &[9], &[60, 61, 62]];
    for (i, ids) in texts.iter().enumerate() {
        let (temperature, seed) = ([0.0, 0.9][i % 2], i as u64);
        let repeat_penalty = [1.0, 1.2][i / 2];
        let options =
            GenerateOptions { max_tokens: 10, temperature, seed, repeat_penalty, ..Default::default() };
        batch.add(&ids.to_vec(), options)?;
    }
    let mut all = vec![Vec::new(); texts.len()];
    while !batch.is_idle() {
        for event in batch.step() {
            match event {
                BatchEvent::Token { text, token } => all[text - 1].push(token.id),
                BatchEvent::Finished { reason, .. } => _ = reason?,
                _ => {}
            }
        }
    }
    Ok(all)
}

#[test]
fn tokens_of_a_batch_are_the_same() {
    for name in ["llama-f16", "gemma3-f16", "qwen3moe-f16", "deepseek-v3-f16"] {
        let gguf = file(name);
        let of = |n| each(n, Determinism::Batch, |rank| batch(rank, &gguf)).unwrap();
        let one = of(1).remove(0);
        assert!(one.iter().all(|text| text.len() == 10), "{name}: {one:?}");
        for n in [2, 4] {
            assert!(of(n).iter().all(|got| *got == one), "{name} on {n}");
        }
    }
}

#[test]
fn texts_are_continued_and_predicted_further_on_ranks() {
    let gguf = file("qwen3_5_mtp-f16");
    let run = |rank: &Rank<'_, Cpu>| -> Result<(Vec<u32>, Vec<f32>)> {
        let (b, config) = (rank.backend(), Config::new(gguf.metadata())?.with_further(true));
        let model = Decoder::<f32, _>::load_share(b, &gguf, config, 32, rank.share(), &mut |_, _| ())?;
        let (mut state, mut further) = (model.state(b, 32)?, model.further_state(b, 32)?);
        let hidden = model.forward_hidden(b, &mut state, &PROMPT)?;
        let guess = model.further(b, &mut further, hidden.as_ref(), &[60, 7, 8, 200, 9, 33, 1])?;
        let mut pages = model.pages(b, 16, 4)?;
        let mut text = pages.blocks().sequence();
        model.forward_paged(b, &mut pages, &mut [(&mut text, &PROMPT)])?;
        let texts = vec![(&mut text, 1, 0)];
        let mut more = Continuation::new(b, &model, &mut pages, texts, Sample::temperature(0.7), 6)?;
        let ids = (0..6).map(|_| Ok(more.next_tokens()?[0]?)).collect::<Result<_>>()?;
        Ok((ids, guess))
    };
    let one = each(1, Determinism::Batch, run).unwrap().remove(0);
    for n in [2, 8] {
        assert!(each(n, Determinism::Batch, run).unwrap().iter().all(|got| *got == one), "on {n}");
    }
}

/// Every rank has embeddings, norms and routers, and nothing else is read twice.
#[test]
fn a_rank_reads_only_its_part() {
    for (name, repeated) in [("llama-f16", ""), ("qwen3moe-f16", "ffn_gate_inp"), ("qwen3next-f16", "_inp")] {
        let gguf = file(name);
        let read =
            |n| each(n, Determinism::Run, |rank| Ok(load::<f32, _>(rank, &gguf)?.bytes_read())).unwrap();
        let [two, whole] = [read(2), read(1)];
        let bytes = |tensor: &rocm_ops::gguf::Tensor<'_>| tensor.bytes().unwrap().len() as u64;
        let is_repeated = |tensor: &rocm_ops::gguf::Tensor<'_>| {
            let name = tensor.name();
            // Factors of frequencies only become part of the tables.
            if name == "rope_freqs.weight" {
                return false;
            }
            name == "token_embd.weight"
                || tensor.dims().len() == 1
                || (!repeated.is_empty() && name.contains(repeated))
        };
        let repeated: u64 = gguf.tensors().filter(is_repeated).map(|tensor| bytes(&tensor)).sum();
        assert!(2 * repeated < whole[0] || name == "llama-f16", "{name}: most of it is divided");
        assert_eq!(two.iter().sum::<u64>(), whole[0] + repeated, "{name}: {two:?} of {whole:?}");
        assert!(two[0].abs_diff(two[1]) < whole[0] / 50, "{name}: {two:?}");
    }
}

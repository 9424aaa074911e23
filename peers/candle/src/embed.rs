//! Times candle's BERT as an encoder of sentences: mean over the tokens, normalised.
use candle_core::{D, DType, Device, Error, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};
use serde::Deserialize;
use std::time::{Duration, Instant};

/// Time for one request.
const ROUND: Duration = Duration::from_secs(1);

/// What is to be embedded: batches of texts, as tokens.
#[derive(Deserialize)]
struct Request {
    folder: String,
    batches: Vec<Vec<Vec<u32>>>,
}

/// The fastest time for all batches of the request in a file, in microseconds.
pub fn embed(request: &str) -> Result<f64> {
    let request: Request = read(request)?;
    let config: Config = read(&format!("{}/config.json", request.folder))?;
    let weights = std::fs::read(format!("{}/model.safetensors", request.folder)).map_err(Error::wrap)?;
    let weights = VarBuilder::from_buffered_safetensors(weights, DType::F32, &Device::Cpu)?;
    let model = BertModel::load(weights, &config)?;
    let (begin, mut fastest, mut rounds) = (Instant::now(), f64::INFINITY, 0);
    while rounds < 3 || begin.elapsed() < ROUND {
        let start = Instant::now();
        for batch in &request.batches {
            std::hint::black_box(one(&model, batch)?);
        }
        fastest = fastest.min(start.elapsed().as_secs_f64() * 1e6);
        rounds += 1;
    }
    Ok(fastest)
}

fn read<T: serde::de::DeserializeOwned>(path: &str) -> Result<T> {
    serde_json::from_slice(&std::fs::read(path).map_err(Error::wrap)?).map_err(Error::wrap)
}

fn one(model: &BertModel, batch: &[Vec<u32>]) -> Result<Tensor> {
    let (count, width) = (batch.len(), batch.iter().map(Vec::len).max().unwrap_or(0));
    let row = |f: &dyn Fn(&[u32], usize) -> u32| -> Vec<u32> {
        batch.iter().flat_map(|ids| (0..width).map(|i| f(ids, i)).collect::<Vec<_>>()).collect()
    };
    let ids = Tensor::from_vec(row(&|ids, i| ids.get(i).copied().unwrap_or(0)), (count, width), &Device::Cpu)?;
    let mask = Tensor::from_vec(row(&|ids, i| u32::from(i < ids.len())), (count, width), &Device::Cpu)?;
    let hidden = model.forward(&ids, &ids.zeros_like()?, Some(&mask))?;
    let shares = mask.to_dtype(DType::F32)?.unsqueeze(D::Minus1)?;
    let mean = hidden.broadcast_mul(&shares)?.sum(1)?.broadcast_div(&shares.sum(1)?)?;
    mean.broadcast_div(&mean.sqr()?.sum_keepdim(D::Minus1)?.sqrt()?)
}

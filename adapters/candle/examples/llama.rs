//! A llama written on candle's tensors, with products and ops of rocm-ops: `llama MODEL.gguf PROMPT [TOKENS]`.
use candle_core::quantized::{QMatMul, QTensor};
use candle_core::{DType, Device, IndexOp, Module, Result, Tensor};
use rocm_ops::gguf::Gguf;
use rocm_ops::model::{RopeScaling, RopeTables};
use rocm_ops::ops::{Attention, RopeForm};
use rocm_ops_candle::{Computes, Extras, Ops, tensor};

struct Layer {
    attn_norm: Tensor,
    q: QMatMul,
    k: QMatMul,
    v: QMatMul,
    o: QMatMul,
    ffn_norm: Tensor,
    gate: QMatMul,
    up: QMatMul,
    down: QMatMul,
    /// `[tokens, heads, d]`
    keys: Tensor,
    values: Tensor,
}

/// The model and its cache of keys and values.
pub(crate) struct Llama<B> {
    ops: Ops<B>,
    table: QTensor,
    layers: Vec<Layer>,
    norm: Tensor,
    output: QMatMul,
    cos: Tensor,
    sin: Tensor,
    heads: usize,
    kv_heads: usize,
    d: usize,
    eps: f64,
}

/// An error of another library as candle's.
fn candle<T, E: std::error::Error + Send + Sync + 'static>(result: std::result::Result<T, E>) -> Result<T> {
    result.map_err(candle_core::Error::wrap)
}

impl<B: Computes> Llama<B> {
    /// Loads the model with room for `tokens`.
    pub(crate) fn load(gguf: &Gguf, backend: B, tokens: usize) -> Result<Self> {
        let metadata = gguf.metadata();
        let number = |key| candle(metadata.arch_u32(key)).map(|n| n as usize);
        let (width, heads) = (number("embedding_length")?, number("attention.head_count")?);
        let kv_heads = number("attention.head_count_kv")?;
        let d = number("attention.key_length").unwrap_or(width / heads);
        let base = candle(metadata.arch_find::<f32>("rope.freq_base"))?.unwrap_or(10000.0);
        // Llama 3 has factors for its frequencies.
        let factors = gguf.find("rope_freqs.weight").map(|x| candle(x.view::<f32>())).transpose()?;
        let scaling = factors.map_or(RopeScaling::None, |f| RopeScaling::Factors(f.into_owned()));
        let tables = candle(RopeTables::<f32>::new(tokens, d, f64::from(base), &scaling))?;
        let matrix = |name: &str| QMatMul::from_qtensor(tensor(gguf, name, &backend)?);
        let vector = |name: &str| tensor(gguf, name, &backend)?.dequantize(&Device::Cpu);
        let layer = |i: usize| {
            let matrix = |name: &str| matrix(&format!("blk.{i}.{name}.weight"));
            let cache = || Tensor::zeros((tokens, kv_heads, d), DType::F32, &Device::Cpu);
            Ok(Layer {
                attn_norm: vector(&format!("blk.{i}.attn_norm.weight"))?,
                q: matrix("attn_q")?,
                k: matrix("attn_k")?,
                v: matrix("attn_v")?,
                o: matrix("attn_output")?,
                ffn_norm: vector(&format!("blk.{i}.ffn_norm.weight"))?,
                gate: matrix("ffn_gate")?,
                up: matrix("ffn_up")?,
                down: matrix("ffn_down")?,
                keys: cache()?,
                values: cache()?,
            })
        };
        let tied = gguf.find("output.weight").is_none();
        Ok(Llama {
            layers: (0..number("block_count")?).map(layer).collect::<Result<_>>()?,
            table: tensor(gguf, "token_embd.weight", &backend)?,
            norm: vector("output_norm.weight")?,
            output: matrix(if tied { "token_embd.weight" } else { "output.weight" })?,
            cos: Tensor::from_vec(tables.cos, &tables.dims, &Device::Cpu)?,
            sin: Tensor::from_vec(tables.sin, &tables.dims, &Device::Cpu)?,
            eps: f64::from(candle(metadata.arch_f32("attention.layer_norm_rms_epsilon"))?),
            ops: Ops::new(backend),
            heads,
            kv_heads,
            d,
        })
    }

    /// The logits after `ids`, which follow `start` tokens.
    pub(crate) fn forward(&self, ids: &[u32], start: usize) -> Result<Tensor> {
        let slots = Tensor::arange(start as u32, (start + ids.len()) as u32, &Device::Cpu)?;
        let mut x = self.table.embedding(&Tensor::new(ids, &Device::Cpu)?)?;
        let mut h = match self.layers.first() {
            Some(layer) => self.ops.rms_norm(&x, &layer.attn_norm, self.eps)?,
            None => x.clone(),
        };
        for (i, layer) in self.layers.iter().enumerate() {
            let o = self.attend(layer, &h, &slots, start)?;
            (h, x) = self.ops.add_rms_norm(&layer.o.forward(&o)?, &x, &layer.ffn_norm, self.eps)?;
            let h2 = self.ops.swiglu(&layer.gate.forward(&h)?, &layer.up.forward(&h)?)?;
            let norm = self.layers.get(i + 1).map_or(&self.norm, |next| &next.attn_norm);
            (h, x) = self.ops.add_rms_norm(&layer.down.forward(&h2)?, &x, norm, self.eps)?;
        }
        self.output.forward(&h.i(ids.len() - 1..)?)?.squeeze(0)
    }

    /// Attention of the rows `h`; writes their keys and values to the cache.
    fn attend(&self, layer: &Layer, h: &Tensor, slots: &Tensor, start: usize) -> Result<Tensor> {
        let t = h.dim(0)?;
        // [1, heads, t, d], without a copy.
        let split = |x: Tensor, heads| x.reshape((1, t, heads, self.d))?.transpose(1, 2);
        let turn = |x: &Tensor| {
            let (cos, sin) = (self.cos.narrow(0, start, t)?, self.sin.narrow(0, start, t)?);
            self.ops.rope(x, &cos, &sin, RopeForm::Interleaved)
        };
        let q = turn(&split(layer.q.forward(h)?, self.heads)?)?;
        let k = turn(&split(layer.k.forward(h)?, self.kv_heads)?)?;
        self.ops.cache_write(&k.i(0)?.transpose(0, 1)?, slots, &layer.keys)?;
        let v = layer.v.forward(h)?.reshape((t, self.kv_heads, self.d))?;
        self.ops.cache_write(&v, slots, &layer.values)?;
        let seen = |cache: &Tensor| cache.narrow(0, 0, start + t)?.transpose(0, 1)?.unsqueeze(0);
        let (k, v) = (seen(&layer.keys)?, seen(&layer.values)?);
        let o = self.ops.attention(&q, &k, &v, Extras::default(), Attention::causal())?;
        o.transpose(1, 2)?.reshape((t, self.heads * self.d))
    }
}

#[allow(dead_code)]
fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: llama MODEL.gguf PROMPT [TOKENS]")?;
    let prompt = args.next().unwrap_or_default();
    let count = args.next().map_or(Ok(32), |n| n.parse::<usize>())?;
    let gguf = Gguf::open(path)?;
    let tokenizer = gguf.tokenizer()?;
    let mut ids = tokenizer.encode(&prompt)?;
    let model = Llama::load(&gguf, rocm_ops::Cpu::new(), ids.len() + count)?;
    let (mut text, mut start) = (Vec::new(), 0);
    while text.len() < count {
        text.push(model.forward(&ids, start)?.argmax(0)?.to_scalar()?);
        start += ids.len();
        ids = text[text.len() - 1..].to_vec();
    }
    println!("{prompt}{}", tokenizer.decode(&text)?);
    Ok(())
}

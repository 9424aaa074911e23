//! A model file, and the decoder or encoder in it.
use crate::decoder::{Decoder, Decodes};
use crate::encoder::{Embeds, Encoder};
use rocm_ops::gguf::{Gguf, Tokenizer};
use rocm_ops::model::Transformer;
use rocm_ops::models::{Error, OpenOptions, Result, TextModel, warnings};
use rocm_ops::{Cpu, DType, EitherHost, Float, Rocm, bf16, f16};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Where a model is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The processor.
    Cpu,
    /// The definition of each op: slow.
    Reference,
    /// An AMD GPU.
    Rocm,
}

/// How a model is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Where it is computed.
    pub backend: Backend,
    /// The element type of its activations: f32, f16 or bf16.
    pub dtype: DType,
    /// Most tokens of a text.
    pub context: usize,
}

/// A model, loaded when it is first used.
pub struct Model {
    gguf: Gguf,
    options: Options,
    tokenizer: Option<Tokenizer>,
    decoder: Mutex<Option<Arc<dyn Decodes>>>,
    encoder: Mutex<Option<Arc<dyn Embeds>>>,
}

impl Model {
    /// Opens a GGUF file or a Hugging Face folder.
    ///
    /// # Errors
    /// As [`rocm_ops::models::open`]; [`Error::Option`] for another element type.
    pub fn open(path: &Path, options: Options) -> Result<Self> {
        if !matches!(options.dtype, DType::F32 | DType::F16 | DType::BF16) {
            let (got, wanted) = (options.dtype.to_string(), "f32, f16 or bf16".to_owned());
            return Err(Error::Option { name: "dtype", got, wanted });
        }
        let gguf = OpenOptions::new().open(path)?;
        let tokenizer = gguf.tokenizer().ok();
        Ok(Model { gguf, options, tokenizer, decoder: Mutex::default(), encoder: Mutex::default() })
    }

    /// The file.
    pub fn gguf(&self) -> &Gguf {
        &self.gguf
    }

    /// What the file's reader warns of.
    pub fn warnings(&self) -> Vec<String> {
        warnings(&self.gguf).into_iter().map(|warning| warning.to_string()).collect()
    }

    /// The tokenizer.
    ///
    /// # Errors
    /// [`Error::File`] says why there is none.
    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        if let Some(tokenizer) = &self.tokenizer {
            return Ok(tokenizer);
        }
        self.gguf.tokenizer()?;
        Err(Error::NoTokenizer)
    }

    /// The decoder, loaded at the first call.
    ///
    /// # Errors
    /// As [`TextModel::load`], and those of the backend.
    pub fn decoder(&self) -> Result<Arc<dyn Decodes>> {
        once(&self.decoder, || self.load(LoadDecoder))
    }

    /// The encoder, loaded at the first call.
    ///
    /// # Errors
    /// As [`rocm_ops::models::Encoder::load`], and those of the backend.
    pub fn encoder(&self) -> Result<Arc<dyn Embeds>> {
        once(&self.encoder, || self.load(LoadEncoder))
    }

    fn load<L: Load>(&self, load: L) -> Result<Arc<L::Loaded>> {
        match self.options.backend {
            Backend::Cpu => self.typed(load, EitherHost::Cpu(Cpu::builder().build()?)),
            Backend::Reference => self.typed(load, EitherHost::Reference),
            Backend::Rocm => self.typed(load, Rocm::new()?),
        }
    }

    fn typed<L: Load, B>(&self, load: L, backend: B) -> Result<Arc<L::Loaded>>
    where
        B: Transformer<f32> + Transformer<f16> + Transformer<bf16>,
    {
        match self.options.dtype {
            DType::F16 => load.load::<f16, B>(self, backend),
            DType::BF16 => load.load::<bf16, B>(self, backend),
            _ => load.load::<f32, B>(self, backend),
        }
    }
}

fn once<T: ?Sized>(place: &Mutex<Option<Arc<T>>>, load: impl FnOnce() -> Result<Arc<T>>) -> Result<Arc<T>> {
    // A panic while loading leaves `None`, so a poisoned lock is as good as any.
    let mut place = place.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(loaded) = &*place {
        return Ok(loaded.clone());
    }
    Ok(place.insert(load()?).clone())
}

/// Loads a part of a model in an element type, on a backend.
trait Load {
    type Loaded: ?Sized;
    fn load<T: Float, B: Transformer<T>>(self, model: &Model, backend: B) -> Result<Arc<Self::Loaded>>;
}

struct LoadDecoder;
impl Load for LoadDecoder {
    type Loaded = dyn Decodes;
    fn load<T: Float, B: Transformer<T>>(self, model: &Model, backend: B) -> Result<Arc<dyn Decodes>> {
        let loaded = TextModel::<T, B>::load(&backend, &model.gguf, model.options.context)?;
        Ok(Arc::new(Decoder { backend, model: loaded }))
    }
}

struct LoadEncoder;
impl Load for LoadEncoder {
    type Loaded = dyn Embeds;
    fn load<T: Float, B: Transformer<T>>(self, model: &Model, backend: B) -> Result<Arc<dyn Embeds>> {
        let loaded = rocm_ops::models::Encoder::<T, B>::load(&backend, &model.gguf)?;
        let tokenizer = model.gguf.tokenizer()?;
        Ok(Arc::new(Encoder { backend, tokenizer, model: loaded }))
    }
}

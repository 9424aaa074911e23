//! `rocm_ops.Model`.
use crate::errors;
use crate::tensor::{Tensor, dtype};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use rocm_ops::models::{Chat, Finish, GenerateOptions, Overflow, Prompt, Token};
use rocm_ops::ops::registry;
use rocm_ops::{gguf, models};
use rocm_ops_models_by_name::{Backend, Decodes, Model as Inner, Options};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// A language model or a sentence encoder, from a GGUF file or a Hugging Face folder.
///
/// It computes on ``backend``: ``"cpu"``, ``"rocm"``, or ``"reference"``, which is slow and defines every op. ``dtype`` is the element
/// type of activations, ``"f32"``, ``"f16"`` or ``"bf16"``. Texts have at most ``context`` tokens. Weights are loaded at first use.
#[pyclass(frozen, module = "rocm_ops", subclass)]
pub(crate) struct Model(Arc<Inner>);

#[pymethods]
impl Model {
    #[new]
    #[pyo3(signature = (path, *, backend="cpu", dtype="f32", context=4096))]
    fn new(py: Python<'_>, path: PathBuf, backend: &str, dtype: &str, context: usize) -> PyResult<Self> {
        let backend = match backend {
            "cpu" => Backend::Cpu,
            "rocm" => Backend::Rocm,
            "reference" => Backend::Reference,
            other => {
                let message = format!("backend is {other:?}, expected cpu, rocm or reference");
                return Err(PyValueError::new_err(message));
            }
        };
        let options = Options { backend, dtype: self::dtype(dtype)?, context };
        let model = py.detach(|| Inner::open(&path, options)).map_err(errors::model)?;
        Ok(Model(Arc::new(model)))
    }

    /// Continues a prompt, a string or a list of ids. Returns the text, or with ``stream=True`` an iterator over its pieces. Options are
    /// those of ``rocm_ops::models::GenerateOptions``.
    #[pyo3(signature = (prompt, *, stop=None, stream=false, **options))]
    fn generate<'py>(
        &self,
        py: Python<'py>,
        prompt: &Bound<'py, PyAny>,
        stop: Option<&Bound<'py, PyAny>>,
        stream: bool,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let options = generate_options(stop, options)?;
        let ids = match prompt.cast::<PyString>() {
            Ok(text) => self.encode_text(text.to_str()?)?,
            Err(_) => prompt.extract()?,
        };
        self.continued(py, ids, options, stream)
    }

    /// Answers a conversation, a list of ``{"role": .., "content": ..}``, by the model's own template. ``tools`` are functions that the
    /// model may call, as in ``apply_chat_template``; ``variables`` are those of the template. Otherwise as ``generate``.
    #[pyo3(signature = (messages, *, tools=None, variables=None, stop=None, stream=false, **options))]
    #[allow(clippy::too_many_arguments, reason = "keywords of a function of Python")]
    fn chat<'py>(
        &self,
        py: Python<'py>,
        messages: &Bound<'py, PyAny>,
        tools: Option<&Bound<'py, PyAny>>,
        variables: Option<&Bound<'py, PyDict>>,
        stop: Option<&Bound<'py, PyAny>>,
        stream: bool,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let options = generate_options(stop, options)?;
        let json = |object: &Bound<'py, PyAny>| -> PyResult<String> {
            py.import("json")?.call_method1("dumps", (object,))?.extract()
        };
        let mut chat = Chat::from_json(&json(messages)?).map_err(errors::model)?;
        if let Some(tools) = tools {
            chat = chat.tools(&json(tools)?).map_err(errors::model)?;
        }
        for (name, value) in variables.iter().flat_map(|variables| variables.iter()) {
            chat = chat.variable(&name.extract::<String>()?, &json(&value)?);
        }
        let ids = py.detach(|| chat.tokens(self.0.tokenizer()?)).map_err(errors::model)?;
        self.continued(py, ids, options, stream)
    }

    /// The vectors of these texts, a ``Tensor`` of ``[texts, width]``.
    fn embed(&self, py: Python<'_>, texts: Vec<String>) -> PyResult<Tensor> {
        let vectors = py.detach(|| self.0.encoder()?.embed(&texts)).map_err(errors::model)?;
        let width = vectors.first().map_or(0, Vec::len);
        Tensor::of_f32(&[vectors.len(), width], vectors.concat())
    }

    /// The logits after each of these tokens, a ``Tensor`` of ``[tokens, vocabulary]``.
    fn logits(&self, py: Python<'_>, ids: Vec<u32>) -> PyResult<Tensor> {
        let logits = py.detach(|| self.0.decoder()?.logits(&ids)).map_err(errors::model)?;
        Tensor::of_f32(&[ids.len(), logits.len() / ids.len().max(1)], logits)
    }

    /// The ids of a text.
    fn encode(&self, text: &str) -> PyResult<Vec<u32>> {
        self.encode_text(text)
    }

    /// The text of ids.
    fn decode(&self, ids: Vec<u32>) -> PyResult<String> {
        let tokenizer = self.0.tokenizer().map_err(errors::model)?;
        tokenizer.decode(&ids).map_err(errors::file)
    }

    /// What the reader of the file warns of.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }

    /// Number of ids.
    #[getter]
    fn vocabulary(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(py.detach(|| self.0.decoder()).map_err(errors::model)?.vocabulary())
    }
}

impl Model {
    fn encode_text(&self, text: &str) -> PyResult<Vec<u32>> {
        let tokenizer = self.0.tokenizer().map_err(errors::model)?;
        tokenizer.encode(text).map_err(errors::file)
    }

    fn continued(
        &self,
        py: Python<'_>,
        ids: Vec<u32>,
        options: GenerateOptions,
        stream: bool,
    ) -> PyResult<Py<PyAny>> {
        let decoder = py.detach(|| self.0.decoder()).map_err(errors::model)?;
        let stream_of = Stream::new(decoder, ids, options);
        if stream {
            return Ok(Py::new(py, stream_of)?.into_any());
        }
        let text = py.detach(|| stream_of.all())?;
        Ok(PyString::new(py, &text).into_any().unbind())
    }
}

/// A piece of a text, the end of it, or why it failed.
enum Step {
    Piece(String),
    End(Option<Finish>),
    Failed(Box<models::Error>),
}

/// The pieces of a text, as a thread of its own computes them: one piece ahead, and no further when the iterator is dropped.
#[pyclass(frozen, module = "rocm_ops")]
pub(crate) struct Stream {
    steps: Mutex<Option<Receiver<Step>>>,
    finish: Mutex<Option<&'static str>>,
}

impl Stream {
    fn new(decoder: Arc<dyn Decodes>, ids: Vec<u32>, options: GenerateOptions) -> Self {
        let (send, steps) = sync_channel(1);
        std::thread::spawn(move || {
            // If nobody receives, the text is no longer wanted.
            let mut each = |token: Token| token.text.is_empty() || send.send(Step::Piece(token.text)).is_ok();
            let end = match decoder.generate(Prompt::Ids(&ids), options, &mut each) {
                Ok(finish) => Step::End(finish),
                Err(error) => Step::Failed(Box::new(error)),
            };
            let _unwanted = send.send(end);
        });
        Stream { steps: Mutex::new(Some(steps)), finish: Mutex::default() }
    }

    fn next(&self) -> PyResult<Option<String>> {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(receiver) = &*steps else { return Ok(None) };
        let step = receiver.recv();
        if let Ok(Step::Piece(text)) = step {
            return Ok(Some(text));
        }
        *steps = None;
        match step {
            Ok(Step::Failed(error)) => Err(errors::model(*error)),
            Ok(Step::End(finish)) => {
                *self.finish.lock().unwrap_or_else(PoisonError::into_inner) = finish.map(word);
                Ok(None)
            }
            _ => Err(PyRuntimeError::new_err("the thread that computes the text has panicked")),
        }
    }

    fn all(&self) -> PyResult<String> {
        let mut text = String::new();
        while let Some(piece) = self.next()? {
            text += &piece;
        }
        Ok(text)
    }
}

fn word(finish: Finish) -> &'static str {
    match finish {
        Finish::End => "end",
        Finish::Stop => "stop",
        Finish::Length => "length",
        _ => "context",
    }
}

#[pymethods]
impl Stream {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<String>> {
        py.detach(|| self.next())
    }
    /// Why the text has ended: ``end``, ``stop``, ``length`` or ``context``; ``None`` if it has not.
    #[getter]
    fn finish(&self) -> Option<&'static str> {
        *self.finish.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn generate_options(
    stop: Option<&Bound<'_, PyAny>>,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<GenerateOptions> {
    let stop = match stop {
        None => Vec::new(),
        Some(stop) => match stop.cast::<PyString>() {
            Ok(one) => vec![one.to_str()?.to_owned()],
            Err(_) => stop.extract()?,
        },
    };
    let mut options = GenerateOptions { stop, ..GenerateOptions::default() };
    for (name, value) in given.iter().flat_map(|given| given.iter()) {
        let name: String = name.extract()?;
        match name.as_str() {
            "max_tokens" => options.max_tokens = value.extract()?,
            "ignore_eos" => options.ignore_eos = value.extract()?,
            "shift" => options.overflow = if value.extract()? { Overflow::Shift } else { Overflow::Stop },
            "temperature" => options.temperature = value.extract()?,
            "top_k" => options.top_k = value.extract()?,
            "top_p" => options.top_p = value.extract()?,
            "min_p" => options.min_p = value.extract()?,
            "repeat_penalty" => options.repeat_penalty = value.extract()?,
            "presence_penalty" => options.presence_penalty = value.extract()?,
            "frequency_penalty" => options.frequency_penalty = value.extract()?,
            "repeat_last_n" => options.repeat_last_n = value.extract()?,
            "logit_bias" => {
                options.logit_bias = value.cast::<PyDict>()?.iter().map(pair).collect::<PyResult<_>>()?
            }
            "seed" => options.seed = value.extract()?,
            _ => {
                let known = "max_tokens, ignore_eos, shift, temperature, top_k, top_p, min_p, repeat_penalty, presence_penalty, \
                     frequency_penalty, repeat_last_n, logit_bias, seed";
                return Err(PyValueError::new_err(format!(
                    "there is no option `{name}`, expected one of {known}"
                )));
            }
        }
    }
    Ok(options)
}

fn pair((id, bias): (Bound<'_, PyAny>, Bound<'_, PyAny>)) -> PyResult<(u32, f32)> {
    Ok((id.extract()?, bias.extract()?))
}

/// The tensors of a GGUF file or a Hugging Face folder by their names, in the memory of the file. They are read-only.
#[pyfunction]
pub(crate) fn load_gguf<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyDict>> {
    let file = py.detach(|| models::open(&path)).map_err(errors::model)?;
    let tensors = PyDict::new(py);
    for tensor in file.tensors() {
        tensors.set_item(tensor.name(), Py::new(py, of_file(&tensor)?)?)?;
    }
    Ok(tensors)
}

fn of_file(tensor: &gguf::Tensor<'_>) -> PyResult<Tensor> {
    let ty = tensor.ggml_type();
    let dtype = ty.name().and_then(registry::dtype);
    let dtype = dtype.ok_or_else(|| {
        PyValueError::new_err(format!("tensor {} is of type {ty}, which no op takes", tensor.name()))
    })?;
    let dims = tensor.block_dims().map_err(errors::file)?;
    let bytes = tensor.raw_data().map_err(errors::file)?;
    Tensor::shared(Arc::new(bytes), dtype, &dims)
}

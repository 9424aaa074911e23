//! Rewrites a model file with other types.
use crate::error::{Error, Result};
use crate::ggml_type::GgmlType;
use crate::outline::{Outline, TensorOutline};
use crate::source::open;
use crate::writer::{Body, Writer};
use mixture::Model;
use ops_core::ops::registry;
use ops_core::ops::{QuantMethods, QuantOps};
use ops_core::{DType, bf16, f16};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

pub use mixture::Mixture;

mod mixture;

/// Values converted at a time: a whole number of blocks of every format.
const PART: usize = 1 << 20;

/// Rewrites a model file with its matrices in the types of a [`Mixture`].
///
/// [`Quantizer::open`] reads the front of a file and decides the type of each tensor, which [`Quantizer::plan`] shows.
/// [`Quantizer::write`] then reads, converts and writes one part of a tensor after the other, so that a model may be larger than
/// memory. Metadata is unchanged, except `general.file_type` and `general.quantization_version`.
///
/// Vectors, norms, expert routers and position tables keep their types. A row whose length is not a multiple
/// of 256 gets a format with blocks of 32 instead of 256: q5_0 for q4_k, q5_1 for q5_k, q8_0 for q6_k, and
/// iq4_nl for q2_k, q3_k and iq4_xs. A row whose length is not a multiple of 32 becomes f16.
///
/// ```
/// use rocm_ops::gguf::{Gguf, GgmlType, Mixture, Quantizer, Writer};
///
/// # let folder = std::env::temp_dir();
/// # let name = |what: &str| folder.join(format!("ops-gguf-quantizer-{what}-{}.gguf", std::process::id()));
/// # let (from, to) = (name("from"), name("to"));
/// let mut writer = Writer::new();
/// writer.set("general.architecture", "llama")?;
/// writer.tensor("blk.0.ffn_up.weight", GgmlType::F32, &[2, 256])?;
/// let mut body = writer.create(&from)?;
/// body.write("blk.0.ffn_up.weight", &[0.5_f32; 512])?;
/// body.commit()?;
///
/// let quantizer = Quantizer::open(&from, Mixture::from_name("q4_k_m").unwrap())?;
/// quantizer.write(&rocm_ops::Cpu::new(), &to, |_| ())?;
/// assert_eq!(Gguf::open(&to)?.tensor("blk.0.ffn_up.weight")?.ggml_type(), GgmlType::Q4_K);
/// # std::fs::remove_file(&from)?;
/// # std::fs::remove_file(&to)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Quantizer {
    outline: Outline,
    mixture: Mixture,
    /// One per tensor, in file order.
    types: Vec<GgmlType>,
}

/// A tensor before and after.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Change<'a> {
    /// The tensor's name.
    pub name: &'a str,
    /// Its extents in values, outermost first.
    pub dims: &'a [usize],
    /// The type in the input file.
    pub from: GgmlType,
    /// The type in the output file.
    pub to: GgmlType,
}

/// The progress of [`Quantizer::write`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct QuantizeProgress<'a> {
    /// The current tensor.
    pub tensor: &'a str,
    /// Bytes read.
    pub done: u64,
    /// Bytes of all tensors.
    pub all: u64,
}

impl Quantizer {
    /// Reads the front of a file and chooses the types.
    ///
    /// # Errors
    /// As [`Outline::open`]; [`Error::TensorType`] if a matrix whose type changes is already quantized: each
    /// quantization adds its own error, so start from a file in f32, f16 or bf16.
    pub fn open(path: impl AsRef<Path>, mixture: Mixture) -> Result<Self> {
        let outline = Outline::open(path)?;
        let model = model(&outline);
        let types = outline.tensors().map(|tensor| choose(tensor, mixture, &model)).collect::<Result<_>>()?;
        Ok(Quantizer { outline, mixture, types })
    }

    /// The types of the tensors before and after, in file order.
    pub fn plan(&self) -> impl ExactSizeIterator<Item = Change<'_>> {
        self.outline.tensors().zip(&self.types).map(|(tensor, to)| Change {
            name: tensor.name(),
            dims: tensor.dims(),
            from: tensor.ggml_type(),
            to: *to,
        })
    }

    /// Writes the new file. `backend` quantizes; `progress` is called after each part. The file is written to
    /// a temporary name in the same folder, and renamed to `to` when it is complete, replacing an existing
    /// file.
    ///
    /// # Errors
    /// [`Error::Io`] if a file cannot be read or written, [`Error::Backend`] for those of the backend.
    pub fn write<B: QuantOps>(
        &self,
        backend: &B,
        to: impl AsRef<Path>,
        mut progress: impl FnMut(QuantizeProgress<'_>),
    ) -> Result<()> {
        let mut writer = Writer::with_metadata(self.outline.metadata().clone());
        writer.set("general.file_type", self.mixture.file_type())?;
        writer.set("general.quantization_version", 2_u32)?;
        for change in self.plan() {
            writer.tensor(change.name, change.to, change.dims)?;
        }
        let files = self.outline.files.iter().map(|path| Ok((path, open(path)?.0)));
        let mut files: Vec<(&PathBuf, File)> = files.collect::<Result<_>>()?;
        let mut body = writer.create(to)?;
        let all = self.outline.tensors().map(|tensor| tensor.info.len.unwrap_or(0) as u64).sum();
        let mut done = 0;
        for (tensor, to) in self.outline.tensors().zip(&self.types) {
            let report = |bytes: usize| {
                done += bytes as u64;
                progress(QuantizeProgress { tensor: tensor.name(), done, all });
            };
            let (path, file) = &mut files[tensor.info.file];
            Conversion { tensor, to: *to, path }.run(backend, file, &mut body, report)?;
        }
        body.commit()
    }
}

/// The properties that the rules of mixtures need.
fn model(outline: &Outline) -> Model {
    let metadata = outline.metadata();
    // Some keys are arrays with one number per layer: such models count as ungrouped.
    let number = |key: &str| metadata.arch_find::<u32>(key).ok().flatten().map(|n| n as usize);
    let heads = number("attention.head_count").unwrap_or(1);
    let keys = number("attention.head_count_kv").unwrap_or(heads).max(1);
    Model {
        layers: number("block_count").unwrap_or(0),
        experts: number("expert_count").unwrap_or(0),
        group: heads / keys,
        tied: outline.find("output.weight").is_none(),
    }
}

fn choose(tensor: TensorOutline<'_>, mixture: Mixture, model: &Model) -> Result<GgmlType> {
    let (from, info) = (tensor.ggml_type(), tensor.info);
    let wrong = |got: String, wanted: &str| Error::TensorType {
        name: tensor.name().to_owned(),
        at: info.start as u64,
        got,
        wanted: wanted.to_owned(),
    };
    if info.len.is_none() {
        return Err(wrong(from.to_string(), "a type whose block size is known"));
    }
    match mixture.choose(tensor.name(), tensor.dims(), model) {
        Some(to) if to != from && !is_float(from) => {
            let got = format!("type {from}, to become {to}");
            Err(wrong(got, "f32, f16 or bf16: quantizing blocks again would add to their error"))
        }
        Some(to) => Ok(to),
        None => Ok(from),
    }
}

fn is_float(ty: GgmlType) -> bool {
    matches!(ty, GgmlType::F32 | GgmlType::F16 | GgmlType::BF16)
}

/// The conversion of one tensor.
struct Conversion<'a> {
    tensor: TensorOutline<'a>,
    to: GgmlType,
    path: &'a Path,
}

impl Conversion<'_> {
    fn run<B: QuantOps, W: Write>(
        &self,
        backend: &B,
        file: &mut File,
        body: &mut Body<W>,
        mut report: impl FnMut(usize),
    ) -> Result<()> {
        let (info, from) = (self.tensor.info, self.tensor.ggml_type());
        file.seek(SeekFrom::Start(info.start as u64)).map_err(|e| Error::io("read", self.path, e))?;
        let block = from.block().map_or(1, |block| block.bytes);
        let mut left = info.len.unwrap_or(0);
        let parts = std::iter::from_fn(|| {
            let bytes = left.min(PART * block);
            left -= bytes;
            (bytes > 0).then(|| {
                let mut part = vec![0; bytes];
                file.read_exact(&mut part).map_err(|e| Error::io("read", self.path, e))?;
                report(bytes);
                if from == self.to { Ok(part) } else { self.convert(backend, &part) }
            })
        });
        body.write_parts(self.tensor.name(), parts)
    }

    fn convert<B: QuantOps>(&self, backend: &B, part: &[u8]) -> Result<Vec<u8>> {
        let values = widen(self.tensor.ggml_type(), part);
        Ok(match self.to {
            GgmlType::F32 => bytemuck::cast_slice(&values).to_vec(),
            GgmlType::F16 => values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect(),
            GgmlType::BF16 => values.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect(),
            blocks => {
                let dtype = blocks.name().and_then(registry::dtype).ok_or_else(|| self.no_format())?;
                let DType::Block(format) = dtype else { return Err(self.no_format()) };
                let rows = values.len() / format.values();
                let x = backend.tensor(&[rows, format.values()], &values)?;
                backend.quantize(&x, dtype)?.as_ref().to_vec(backend)?
            }
        })
    }

    fn no_format(&self) -> Error {
        let wanted = "a block format that values can be quantized to";
        Error::write(format_args!("tensor `{}`", self.tensor.name()), self.to, wanted)
    }
}

/// Little-endian floats of a file as f32. The bytes may have any alignment.
fn widen(from: GgmlType, bytes: &[u8]) -> Vec<f32> {
    let two = |bytes: &[u8]| [bytes[0], bytes[1]];
    match from {
        GgmlType::F16 => bytes.chunks_exact(2).map(|b| f16::from_le_bytes(two(b)).to_f32()).collect(),
        GgmlType::BF16 => bytes.chunks_exact(2).map(|b| bf16::from_le_bytes(two(b)).to_f32()).collect(),
        _ => bytemuck::pod_collect_to_vec(bytes),
    }
}

//! Tensors of safetensors files, in place.
use super::images;
use super::names::{Place, place, place_of_further};
use super::options::{Options, wrong};
use super::parts::{FLOATS, Found, Piece, Translated, Waiting, float_type, widened};
use crate::Result;
use crate::encoder::dense_name;
use ops_gguf::{Assembly, Bytes, ForeignFile, GgmlType};
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Reads or maps a file.
pub(super) type Read<'r> = &'r mut dyn FnMut(&Path) -> ops_gguf::Result<Bytes>;

const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";

/// Experts that become a single tensor.
struct Experts {
    /// Type and extents of each expert.
    ty: GgmlType,
    dims: Vec<usize>,
    by_number: BTreeMap<usize, Piece>,
}

/// A matrix with a row for each token.
struct Rows {
    ty: GgmlType,
    dims: Vec<usize>,
    piece: Piece,
}

/// Tensors being added to a model.
struct Collection<'a> {
    model: &'a mut Assembly,
    translated: &'a Translated,
    experts: BTreeMap<String, Experts>,
    /// Names in `transformers` and files, by names in GGUF.
    names: BTreeMap<String, (String, PathBuf)>,
    waiting: Waiting,
    embeddings: Option<Rows>,
    head: Option<Rows>,
    /// The number of layers after the last one.
    further: usize,
}

/// Adds the tensors of a folder to a model.
pub(super) fn add(
    model: &mut Assembly,
    folder: &Path,
    translated: &Translated,
    read: Read<'_>,
) -> Result<()> {
    let mut all = Collection {
        model,
        translated,
        experts: BTreeMap::new(),
        names: BTreeMap::new(),
        waiting: Waiting::new(),
        embeddings: None,
        head: None,
        further: 0,
    };
    all.rope_factors()?;
    for (file, listed) in files(folder)? {
        for Stored { name, dtype, dims, piece } in stored(&file, &read(&file)?, &listed)? {
            let text = if translated.has_images { images::text_tensor(&name) } else { Some(name) };
            let bare = translated.embeds && translated.folder.encoder.is_none();
            let text = text.map(|name| if bare { in_decoder(name) } else { name });
            let Some(name) = text else { continue };
            all.tensor(&file, &name, (dtype, &dims), piece)?;
        }
    }
    dense(&mut all, read)?;
    all.finish(folder)
}

/// A tensor as a safetensors file has it.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) dims: Vec<usize>,
    pub(crate) piece: Piece,
}

/// The tensors of a safetensors file, which must have those that are `listed`.
pub(crate) fn stored(file: &Path, bytes: &Bytes, listed: &[String]) -> Result<Vec<Stored>> {
    if let Some(kind) = ForeignFile::of(bytes).filter(|kind| !kind.is_safetensors()) {
        return Err(wrong(file, "contents", kind.name, format!("a safetensors file; {}", kind.remedy)));
    }
    let (header, about) = SafeTensors::read_metadata(bytes)
        .map_err(|e| wrong(file, "contents", e, "a whole safetensors file"))?;
    let start = 8 + header; // after the header's length and the header
    if let Some(name) = listed.iter().find(|name| about.info(name).is_none()) {
        let wanted = format!("the tensor, which {INDEX} places here");
        return Err(wrong(file, format!("tensor {name}"), "nothing", wanted));
    }
    let all = about.offset_keys().into_iter().filter_map(|name| {
        let info = about.info(&name)?;
        let (from, to) = info.data_offsets;
        let piece = (bytes.clone(), start + from..start + to);
        Some(Stored { dtype: info.dtype, dims: info.shape.clone(), name, piece })
    });
    Ok(all.collect())
}

/// The name of a tensor in a model with an output matrix, of which models that embed leave out the beginning.
fn in_decoder(name: String) -> String {
    let whole = name.starts_with("model.") || name.starts_with("lm_head.");
    if whole { name } else { format!("model.{name}") }
}

/// Adds the matrices that pooled vectors are multiplied by.
fn dense(all: &mut Collection<'_>, read: Read<'_>) -> Result<()> {
    for (i, folder) in all.translated.dense.iter().enumerate() {
        let file = folder.join(SINGLE);
        for Stored { name, dtype, dims, piece } in stored(&file, &read(&file)?, &[])? {
            let what = || format!("tensor {name}");
            let Some(kind) = name.strip_prefix("linear.").filter(|kind| ["weight", "bias"].contains(kind))
            else {
                return Err(wrong(
                    &file,
                    what(),
                    "a name that this program does not know",
                    "linear.weight or linear.bias",
                ));
            };
            let ty =
                float_type(dtype).ok_or_else(|| wrong(&file, what(), format!("type {dtype:?}"), FLOATS))?;
            let ours = format!("{}.{kind}", dense_name(i));
            all.names.insert(ours.clone(), (name.clone(), file.clone()));
            if dims.len() == 1 {
                let widened = widened(ty, &piece.0[piece.1], |value| value);
                let whole = 0..widened.len();
                all.model.tensor(&ours, GgmlType::F32, &dims, &[(widened.into(), whole)])?;
            } else {
                all.model.tensor(&ours, ty, &dims, &[piece])?;
            }
        }
    }
    Ok(())
}

/// The files, and the tensors that each contains according to the index.
pub(crate) fn files(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<String>>> {
    let path = folder.join(INDEX);
    let Some(index) = Options::read(&path)? else {
        let single = folder.join(SINGLE);
        if !single.is_file() {
            let wanted = format!("{SINGLE} or {INDEX}; weights in other formats are not read");
            return Err(wrong(folder, "weights", "neither", wanted));
        }
        return Ok(BTreeMap::from([(single, Vec::new())]));
    };
    let map = index.required("weight_map", index.get("weight_map").and_then(|map| map.as_object()))?;
    let mut files: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    for (tensor, file) in map {
        // Must be a plain name, not a path to somewhere else.
        let name = file.as_str().filter(|name| Path::new(name).file_name().is_some_and(|last| last == *name));
        let name = name.ok_or_else(|| wrong(&path, format!("file of {tensor}"), file, "a file's name"))?;
        files.entry(folder.join(name)).or_default().push(tensor.clone());
    }
    Ok(files)
}

impl Collection<'_> {
    fn tensor(
        &mut self,
        file: &Path,
        name: &str,
        (dtype, dims): (Dtype, &[usize]),
        piece: Piece,
    ) -> Result<()> {
        let folder = self.translated.folder;
        let Translated { layers, further_layers, .. } = *self.translated;
        let further = layers..layers.saturating_add(further_layers);
        let layer = name.strip_prefix("model.layers.").and_then(|rest| rest.split('.').next()?.parse().ok());
        if layer.is_some_and(|layer| further.contains(&layer)) {
            return Ok(());
        }
        let what = || format!("tensor {name}");
        let of_further = folder.further.and_then(|prefix| name.strip_prefix(prefix));
        let place = match (folder.encoder, of_further) {
            (Some(names), _) => names.place(name),
            (None, Some(part)) => {
                let (at, place) = place_of_further(part, layers, folder.post_attention_norm);
                self.further = self.further.max(at.saturating_add(1));
                Some(place)
            }
            (None, None) => place(name, folder.post_attention_norm),
        };
        let place = place.ok_or_else(|| {
            let got = "a name that this program does not know";
            wrong(file, what(), got, "the tensors of this kind of model")
        })?;
        if let Place::Changed(layer, part) = place {
            let found = Found { file, name, layer, part, dtype, dims, piece };
            return (folder.add_changed)(self.model, &found, self.translated.split, &mut self.waiting);
        }
        if place == Place::Ignored {
            return Ok(());
        }
        let ty = float_type(dtype).ok_or_else(|| wrong(file, what(), format!("type {dtype:?}"), FLOATS))?;
        if let Place::Tensor(ours) | Place::Expert(ours, _) = &place {
            self.names.insert(ours.clone(), (name.to_owned(), file.to_owned()));
        }
        match place {
            Place::Ignored | Place::Changed(..) => {}
            Place::Expert(name, expert) => {
                let new = || Experts { ty, dims: dims.to_vec(), by_number: BTreeMap::new() };
                let all = self.experts.entry(name).or_insert_with(new);
                if (all.ty, all.dims.as_slice()) != (ty, dims) {
                    let wanted = format!("{:?} of {}, as for the other experts", all.dims, all.ty);
                    return Err(wrong(file, what(), format!("{dims:?} of {ty}"), wanted));
                }
                all.by_number.insert(expert, piece);
            }
            Place::Tensor(name) => {
                let rows = || Some(Rows { ty, dims: dims.to_vec(), piece: piece.clone() });
                match name.as_str() {
                    "token_embd.weight" => self.embeddings = rows(),
                    "output.weight" => {
                        self.head = rows();
                        return Ok(());
                    }
                    _ => {}
                }
                if dims.len() == 1 {
                    let lacks_one = folder.norms_plus_one
                        && name.ends_with("norm.weight")
                        && !name.ends_with("ssm_norm.weight");
                    let plus = if lacks_one { 1.0 } else { 0.0 };
                    let widened = widened(ty, &piece.0[piece.1], |value| value + plus);
                    let all = 0..widened.len();
                    self.model.tensor(&name, GgmlType::F32, dims, &[(widened.into(), all)])?;
                } else {
                    self.model.tensor(&name, ty, dims, &[piece])?;
                }
            }
        }
        Ok(())
    }

    /// Counts the layers after the last one, as GGUF does.
    fn further_layers(&mut self) -> Result<()> {
        let Translated { layers, folder, .. } = *self.translated;
        let (Some(prefix), 1..) = (folder.further, self.further) else { return Ok(()) };
        let metadata = self.model.metadata();
        let architecture = metadata.architecture()?.to_owned();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        metadata.set(format!("{architecture}.block_count"), count(layers.saturating_add(self.further)))?;
        metadata.set(format!("{architecture}.nextn_predict_layers"), count(self.further))?;
        super::origin::set_further(metadata, prefix, layers)
    }

    /// Factors that are tensors in GGUF.
    fn rope_factors(&mut self) -> Result<()> {
        let Some(factors) = &self.translated.long_factors else { return Ok(()) };
        for (name, values) in [("short", &factors.short), ("long", &factors.long)] {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let all = 0..bytes.len();
            let name = format!("rope_factors_{name}.weight");
            self.model.tensor(&name, GgmlType::F32, &[values.len()], &[(bytes.into(), all)])?;
        }
        Ok(())
    }

    /// Checks that all layers have the tensors of the first one. The loader would notice too, but does not
    /// know the names in these files.
    fn check_layers(&mut self, folder: &Path) -> Result<()> {
        let layers = self.translated.layers;
        let dense_first = self.model.metadata().arch_u32("leading_dense_block_count").is_ok_and(|n| n > 0);
        for (ours, (theirs, _)) in self.names.range("blk.0.".to_owned().."blk.0/".to_owned()) {
            // The feed-forward block of the first layers may be of another kind, or layers may have several kinds of attention.
            let is_feed = ours.contains(".ffn_");
            let differs =
                if self.translated.folder.own_layer_types { !is_feed } else { is_feed && dense_first };
            if differs {
                continue;
            }
            let has =
                |layer: usize| self.names.contains_key(&ours.replacen("blk.0.", &format!("blk.{layer}."), 1));
            if let Some(layer) = (1..layers).find(|layer| !has(*layer)) {
                let before = self.translated.folder.encoder.map_or("model.layers.", |names| names.layers);
                let name = theirs.replacen(&format!("{before}0."), &format!("{before}{layer}."), 1);
                return Err(wrong(
                    folder,
                    format!("tensor {name}"),
                    "nothing",
                    "the tensor, which the first layer has",
                ));
            }
        }
        Ok(())
    }

    /// Adds the output matrix. One that equals tied embeddings is left out.
    fn output(&mut self, folder: &Path) -> Result<()> {
        let Some(Rows { ty, dims, piece }) = self.head.take() else { return Ok(()) };
        if self.translated.tied {
            let same = self.embeddings.as_ref().is_some_and(|rows| {
                (rows.ty, &rows.dims) == (ty, &dims)
                    && rows.piece.0[rows.piece.1.clone()] == piece.0[piece.1.clone()]
            });
            if same {
                self.names.remove("output.weight");
                return Ok(());
            }
            let path = folder.join("config.json");
            let warning = "`tie_word_embeddings` is true, but lm_head.weight differs from the embeddings; lm_head.weight is used";
            self.translated.notes.warn(format!("{}: {warning}", path.display()));
        }
        self.model.tensor("output.weight", ty, &dims, &[piece])?;
        Ok(())
    }

    /// Checks that the matrices have as many rows as the configuration says.
    fn check_rows(&self) -> Result<()> {
        let rows = self.translated.vocab_size;
        let matrices = [("token_embd.weight", &self.embeddings), ("output.weight", &self.head)];
        for (ours, matrix) in matrices {
            let (Some(Rows { dims, .. }), Some((name, file))) = (matrix, self.names.get(ours)) else {
                continue;
            };
            if dims.first() != Some(&rows) {
                let wanted = format!("{rows} rows, the `vocab_size` of config.json");
                return Err(wrong(file, format!("tensor {name}"), format!("{dims:?}"), wanted));
            }
        }
        Ok(())
    }

    fn finish(mut self, folder: &Path) -> Result<()> {
        self.check_rows()?;
        self.output(folder)?;
        if !self.names.contains_key("output.weight") && !self.translated.tied {
            let wanted = "the tensor, because `tie_word_embeddings` is not set";
            return Err(wrong(folder, "tensor lm_head.weight", "nothing", wanted));
        }
        self.check_layers(folder)?;
        self.further_layers()?;
        super::origin::set_tensors(self.model.metadata(), self.names.iter())?;
        if let Some(name) = self.waiting.keys().next() {
            let what = format!("tensor {name}");
            return Err(wrong(folder, what, "blocks or scales alone", "both"));
        }
        for (name, Experts { ty, dims, by_number }) in self.experts {
            let count = by_number.len();
            if let Some(missing) = (0..count).find(|expert| !by_number.contains_key(expert)) {
                let theirs = self.names.get(&name).map_or(name.as_str(), |(theirs, _)| theirs);
                let what = format!("tensor {}", of_expert(theirs, missing));
                return Err(wrong(folder, what, "nothing", "the tensor: experts are counted from 0 on"));
            }
            let dims: Vec<usize> = std::iter::once(count).chain(dims).collect();
            self.model.tensor(&name, ty, &dims, &by_number.into_values().collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

/// The name of the same tensor of another expert.
fn of_expert(name: &str, expert: usize) -> String {
    match name.split_once(".experts.").and_then(|(layer, rest)| Some((layer, rest.split_once('.')?.1))) {
        Some((layer, part)) => format!("{layer}.experts.{expert}.{part}"),
        None => name.to_owned(),
    }
}

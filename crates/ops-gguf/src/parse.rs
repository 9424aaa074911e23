//! Parses the file's structure (header, metadata, tensor descriptions) and checks that it is consistent.

use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::ggml_type::GgmlType;
use crate::metadata::{Metadata, parse as metadata_parse};
use crate::tensor::{MAX_RANK, TensorInfo};

/// The alignment if `general.alignment` is not set.
pub(crate) const DEFAULT_ALIGNMENT: usize = 32;

/// The metadata key of the alignment.
pub(crate) const ALIGNMENT_KEY: &str = "general.alignment";

/// Minimum bytes of a tensor description: name length, rank, type, offset.
const MIN_TENSOR_BYTES: usize = 8 + 4 + 4 + 8;

/// Everything before the tensor data.
pub(crate) struct Front {
    pub(crate) version: u32,
    pub(crate) alignment: usize,
    pub(crate) metadata: Metadata,
    pub(crate) tensors: Vec<TensorInfo>,
    /// Indices into `tensors`, sorted by name.
    pub(crate) by_name: Vec<u32>,
}

/// Parses the front of a file of `len` bytes that begins with `bytes`.
pub(crate) fn front(bytes: &[u8], len: usize) -> Result<Front> {
    let mut cur = Cursor::new(bytes);
    let version = magic_and_version(&mut cur)?;
    let tensor_count = cur.count(MIN_TENSOR_BYTES, "count of tensors")?;
    let pair_count = metadata_parse::pair_count(&mut cur)?;
    let metadata = metadata_parse::metadata(&mut cur, pair_count)?;
    let alignment = alignment(&metadata)?;
    let described = descriptions(&mut cur, tensor_count)?;
    let by_name = by_name(&described)?;
    let data_start = cur.at().checked_next_multiple_of(alignment).unwrap_or(usize::MAX);
    let tensors = place(described, data_start, alignment, len)?;
    Ok(Front { version, alignment, metadata, tensors, by_name })
}

fn magic_and_version(cur: &mut Cursor<'_>) -> Result<u32> {
    let magic: [u8; 4] = cur.number("magic")?;
    match &magic {
        b"GGUF" => {}
        b"FUGG" => return Err(big_endian()),
        _ => return Err(Error::malformed("magic", 0, format!("\"{}\"", magic.escape_ascii()), "\"GGUF\"")),
    }
    let version: u32 = cur.number("version")?;
    match version {
        2 | 3 => Ok(version),
        // A small number in the wrong byte order: its low half is zero.
        n if n != 0 && n & 0xffff == 0 => Err(big_endian()),
        n => Err(Error::Unsupported {
            what: "GGUF version",
            got: n.to_string(),
            wanted: "2 or 3",
            remedy: "convert the file with a current converter",
        }),
    }
}

fn big_endian() -> Error {
    Error::Unsupported {
        what: "byte order",
        got: "big-endian".to_owned(),
        wanted: "little-endian",
        remedy: "convert the file for little-endian machines",
    }
}

/// The alignment that the metadata specifies.
pub(crate) fn alignment(metadata: &Metadata) -> Result<usize> {
    let alignment = metadata.find::<u64>(ALIGNMENT_KEY)?.unwrap_or(DEFAULT_ALIGNMENT as u64);
    match usize::try_from(alignment) {
        Ok(n) if n.is_power_of_two() => Ok(n),
        _ => Err(metadata.unwanted(ALIGNMENT_KEY, alignment.to_string(), "a power of two")),
    }
}

/// A parsed tensor description whose data range is not yet checked.
struct Described {
    info: TensorInfo,
    /// Position of the description, for errors.
    at: usize,
    /// Position of its offset field, for errors.
    offset_at: usize,
    /// Offset from the start of the data section.
    offset: u64,
}

fn descriptions(cur: &mut Cursor<'_>, count: usize) -> Result<Vec<Described>> {
    let mut tensors = Vec::new();
    for i in 0..count {
        tensors.push(description(cur, format_args!("name of tensor {i} of {count}"))?);
    }
    Ok(tensors)
}

fn description(cur: &mut Cursor<'_>, which: std::fmt::Arguments<'_>) -> Result<Described> {
    let at = cur.at();
    let name = cur.string(which)?;
    let rank_at = cur.at();
    let rank: u32 = cur.number(format_args!("rank of tensor `{name}`"))?;
    let rank = usize::try_from(rank).ok().filter(|&r| r <= MAX_RANK).ok_or_else(|| {
        Error::malformed(
            format_args!("rank of tensor `{name}`"),
            rank_at,
            rank,
            format!("at most {MAX_RANK}"),
        )
    })?;
    let dims_at = cur.at();
    let dims = dims(cur, rank, name)?;
    let ty = GgmlType(cur.number(format_args!("type of tensor `{name}`"))?);
    let len = data_len(ty, &dims[..rank], name, dims_at)?;
    let offset_at = cur.at();
    let offset = cur.number(format_args!("offset of tensor `{name}`"))?;
    let info = TensorInfo { name: name.into(), ty, rank, dims, start: 0, len, file: 0 };
    Ok(Described { info, at, offset_at, offset })
}

/// Reads the dimensions and reverses them to outermost first.
fn dims(cur: &mut Cursor<'_>, rank: usize, name: &str) -> Result<[usize; MAX_RANK]> {
    let mut dims = [0; MAX_RANK];
    for i in 0..rank {
        let at = cur.at();
        let what = format_args!("dimension {i} of tensor `{name}`");
        let dim: u64 = cur.number(what)?;
        // The C library stores dimensions as signed numbers.
        dims[rank - 1 - i] = usize::try_from(dim)
            .ok()
            .filter(|&d| isize::try_from(d).is_ok())
            .ok_or_else(|| Error::malformed(what, at, dim, format!("at most {}", isize::MAX)))?;
    }
    Ok(dims)
}

/// Bytes of a tensor's data; `None` if the type is unknown.
pub(crate) fn data_len(ty: GgmlType, dims: &[usize], name: &str, at: usize) -> Result<Option<usize>> {
    let wrong = |got: String, wanted: &str| {
        Err(Error::malformed(format_args!("dimensions of tensor `{name}`"), at, got, wanted))
    };
    let elements = dims.iter().try_fold(1_usize, |n, &d| n.checked_mul(d));
    let Some(elements) = elements.filter(|&n| isize::try_from(n).is_ok()) else {
        return wrong(format!("{dims:?}"), "a product that fits 63 bits");
    };
    let Some(block) = ty.block() else { return Ok(None) };
    let row = dims.last().copied().unwrap_or(1);
    if row % block.len != 0 {
        return wrong(format!("rows of {row} elements"), &format!("a multiple of {} for {ty}", block.len));
    }
    match (elements / block.len).checked_mul(block.bytes) {
        Some(len) => Ok(Some(len)),
        None => wrong(format!("{dims:?} of {ty}"), "a size in bytes that fits 64 bits"),
    }
}

/// Indices of tensors sorted by name; duplicate names are an error.
pub(crate) fn sort_by_name<'t>(
    names: impl ExactSizeIterator<Item = &'t str>,
    duplicate: impl Fn(usize, usize) -> Error,
) -> Result<Vec<u32>> {
    let names: Vec<&str> = names.collect();
    let count = u32::try_from(names.len())
        .map_err(|_| Error::malformed("count of tensors", 8, names.len(), "less than 2^32"))?;
    let mut by_name: Vec<u32> = (0..count).collect();
    by_name.sort_by_key(|&i| names[i as usize]);
    match by_name.windows(2).find(|pair| names[pair[0] as usize] == names[pair[1] as usize]) {
        Some(pair) => Err(duplicate(pair[0] as usize, pair[1] as usize)),
        None => Ok(by_name),
    }
}

fn by_name(tensors: &[Described]) -> Result<Vec<u32>> {
    sort_by_name(tensors.iter().map(|tensor| &*tensor.info.name), |first, second| {
        let what = format!("name of tensor `{}`", tensors[second].info.name);
        let got = format!("a duplicate of the one at byte {}", tensors[first].at);
        Error::malformed(what, tensors[second].at, got, "unique names")
    })
}

/// Computes each tensor's data range and checks that it is aligned, inside the file and disjoint from all others.
fn place(
    described: Vec<Described>,
    data_start: usize,
    alignment: usize,
    end: usize,
) -> Result<Vec<TensorInfo>> {
    let mut tensors = Vec::with_capacity(described.len());
    let mut places = Vec::with_capacity(described.len());
    for (i, Described { mut info, offset_at, offset, .. }) in described.into_iter().enumerate() {
        let what = format_args!("offset of tensor `{}`", info.name);
        if offset % alignment as u64 != 0 {
            return Err(Error::malformed(what, offset_at, offset, format!("a multiple of {alignment}")));
        }
        let len = info.len.unwrap_or(0);
        let start = usize::try_from(offset).ok().and_then(|o| data_start.checked_add(o));
        // A tensor without data needs no range: a file with only descriptions may end before its aligned data section.
        let start =
            if len == 0 { start.filter(|&s| s <= data_start.max(end)).map(|s| s.min(end)) } else { start };
        match start.and_then(|s| s.checked_add(len).map(|stop| (s, stop))) {
            Some((start, stop)) if stop <= end => {
                info.start = start;
                places.push((start, stop, i, offset_at));
            }
            _ => {
                let got = format!(
                    "{len} bytes at offset {offset} of the data section, which starts at byte {data_start}"
                );
                let wanted = format!("an end within the file's {end} bytes (is it truncated?)");
                return Err(Error::malformed(
                    format_args!("data of tensor `{}`", info.name),
                    offset_at,
                    got,
                    wanted,
                ));
            }
        }
        tensors.push(info);
    }
    places.sort_unstable();
    for pair in places.windows(2) {
        let ((start, stop, first, _), (next, _, second, at)) = (pair[0], pair[1]);
        if next < stop {
            let got = format!(
                "bytes from {next}, overlapping those of `{}` from {start} to {stop}",
                tensors[first].name
            );
            let what = format!("data of tensor `{}`", tensors[second].name);
            return Err(Error::malformed(what, at, got, "no overlap"));
        }
    }
    Ok(tensors)
}

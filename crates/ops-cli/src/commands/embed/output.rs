//! Vectors and similarities as tables and JSON.
use super::input::Input;
use crate::output::json_line;
use crate::text::Result;
use serde_json::json;
use std::io::Write;
use std::path::Path;

/// How many numbers of a vector a table shows.
const SHOWN: usize = 4;
/// How many characters of a text a table shows.
const WIDTH: usize = 60;

pub(super) fn print(input: &Input<'_>, embeddings: &[Vec<f32>], out: &mut dyn Write) -> Result<()> {
    if let Some(file) = &input.args.npy {
        return npy(embeddings, file);
    }
    match (input.common.json, input.args.similarity) {
        (true, similarity) => json(input, embeddings, similarity, out),
        (false, true) => similarities(input, embeddings, out),
        (false, false) => vectors(input, embeddings, out),
    }
}

/// Writes the array file that `numpy.load` reads: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.
fn npy(embeddings: &[Vec<f32>], file: &Path) -> Result<()> {
    let shape = (embeddings.len(), embeddings.first().map_or(0, Vec::len));
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape:?}, }}");
    // Magic, version, the header's length, and the header with a newline are together a multiple of 64 bytes.
    let before = 10;
    let padded = (before + header.len() + 1).next_multiple_of(64) - before;
    header = format!("{header:<width$}\n", width = padded - 1);
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((padded as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(embeddings.iter().flatten().flat_map(|number| number.to_le_bytes()));
    std::fs::write(file, bytes).map_err(|e| format!("cannot write {}: {e}", file.display()).into())
}

/// One object per text.
fn json(input: &Input<'_>, embeddings: &[Vec<f32>], similarity: bool, out: &mut dyn Write) -> Result<()> {
    for (text, own) in input.texts.iter().zip(embeddings) {
        let mut object = json!({ "text": text.text, "tokens": text.ids.len(), "truncated": text.truncated });
        if similarity {
            let row: Vec<f64> = embeddings.iter().map(|other| cosine(own, other)).collect();
            object["similarity"] = json!(row);
        } else {
            object["embedding"] = json!(own);
        }
        json_line(&object, out)?;
    }
    Ok(())
}

fn vectors(input: &Input<'_>, embeddings: &[Vec<f32>], out: &mut dyn Write) -> Result<()> {
    let dim = embeddings.first().map_or(0, Vec::len);
    let title = format!("first {SHOWN} of {dim} numbers");
    writeln!(out, "{:>6}  {title:<width$}text", "tokens", width = 9 * SHOWN + 4)?;
    for (text, embedding) in input.texts.iter().zip(embeddings) {
        let numbers: String = embedding.iter().take(SHOWN).map(|v| format!("{v:>8.4} ")).collect();
        writeln!(out, "{:>6}  {numbers}..  {}", text.ids.len(), shortened(&text.text))?;
    }
    Ok(())
}

fn similarities(input: &Input<'_>, embeddings: &[Vec<f32>], out: &mut dyn Write) -> Result<()> {
    let numbers: String = (1..=embeddings.len()).map(|i| format!("{i:>8}")).collect();
    writeln!(out, "{:>4}{numbers}  text", "")?;
    for (i, (text, own)) in input.texts.iter().zip(embeddings).enumerate() {
        let row: String = embeddings.iter().map(|other| format!("{:>8.4}", cosine(own, other))).collect();
        writeln!(out, "{:>4}{row}  {}", i + 1, shortened(&text.text))?;
    }
    Ok(())
}

/// The cosine, or 0 if one of the vectors is zero.
fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    if lengths == 0.0 { 0.0 } else { dot(a, b) / lengths }
}

/// A text on one line.
fn shortened(text: &str) -> String {
    let line = text.replace('\r', "\\r").replace('\n', "\\n");
    match line.char_indices().nth(WIDTH) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_do_not_depend_on_length() {
        assert!((cosine(&[3.0, 4.0], &[6.0, 8.0]) - 1.0).abs() < 1e-12);
        assert_eq!(cosine(&[1.0, 0.0], &[0.0, 2.0]), 0.0);
        assert_eq!(cosine(&[0.0, 0.0], &[0.0, 2.0]), 0.0);
    }

    #[test]
    fn texts_are_shown_on_one_line() {
        assert_eq!(shortened("a\nb"), "a\\nb");
        assert_eq!(shortened(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
    }
}

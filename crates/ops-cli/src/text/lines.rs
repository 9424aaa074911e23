//! Prompts, one on each line.
use super::Result;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Maximum number of bytes in a line. No model reads as many tokens.
const MAX_LINE: u64 = 1 << 24;

/// The lines of a text as they arrive: each with its number, from 1, and its text or why it has none. Memory use is limited whatever
/// the input is.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    number: usize,
}

impl<R: BufRead> Lines<R> {
    /// The lines of this text.
    pub(crate) fn new(reader: R) -> Self {
        Lines { reader, number: 0 }
    }

    fn read(&mut self) -> io::Result<Option<std::result::Result<String, String>>> {
        let mut bytes = Vec::new();
        if self.reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let number = self.number;
        if bytes.len() as u64 == MAX_LINE && !bytes.ends_with(b"\n") {
            self.reader.skip_until(b'\n')?;
            return Ok(Some(Err(format!("line {number} is longer than {} MiB", MAX_LINE >> 20))));
        }
        Ok(Some(match String::from_utf8(bytes) {
            Ok(text) => Ok(text.trim_end_matches(['\r', '\n']).to_owned()),
            Err(error) => {
                let at = error.utf8_error().valid_up_to() + 1;
                Err(format!("line {number} is not UTF-8: its byte {at} is not part of a character"))
            }
        }))
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    /// An error of reading is the last item.
    type Item = io::Result<(usize, std::result::Result<String, String>)>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.read().transpose()?.map(|line| (self.number, line)))
    }
}

/// All lines of a file, or of standard input, that are not empty, with their numbers.
pub(crate) fn prompts(file: Option<&Path>, standard: &mut dyn Read) -> Result<Vec<(usize, String)>> {
    let name = file.map_or("standard input".to_owned(), |file| file.display().to_string());
    let unread = |error: io::Error| format!("cannot read {name}: {error}");
    let mut opened;
    let reader: &mut dyn Read = match file {
        Some(file) => {
            opened = File::open(file).map_err(unread)?;
            &mut opened
        }
        None => standard,
    };
    let mut found = Vec::new();
    for line in Lines::new(BufReader::new(reader)) {
        let (number, text) = line.map_err(unread)?;
        let text = text.map_err(|why| format!("{name}: {why}"))?;
        if !text.trim().is_empty() {
            found.push((number, text));
        }
    }
    if found.is_empty() {
        return Err(format!("{name} has no line with a text").into());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<(usize, std::result::Result<String, String>)> {
        Lines::new(text).map(std::result::Result::unwrap).collect()
    }

    #[test]
    fn lines_have_numbers_and_bad_ones_do_not_end_the_others() {
        let found = lines(b"one\r\n\ntw\xffo\n\xe2\x82\nlast");
        let expected = [
            (1, Ok("one".to_owned())),
            (2, Ok(String::new())),
            (3, Err("line 3 is not UTF-8: its byte 3 is not part of a character".to_owned())),
            (4, Err("line 4 is not UTF-8: its byte 1 is not part of a character".to_owned())),
            (5, Ok("last".to_owned())),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_line_without_end_takes_limited_memory() {
        let endless = BufReader::new(io::repeat(b'a').take(5 * MAX_LINE).chain(&b"\nnext\n"[..]));
        let found: Vec<_> = Lines::new(endless).map(|line| line.unwrap().1).collect();
        assert_eq!(found, [Err("line 1 is longer than 16 MiB".to_owned()), Ok("next".to_owned())]);
    }

    #[test]
    fn a_bad_line_of_a_list_is_named() {
        let error = prompts(None, &mut &b"a\n\xff\n"[..]).unwrap_err().to_string();
        assert!(error.starts_with("standard input: line 2 is not UTF-8"), "{error}");
        assert_eq!(prompts(None, &mut &b" \na\n"[..]).unwrap(), [(2, "a".to_owned())]);
        assert!(prompts(None, &mut &b" \n"[..]).unwrap_err().to_string().contains("no line"));
        assert!(prompts(Some(Path::new("/no/such/file")), &mut io::empty()).is_err());
    }
}

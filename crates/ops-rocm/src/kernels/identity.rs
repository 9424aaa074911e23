//! What distinguishes one compiler from another: the files of hipRTC and of comgr, which hipRTC uses to
//! compile.
//!
//! Distributions update comgr independently of hipRTC, and the version that it reports is that of its
//! interface, which a new LLVM need not change. So each file is identified by path, size, modification time,
//! and the linker's build id, a hash of the contents: times and sizes may be equal for reproducible builds,
//! and some builds have no build id.
use crate::hip::Compiler;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// A text that differs between compilers that may generate different code.
pub(super) fn of(compiler: &Compiler) -> String {
    let hiprtc = compiler.lib();
    let comgr = compiler.comgr().map(|file| of_file(&file));
    format!("{} {:?}; {comgr:?}", of_file(hiprtc.path()), hiprtc.version())
}

fn of_file(path: &Path) -> String {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let meta = fs::metadata(&path).ok();
    let changed = meta.as_ref().and_then(|meta| meta.modified().ok()?.duration_since(UNIX_EPOCH).ok());
    let id = File::open(&path).ok().and_then(|mut file| build_id(&mut file));
    format!("{} {:?} {changed:?} {id:02x?}", path.display(), meta.map(|meta| meta.len()))
}

/// No table or note of a real library is larger.
const MAX_BYTES: u64 = 1 << 16;

/// The build id of a 64-bit little-endian ELF file, from its notes.
fn build_id(file: &mut (impl Read + Seek)) -> Option<Vec<u8>> {
    let header = part(file, 0, 64)?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, size, count) = (u64_at(&header, 32)?, u16_at(&header, 54)?, u16_at(&header, 56)?);
    let segments = part(file, table, u64::from(size) * u64::from(count))?;
    const NOTES: u32 = 4;
    segments.chunks_exact(usize::from(size).max(1)).find_map(|segment| {
        let notes = (u32_at(segment, 0)? == NOTES).then_some((u64_at(segment, 8)?, u64_at(segment, 32)?))?;
        find_build_id(&part(file, notes.0, notes.1)?)
    })
}

/// Notes are: length of the name, length of the contents, kind, then name and contents, each padded to four bytes.
fn find_build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    const BUILD_ID: u32 = 3;
    loop {
        let [name, contents, kind] = [u32_at(notes, 0)?, u32_at(notes, 4)?, u32_at(notes, 8)?];
        let (name, contents) = (name as usize, contents as usize);
        let start = name.checked_next_multiple_of(4)?.checked_add(12)?;
        let end = start.checked_add(contents)?;
        if kind == BUILD_ID && notes.get(12..12 + name) == Some(b"GNU\0") {
            return Some(notes.get(start..end)?.to_vec());
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..)?;
    }
}

fn part(file: &mut (impl Read + Seek), start: u64, bytes: u64) -> Option<Vec<u8>> {
    let mut part = vec![0; usize::try_from(bytes).ok().filter(|_| bytes <= MAX_BYTES)?];
    file.seek(SeekFrom::Start(start)).ok()?;
    file.read_exact(&mut part).ok()?;
    Some(part)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn note(name: &[u8], contents: &[u8], kind: u32) -> Vec<u8> {
        let lengths = [name.len() as u32, contents.len() as u32, kind];
        let mut note: Vec<u8> = lengths.iter().flat_map(|n| n.to_le_bytes()).collect();
        for part in [name, contents] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    /// A file with one segment of notes.
    fn elf(notes: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 64 + 56];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[32] = 64; // where the segments are described
        (file[54], file[56]) = (56, 1);
        file[64] = 4; // of notes
        file[64 + 8] = 120; // where they are
        file[64 + 32..64 + 40].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        [file.as_slice(), notes].concat()
    }

    #[test]
    fn the_build_id_is_found_among_the_notes() {
        let notes =
            [note(b"GNU\0", b"other", 5), note(b"Go\0", b"x", 3), note(b"GNU\0", b"12345", 3)].concat();
        let file = elf(&notes);
        assert_eq!(build_id(&mut Cursor::new(&file)), Some(b"12345".to_vec()));
        for length in 0..file.len() - 3 {
            assert_eq!(build_id(&mut Cursor::new(&file[..length])), None, "cut to {length} bytes");
        }
        for byte in 0..file.len() {
            let mut damaged = file.clone();
            damaged[byte] ^= 0xff;
            let _no_panic = build_id(&mut Cursor::new(&damaged));
        }
    }

    #[test]
    fn files_with_equal_sizes_and_times_differ_by_their_contents() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("libamd_comgr.so.3");
        let identity = |id: &[u8]| {
            fs::write(&file, elf(&note(b"GNU\0", id, 3))).unwrap();
            File::options().write(true).open(&file).unwrap().set_modified(UNIX_EPOCH).unwrap();
            of_file(&file)
        };
        assert_eq!(identity(b"first"), identity(b"first"));
        assert_ne!(identity(b"first"), identity(b"other"));
    }
}

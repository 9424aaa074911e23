//! The bundled model, truncated at many points and with bytes flipped. Each variant must give an error or a readable file,
//! never a panic, and must not use more memory than the file's size justifies.
#![cfg(unix)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use common::{MODEL, Raw, scratch};
use ops_gguf::Gguf;

/// Counts live bytes and records the peak.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grown(by: usize) {
    PEAK.fetch_max(LIVE.fetch_add(by, Relaxed) + by, Relaxed);
}

// SAFETY: every call is forwarded to the system allocator; the counters do not touch its memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        // SAFETY: the caller upholds the contract of the system allocator.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grown(size);
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A copy of the model on disk that is damaged in place. It is opened by mapping, so that no copy of its size is made.
struct Victim {
    path: std::path::PathBuf,
    file: File,
    original: Vec<u8>,
}

impl Victim {
    fn new() -> Self {
        let path = scratch("hostile.gguf");
        let original = std::fs::read(MODEL).unwrap();
        std::fs::write(&path, &original).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        Self { path, file, original }
    }

    /// Opens the file and uses everything in it. `damage` describes the damage.
    fn open(&self, damage: &dyn std::fmt::Display, tokenizer: bool) -> bool {
        let before = LIVE.load(Relaxed);
        PEAK.store(before, Relaxed);
        let opened = catch_unwind(AssertUnwindSafe(|| use_all(&self.path, tokenizer)));
        let peak = PEAK.load(Relaxed) - before;
        assert!(peak <= 2 * self.original.len(), "{damage}: {peak} bytes of memory");
        opened.unwrap_or_else(|_| panic!("{damage}: panicked"))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Opens the file and reads every tensor that has data. Returns whether it opened.
fn use_all(path: &std::path::Path, tokenizer: bool) -> bool {
    let Ok(gguf) = Gguf::open(path) else { return false };
    for tensor in gguf.tensors() {
        let bytes = tensor.bytes().map_or(0, <[u8]>::len);
        let _ = tensor.view::<f32>().map(|w| assert_eq!(w.len() * 4, bytes));
        assert!(bytes as u64 + tensor.offset() <= gguf.file_len());
    }
    #[cfg(feature = "tokenizer")]
    if tokenizer && let Ok(tokenizer) = gguf.tokenizer() {
        let all: Vec<u32> = (0..tokenizer.vocab_size() as u32).collect();
        let text = tokenizer.decode(&all).unwrap();
        // This is an error if the damage removed a byte's token.
        let _ = tokenizer.encode(&text);
        let _ = tokenizer.encode("In the beginning 12:3 \u{e9}\u{1f600}</s>");
    }
    let _ = tokenizer;
    true
}

/// Start of the tensor data: everything before it is structure.
fn front_len() -> usize {
    Gguf::open(MODEL).unwrap().tensors().map(|t| t.offset()).min().unwrap() as usize
}

#[test]
fn damaged_files_are_refused_or_read() {
    let victim = Victim::new();
    let front = front_len();
    assert!(victim.open(&"undamaged", true));
    truncated(&victim, front);
    flipped(&victim, front);
    claims();
}

/// Files of 1 MiB whose counts claim as many items as the file could hold, but that contain none.
fn claims() {
    let whole = 1 << 20;
    let left = |raw: &Raw, least: usize| ((whole - raw.0.len() - 8) / least) as u64;
    let claim = |raw: Raw, least: usize| {
        let count = left(&raw, least);
        raw.u64(count)
    };
    let key = || Raw::v3(0, 1).str("k").u32(9);
    let arrays_in_arrays = (0..8).fold(key(), |raw, _| claim(raw.u32(9), 12));
    let files = [
        ("tensors", claim(Raw::default().bytes(b"GGUF").u32(3), 24).u64(0)),
        ("metadata keys", claim(Raw::default().bytes(b"GGUF").u32(3).u64(0), 13)),
        ("strings", claim(key().u32(8), 8)),
        ("numbers", claim(key().u32(10), 8)),
        ("arrays in arrays", arrays_in_arrays),
    ];
    for (name, raw) in files {
        let mut bytes = raw.0;
        bytes.resize(whole, 0xff);
        let before = LIVE.load(Relaxed);
        PEAK.store(before, Relaxed);
        let opened = catch_unwind(|| Gguf::from_bytes(bytes).map(drop));
        let peak = PEAK.load(Relaxed) - before;
        assert!(peak <= 2 * whole, "{name}: {peak} bytes of memory");
        assert_eq!(
            opened.unwrap_or_else(|_| panic!("{name}: panicked")).is_ok(),
            name == "numbers",
            "{name}"
        );
    }
}

/// Truncates at every length near the end of the structure and of the file, and at many between.
fn truncated(victim: &Victim, front: usize) {
    let whole = victim.original.len();
    let inside = (0..front).step_by(173).chain(front.saturating_sub(300)..front + 300);
    let data = (front..whole).step_by(9973).chain(whole - 100..whole);
    let mut lengths: Vec<usize> = (0..700).chain(inside).chain(data).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    for len in lengths {
        victim.file.set_len(len as u64).unwrap();
        assert!(!victim.open(&format_args!("truncated to {len} bytes"), false), "opened with {len} bytes");
    }
    victim.file.write_all_at(&victim.original, 0).unwrap();
}

/// Flips the lowest bit, and all bits, of every byte at both ends of the structure and of a sample of the vocabulary between.
fn flipped(victim: &Victim, front: usize) {
    let edge = 3_000.min(front / 2);
    let points = (0..edge).chain((edge..front - edge).step_by(199)).chain(front - edge..front);
    let mut opened = 0;
    for (n, at) in points.enumerate() {
        for mask in [0x01, 0xff] {
            victim.file.write_all_at(&[victim.original[at] ^ mask], at as u64).unwrap();
            let damage = format_args!("byte {at} turned by 0x{mask:02x}");
            opened += usize::from(victim.open(&damage, n % 16 == 0));
        }
        victim.file.write_all_at(&[victim.original[at]], at as u64).unwrap();
    }
    assert!(
        opened > 100,
        "only {opened} flips left a readable file, although most bytes are texts and numbers"
    );
    assert!(victim.open(&"restored", true));
}

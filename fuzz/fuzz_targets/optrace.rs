//! Reads arbitrary bytes as a trace, with all its contents.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ops_test::trace::{Memory, Trace};
use std::io::Cursor;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut trace) = Trace::read(Cursor::new(bytes)) else { return };
    assert!(trace.run.iter().all(|call| *call < trace.calls.len()));
    let known = trace.calls.iter().filter_map(|call| call.detail.as_ref().ok());
    for operand in known.flat_map(|detail| &detail.operands) {
        let wanted = operand.layout.extent().len() * operand.dtype.size();
        match &operand.memory {
            Memory::Bytes(bytes) => assert_eq!(bytes.len(), wanted),
            Memory::Block(number) => assert_eq!(trace.blocks.read(*number).unwrap().len(), wanted),
            Memory::Bounds(least, greatest) => assert!(least <= greatest),
            Memory::Unknown => {}
        }
    }
});

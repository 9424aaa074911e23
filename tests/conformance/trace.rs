//! Written traces are read back, and damaged ones are refused.
use ops_test::trace::*;
use ops_test::{CallError, Params};
use rocm_ops::combine::Traced;
use rocm_ops::ops::*;
use rocm_ops::{Backend, Cpu};
use serde_json::{Map, Value, json};
use std::io::Cursor;
use std::sync::Arc;

type Recording = Traced<Cpu>;

/// The trace of what `run` calls.
fn traced(inputs: bool, run: impl FnOnce(&Recording) -> rocm_ops::Result<()>) -> (Vec<u8>, TraceSummary) {
    let recorder = Arc::new(TraceRecorder::new(Vec::new(), Map::new(), inputs).unwrap());
    run(&Traced::new(Cpu::new(), recorder.clone())).unwrap();
    recorder.finish().unwrap()
}

fn read(file: &[u8]) -> Result<Trace<Cursor<&[u8]>>, TraceError> {
    Trace::read(Cursor::new(file))
}

fn detail<R>(trace: &Trace<R>, at: usize) -> &CallDetail {
    trace.calls[at].detail.as_ref().unwrap()
}

/// A lookup, and an op in place on a part of its result.
fn lookup(b: &Recording) -> rocm_ops::Result<()> {
    let table = b.tensor(&[4, 2], &[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])?;
    let ids = b.tensor(&[3], &[3u32, 0, 3])?;
    let mut rows = b.index_select(&table, &ids, IndexSelect::axis(0))?;
    b.affine_inplace(rows.as_mut().narrow(1, 0, 1)?, 0.5, 0.25)
}

#[test]
fn a_call_is_read_as_it_was_made() {
    let (file, written) = traced(true, |b| (0..3).try_for_each(|_| lookup(b)));
    assert_eq!((written.calls, written.distinct, written.bytes), (6, 2, file.len() as u64));
    let mut trace = read(&file).unwrap();
    assert_eq!(trace.run, [0, 1, 0, 1, 0, 1]);
    let [table, ids, rows] = &detail(&trace, 0).operands[..] else { panic!("three operands") };
    assert_eq!((table.name.as_str(), table.memory.clone()), ("x", Memory::Block(0)));
    assert_eq!(ids.memory, Memory::Bytes(bytemuck::cast_slice(&[3u32, 0, 3]).to_vec()));
    assert_eq!((rows.memory.clone(), rows.layout.dims()), (Memory::Unknown, &[3, 2][..]));
    assert_eq!(detail(&trace, 0).params.0, Params::new(json!({"axis": 0})).unwrap().0);

    let part = &detail(&trace, 1).operands[0];
    assert_eq!(
        (part.layout.dims(), part.layout.strides(), part.layout.offset()),
        (&[3, 1][..], &[2, 1][..], 0)
    );
    assert_eq!(part.memory, Memory::Block(1));
    let before: Vec<f32> = bytemuck::pod_collect_to_vec(&trace.blocks.read(1).unwrap());
    assert_eq!(
        before,
        [6.0, 7.0, 0.0, 1.0, 6.0],
        "the memory before the call, from the first element to the last"
    );
    assert!(trace.blocks.read(2).is_err());
}

#[test]
fn without_inputs_integers_are_still_known() {
    let many: Vec<u32> = (0..2000).map(|i| 1 + i % 3).collect();
    let (file, _) = traced(false, |b| {
        lookup(b)?;
        let (table, ids) = (b.tensor(&[4, 1], &[0.0f32; 4])?, b.tensor(&[2000], &many)?);
        b.index_select(&table, &ids, IndexSelect::axis(0)).map(drop)
    });
    let trace = read(&file).unwrap();
    let memory = |call: usize, operand: usize| detail(&trace, call).operands[operand].memory.clone();
    assert_eq!(memory(0, 0), Memory::Unknown);
    assert!(matches!(memory(0, 1), Memory::Bytes(_)));
    assert_eq!(memory(2, 1), Memory::Bounds(1, 3));
}

#[test]
fn optional_operands_and_states_are_there_if_they_were_given() {
    let (file, _) = traced(true, |b| {
        let q = b.tensor(&[1, 1, 1, 2], &[1.0f32, 2.0])?;
        b.attention_lse(&q, &q, &q, AttentionExtras::new(), Attention::full())?;
        let (x, weight) = (b.tensor(&[1, 1, 1], &[4.0f32])?, b.tensor(&[1, 3], &[1.0f32; 3])?);
        let mut state = b.tensor(&[1, 1, 2], &[2.0f32, 3.0])?;
        b.conv1d_update(&x, &weight, None, &mut state, Conv1dUpdate::plain()).map(drop)
    });
    let mut trace = read(&file).unwrap();
    let names = |at: usize| detail(&trace, at).operands.iter().map(|o| o.name.clone()).collect::<Vec<_>>();
    assert_eq!(
        (trace.calls[0].op.as_str(), names(0)),
        ("attention", ["q", "k", "v", "o", "lse"].map(String::from).to_vec())
    );
    assert_eq!(names(1), ["x", "weight", "state", "y"]);
    let Memory::Block(before) = detail(&trace, 1).operands[2].memory else { panic!("the state is read") };
    let before: Vec<f32> = bytemuck::pod_collect_to_vec(&trace.blocks.read(before).unwrap());
    assert_eq!(before, [2.0, 3.0], "before the call");
}

#[test]
fn strides_of_any_sign_are_kept() {
    let shape = |operand: Value| {
        let line = json!({"call": {"op": "copy", "dtype": "f32", "options": {}, "operands": [operand]}});
        read(&file(&[line, end(0)])).map(|trace| detail(&trace, 0).operands[0].layout)
    };
    let layout = shape(json!({"name": "x", "dtype": "f32", "shape": [2, 3], "strides": [-3, 1]})).unwrap();
    assert_eq!((layout.offset(), layout.extent()), (3, 0..6));
    let layout = shape(json!({"name": "x", "dtype": "f32", "shape": [4, 3], "strides": [0, 1]})).unwrap();
    assert_eq!(layout.extent(), 0..3);
}

#[test]
fn ops_that_cannot_be_replayed_are_listed() {
    use rocm_ops::combine::{Recorder, TracedCall};
    /// Gives every call a name that no registry has.
    struct Renamed(Arc<TraceRecorder<Vec<u8>>>);
    impl Recorder for Renamed {
        fn wants(&self, operand: &rocm_ops::backend::Operand<'_>) -> bool {
            self.0.wants(operand)
        }
        fn record(&self, mut call: TracedCall) -> rocm_ops::Result<()> {
            call.op = "of_another_crate";
            self.0.record(call)
        }
    }
    let recorder = Arc::new(TraceRecorder::new(Vec::new(), Map::new(), false).unwrap());
    let b = Traced::new(Cpu::new(), Arc::new(Renamed(recorder.clone())));
    lookup(&b).unwrap();
    let (file, written) = recorder.finish().unwrap();
    let reason = "it is not an op of this build".to_owned();
    let missing = [NotRecorded { op: "of_another_crate".into(), calls: 2, reason }];
    assert_eq!((written.calls, &written.not_recorded[..]), (0, &missing[..]));
    assert_eq!(read(&file).unwrap().not_recorded, missing);
    assert!(lookup(&b).is_err(), "the trace is finished");
}

#[test]
fn every_cut_and_every_changed_byte_is_noticed_or_harmless() {
    let (whole, _) = traced(true, lookup);
    for end in 0..whole.len() {
        let cut = read(&whole[..end]);
        assert!(cut.is_err(), "cut after {end} of {} bytes", whole.len());
    }
    for at in 0..whole.len() {
        for change in [0x01, 0x20, 0x80] {
            let mut changed = whole.clone();
            changed[at] ^= change;
            // Must not panic. Some changes, such as another digit of a value, make another valid trace.
            if let Ok(mut trace) = read(&changed) {
                (0..trace.calls.len()).for_each(|block| drop(trace.blocks.read(block)));
            }
        }
    }
}

/// A file of these records.
fn file(records: &[Value]) -> Vec<u8> {
    let mut file = b"{\"optrace\":1,\"about\":{}}\n".to_vec();
    records.iter().for_each(|record| file.extend(format!("{record}\n").bytes()));
    file
}

fn end(calls: usize) -> Value {
    json!({"end": {"calls": calls, "not_recorded": []}})
}

#[test]
fn what_is_wrong_is_named() {
    let operand = |more: Value| {
        let mut operand = json!({"name": "x", "dtype": "u32", "shape": [2]});
        operand.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"call": {"op": "neg", "dtype": "f32", "options": {}, "operands": [operand]}})
    };
    let cases = [
        (vec![], "record 2: the file ends here"),
        (vec![json!({"data": 5})], "record 2: it has 5 bytes of data, but 0 are left"),
        (vec![json!({"data": u64::MAX})], "record 2: it has 18446744073709551615 bytes"),
        (vec![json!({"data": 5}), end(0)], "do not end with a line break"),
        (vec![json!({"run": [0]})], "it runs call 0, but only 0 are known"),
        (vec![end(1)], "it counts 1 calls, but 0 were recorded"),
        (vec![end(0), end(0)], "something follows it"),
        (vec![json!({"sum": 1})], "`sum` is not a record of this version"),
        (vec![json!([1])], "wanted an object with one of"),
        (vec![json!({"call": {"op": "neg"}})], "`call` has no `dtype`"),
        (vec![operand(json!({"offset": 1}))], "neg: `operand` has a field `offset`"),
        (vec![operand(json!({"shape": [1u64 << 40, 1u64 << 40]}))], "neg: x: a tensor of shape"),
        (vec![operand(json!({"shape": [1, 1, 1, 1, 1, 1, 1, 1, 1]}))], "rank 9 exceeds"),
        (vec![operand(json!({"shape": [-1]}))], "`shape` is [-1], wanted extents"),
        (vec![operand(json!({"strides": [1, 2]}))], "every axis needs exactly one stride"),
        (vec![operand(json!({"strides": [i64::MIN]}))], "bad strides"),
        (vec![operand(json!({"values": [1]}))], "neg: x: 1 values, wanted 2"),
        (vec![operand(json!({"values": [1, -1]}))], "not all of its values are u32"),
        (vec![operand(json!({"bounds": [2, 1]}))], "`bounds` is [2,1], wanted"),
        (vec![operand(json!({"data": 0}))], "`data` is 0, wanted the number of a block"),
        (vec![operand(json!({"values": [1, 2], "bounds": [1, 2]}))], "more than one of"),
    ];
    for (records, want) in cases {
        let error = read(&file(&records)).unwrap_err().to_string();
        assert!(error.contains(want), "{error}\nwanted {want}");
    }
    let mut short = b"{\"optrace\":1,\"about\":{}}\n{\"data\":4}\nabcd\n".to_vec();
    short.extend(format!("{}\n", operand(json!({"data": 0}))).bytes());
    let error = read(&short).unwrap_err().to_string();
    assert!(error.contains("record 3: neg: x: data 0 has 4 bytes, wanted 2 elements of 4 bytes"), "{error}");
}

#[test]
fn other_files_and_versions_are_refused() {
    assert!(matches!(read(b""), Err(TraceError::NotATrace)));
    assert!(matches!(read(b"GGUF"), Err(TraceError::NotATrace)));
    let error = read(b"{\"optrace\":2,\"about\":{}}\n").unwrap_err().to_string();
    assert!(error.contains("version 2") && error.contains("reads version 1"), "{error}");
}

#[test]
fn what_this_build_does_not_know_makes_one_call_unsupported() {
    let call = |dtype: &str, operand: &str| {
        let operands = json!([{"name": "x", "dtype": operand, "shape": [2]}]);
        json!({"call": {"op": "neg", "dtype": dtype, "options": {}, "operands": operands}})
    };
    let file = file(&[call("f4", "f32"), call("f32", "f4"), call("f32", "f32"), end(0)]);
    let trace = read(&file).unwrap();
    for unknown in &trace.calls[..2] {
        let why = unknown.detail.as_ref().unwrap_err();
        assert!(matches!(why, CallError::Unsupported(why) if why.contains("`f4`")), "{why}");
    }
    assert!(trace.calls[2].detail.is_ok());
}

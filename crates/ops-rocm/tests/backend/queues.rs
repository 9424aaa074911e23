//! Several queues: order, index errors, threads.
use ops_core::ops::*;
use ops_core::quant::Q8_0;
use ops_core::{Backend, DType, Error, Result, Space};
use ops_cpu::Cpu;
use ops_rocm::hip::Device;
use ops_rocm::{HipSpace, Rocm};
use standin_testing::with_standin;

#[test]
fn an_index_out_of_range_is_told_once_by_the_queue_that_read_it() {
    with_standin("queues::an_index_out_of_range_is_told_once_by_the_queue_that_read_it", &[], |_| {
        let rocm = Rocm::new().unwrap();
        let other = rocm.fork().unwrap();
        let x = rocm.tensor(&[3, 2], &[1.0f32; 6]).unwrap();
        let ids = rocm.tensor(&[4], &[0u32, 7, u32::MAX, 9]).unwrap();
        let y = rocm.index_select(x.as_ref(), ids.as_ref(), IndexSelect::axis(0)).unwrap();
        other.synchronize().unwrap();
        let error = rocm.synchronize().unwrap_err();
        let Error::Index { op, operand, position, index, bound } = error else { panic!("{error}") };
        assert_eq!((op, operand, bound), ("index_select", "ids", 3));
        assert!([(1, 7), (3, 9)].contains(&(position, index)), "{position} {index}");
        // An index out of range counts as no element, and the queue still works.
        rocm.synchronize().unwrap();
        assert_eq!(y.as_ref().to_vec(&rocm).unwrap(), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        rocm.index_select(x.as_ref(), ids.as_ref(), IndexSelect::axis(0)).unwrap();
        let mut host = [0.0f32; 6];
        let read = rocm.read(HipSpace::borrow(x.buffer()), 0, &mut host);
        assert!(matches!(read, Err(Error::Index { .. })), "{read:?}");
        assert_eq!(host, [1.0; 6], "the requested data is there nevertheless");
    });
}

/// Enqueues a lookup of rows in a table of three.
fn look_up(rocm: &Rocm, ids: &[u32]) {
    let x = rocm.tensor(&[3, 2], &[1.0f32; 6]).unwrap();
    let ids = rocm.tensor(&[ids.len()], ids).unwrap();
    rocm.index_select(x.as_ref(), ids.as_ref(), IndexSelect::axis(0)).unwrap();
}

/// The same in a table of blocks: an op with another name.
fn embed(rocm: &Rocm, ids: &[u32]) {
    let table = rocm.tensor(&[3, 32], &[1.0f32; 96]).unwrap();
    let table = rocm.quantize(table.as_ref(), DType::Block(&Q8_0)).unwrap();
    let ids = rocm.tensor(&[ids.len()], ids).unwrap();
    rocm.embedding::<f32>(table.as_ref(), ids.as_ref()).unwrap();
}

/// The op and the operand named by a wait that fails because of an index.
fn blamed(waited: Result<()>) -> (&'static str, &'static str, i64) {
    match waited {
        Err(Error::Index { op, operand, index, .. }) => (op, operand, index),
        other => panic!("no index error: {other:?}"),
    }
}

/// Both queues look up rows, the first with a bad index, and the second waits first.
fn only_the_queue_with_the_bad_index_fails(a: &Rocm, b: &Rocm) {
    // This is each queue's first op that checks indices, so it has the same number in each backend's own numbering.
    embed(b, &[1]);
    look_up(a, &[0, 7]);
    b.synchronize().unwrap();
    assert_eq!(blamed(a.synchronize()), ("index_select", "ids", 7));
    // Both still work, and later errors are found too.
    look_up(a, &[2]);
    a.synchronize().unwrap();
    look_up(a, &[8]);
    embed(b, &[9]);
    assert_eq!(blamed(a.synchronize()), ("index_select", "ids", 8));
    assert_eq!(blamed(b.synchronize()), ("embedding", "ids", 9));
    embed(b, &[2]);
    b.synchronize().unwrap();
}

#[test]
fn an_index_error_is_of_its_queue() {
    with_standin("queues::an_index_error_is_of_its_queue", &[], |_| {
        let rocm = Rocm::new().unwrap();
        only_the_queue_with_the_bad_index_fails(&rocm, &rocm.fork().unwrap());
    });
}

#[test]
fn an_index_error_is_of_its_backend() {
    with_standin("queues::an_index_error_is_of_its_backend", &[], |_| {
        let device = Device::open_default().unwrap();
        let (a, b) = (Rocm::on(device.clone()).unwrap(), Rocm::on(device).unwrap());
        only_the_queue_with_the_bad_index_fails(&a, &b);
    });
}

/// Streams are reused, and so is the memory to which they report.
#[test]
fn an_index_error_of_a_dropped_queue_is_not_the_next_ones() {
    let slow = [("HIP_STANDIN_DELAY_US", "2000")];
    with_standin("queues::an_index_error_of_a_dropped_queue_is_not_the_next_ones", &slow, |standin| {
        let rocm = Rocm::new().unwrap();
        let dropped = rocm.fork().unwrap();
        look_up(&dropped, &[0, 7]);
        drop(dropped);
        let streams = standin.count("hipStreamCreateWithFlags");
        let next = rocm.fork().unwrap();
        assert_eq!(standin.count("hipStreamCreateWithFlags"), streams, "the stream is reused");
        look_up(&next, &[1]);
        next.synchronize().unwrap();
        embed(&next, &[5]);
        assert_eq!(blamed(next.synchronize()), ("embedding", "ids", 5));
        drop(next);
        look_up(&rocm.fork().unwrap(), &[8]);
        rocm.synchronize().unwrap();
    });
}

/// The wait that every download makes finds the record, which needs no separate copy.
#[test]
fn reading_the_record_of_index_errors_costs_no_call() {
    with_standin("queues::reading_the_record_of_index_errors_costs_no_call", &[], |standin| {
        let rocm = Rocm::new().unwrap();
        look_up(&rocm, &[1]);
        rocm.synchronize().unwrap();
        look_up(&rocm, &[2]);
        let calls = || {
            ["hipMemcpyAsync", "hipMemsetAsync", "hipStreamSynchronize", "hipEventSynchronize"]
                .map(|function| standin.count(function))
        };
        let before = calls();
        rocm.synchronize().unwrap();
        let after = calls();
        let made: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(made, [0, 0, 1, 0]);
    });
}

#[test]
fn tensors_pass_between_queues() {
    let slow = [("HIP_STANDIN_DELAY_US", "2000")];
    with_standin("queues::tensors_pass_between_queues", &slow, |_| {
        let (one, mut total) = (Rocm::new().unwrap(), 0.0);
        let two = one.fork().unwrap();
        for round in 0..4 {
            let x = one.tensor(&[1000], &[round as f32; 1000]).unwrap();
            let y = two.add(x.as_ref(), x.as_ref()).unwrap();
            let z = one.mul(y.as_ref(), y.as_ref()).unwrap();
            drop((x, y));
            total += z.as_ref().to_vec(&two).unwrap().iter().sum::<f32>();
            let event = one.mark().unwrap();
            two.wait(&event).unwrap();
        }
        assert_eq!(total, 4.0 * 1000.0 * (0.0 + 1.0 + 4.0 + 9.0));
    });
}

#[test]
fn halves_of_one_buffer_are_read_and_written_at_once() {
    with_standin("queues::halves_of_one_buffer_are_read_and_written_at_once", &[], |_| {
        let rocm = Rocm::new().unwrap();
        let mut x = rocm.tensor(&[2, 3], &[1.0f32, 2.0, 3.0, 0.0, 0.0, 0.0]).unwrap();
        let (from, to) = x.as_mut().split_at(0, 1).unwrap();
        rocm.copy_into(from.as_ref(), to).unwrap();
        assert_eq!(x.as_ref().to_vec(&rocm).unwrap(), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    });
}

fn block<B>(b: &B, seed: usize) -> Result<Vec<f32>>
where
    B: Backend + MatMulOps<f32> + NormOps<f32> + SoftmaxOps<f32> + ElementwiseOps<f32> + AttentionOps<f32>,
{
    let values =
        |n: usize| -> Vec<f32> { (0..n).map(|i| ((i * 31 + seed * 7) % 17) as f32 / 8.0 - 1.0).collect() };
    let x = b.tensor(&[6, 32], &values(192))?;
    let weight = b.tensor(&[32, 32], &values(1024))?;
    let norm = b.tensor(&[32], &values(32))?;
    let h = b.rms_norm(x.as_ref(), norm.as_ref(), RmsNorm::eps(1e-5))?;
    let h = b.linear(h.as_ref(), weight.as_ref())?;
    let heads = h.as_ref().reshape(&[1, 6, 4, 8])?.transpose(1, 2)?;
    let o = b.attention(heads, heads, heads, Attention::causal())?;
    let y = b.softmax(o.as_ref(), Softmax::axis(-1))?;
    b.add(y.as_ref(), y.as_ref())?.as_ref().to_vec(b)
}

#[test]
fn four_threads_with_a_queue_each() {
    with_standin("queues::four_threads_with_a_queue_each", &[], |_| {
        let rocm = Rocm::new().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let queue = rocm.fork().unwrap();
                scope.spawn(move || {
                    for round in 0..5 {
                        let got = block(&queue, thread * 5 + round).unwrap();
                        let want = block(&Cpu::new(), thread * 5 + round).unwrap();
                        assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-5), "{thread} {round}");
                    }
                });
            }
        });
    });
}

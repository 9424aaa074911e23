//! Several queues: order, index errors, threads.
use crate::standin::with_standin;
use ops_core::ops::*;
use ops_core::{Backend, Error, Result, Space, View};
use ops_cpu::Cpu;
use ops_rocm::{HipSpace, Rocm};

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
        // What is out of range is no element, and the queue goes on.
        rocm.synchronize().unwrap();
        assert_eq!(y.as_ref().to_vec(&rocm).unwrap(), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        rocm.index_select(x.as_ref(), ids.as_ref(), IndexSelect::axis(0)).unwrap();
        let mut host = [0.0f32; 6];
        let read = rocm.read(HipSpace::borrow(x.buffer()), 0, &mut host);
        assert!(matches!(read, Err(Error::Index { .. })), "{read:?}");
        assert_eq!(host, [1.0; 6], "what was asked for is there all the same");
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
            let event = one.record().unwrap();
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

fn block<B: Backend>(b: &B, seed: usize) -> Result<Vec<f32>>
where
    B: MatMulOps<f32> + NormOps<f32> + SoftmaxOps<f32> + ElementwiseOps<f32> + AttentionOps<f32>,
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

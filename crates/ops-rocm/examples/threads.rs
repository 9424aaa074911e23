//! Four threads, each with a queue on one device, which pass tensors and events to each other: for tools that
//! watch threads (`tools/ci/threads.sh`). The results are ignored, so launches may be stubs. With `--race` the
//! threads also write a number without a lock, which the tool must detect.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use ops_core::ops::*;
use ops_core::{Backend, Result, Tensor};
use ops_rocm::{HipSpace, Rocm};

const THREADS: usize = 4;

type Values = Arc<Tensor<HipSpace, f32>>;

/// One layer of a decoder: our own kernels, and rocBLAS and MIOpen if they are chosen.
fn layer(queue: &Rocm, x: &Values, weight: &Values) -> Result<Values> {
    let norm = queue.tensor(&[32], &[1.0f32; 32])?;
    let h = queue.rms_norm(x.as_ref().as_ref(), norm.as_ref(), RmsNorm::eps(1e-5))?;
    let h = queue.linear(h.as_ref(), weight.as_ref().as_ref())?;
    let heads = h.as_ref().reshape(&[1, 6, 4, 8])?.transpose(1, 2)?;
    let attended = queue.attention(heads, heads, heads, Attention::causal())?;
    let y = queue.softmax(attended.as_ref(), Softmax::axis(-1))?;
    Ok(Arc::new(queue.silu(y.as_ref().reshape(&[6, 32])?)?))
}

/// Rounds of uploads, layers, gathers, events and downloads, on tensors that other queues read too.
fn work(queue: &Rocm, other: &Rocm, weight: &Values, rounds: usize) -> Result<()> {
    let mut x: Values = Arc::new(queue.tensor(&[6, 32], &[0.5f32; 192])?);
    for round in 0..rounds {
        x = layer(queue, &x, weight)?;
        other.wait(&queue.mark()?)?;
        let theirs = other.add(x.as_ref().as_ref(), x.as_ref().as_ref())?;
        let ids = queue.tensor(&[2], &[0u32, 5])?;
        let picked = queue.index_select(theirs.as_ref(), ids.as_ref(), IndexSelect::axis(0))?;
        picked.as_ref().to_vec(queue)?;
        if round % 2 == 1 {
            queue.trim()?;
        }
        queue.decisions();
        queue.memory_stats();
    }
    queue.synchronize()
}

/// A number that is written without a lock.
struct Raced(UnsafeCell<u64>);
// SAFETY: it is not, and is used only to show that a tool detects the race.
unsafe impl Sync for Raced {}
static RACED: Raced = Raced(UnsafeCell::new(0));

fn main() -> Result<()> {
    let race = std::env::args().any(|arg| arg == "--race");
    let rocm = Rocm::new()?;
    let weight: Values = Arc::new(rocm.tensor(&[32, 32], &[0.25f32; 1024])?);
    // Everything that is created once is created here: libraries and tables, which atomics order, and modules,
    // which the system's loader creates. Valgrind follows neither.
    work(&rocm, &rocm, &weight, 1)?;
    let start = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let start = start.clone();
            let (queue, other, weight) = (rocm.fork()?, rocm.clone(), weight.clone());
            Ok(thread::spawn(move || {
                start.fetch_add(1, Ordering::Relaxed);
                while start.load(Ordering::Relaxed) < THREADS {
                    thread::yield_now();
                }
                if race {
                    // SAFETY: none, intentionally.
                    unsafe { *RACED.0.get() += 1 };
                }
                work(&queue, &other, &weight, 4)
            }))
        })
        .collect::<Result<_>>()?;
    for thread in threads {
        thread.join().expect("no thread panics")?;
    }
    println!("{} kinds of decision", rocm.decisions().len());
    Ok(())
}

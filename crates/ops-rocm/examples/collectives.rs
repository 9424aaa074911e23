//! Makes a group of all cards, checks every collective in every type against its definition, and with `--times` measures `all_reduce`. With
//! `--brief`, fewer types and sizes: for tools that watch threads (`tools/ci/threads.sh`).
use ops_core::group::{Group, Reduction};
use ops_core::ops::ElementwiseMethods;
use ops_core::{Backend, DType, Error, Replay, Result, f16};
use ops_rocm::{Rocm, RocmGroup, Transport};
use ops_test::group::{every_type, run};
use std::hint::black_box;
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    let open = |ordinal: u32| Rocm::builder().ordinal(ordinal).build();
    let devices = Rocm::devices()?;
    // An integrated GPU beside a card has no link of its own to it.
    let cards = devices.iter().filter(|device| device.gfx.is_supported() && !device.integrated);
    let queues = cards.map(|device| open(device.ordinal)).collect::<Result<Vec<_>>>()?;
    for queue in &queues {
        let info = queue.device().info();
        println!("rank {}: {} ({})", info.ordinal, info.name, info.gfx);
        // Opens libraries and makes tables before there are threads.
        queue.abs(&queue.zeros::<f32>([1])?)?;
    }
    // The first conversion to f16 makes std detect the processor's features. It caches them with inlined atomic accesses, which drd
    // takes for plain ones, so it would report a race between ranks.
    black_box(f16::from_f32(black_box(1.0)));
    let ranks = RocmGroup::of(queues)?;
    match ranks.first().and_then(RocmGroup::transport) {
        Some(Transport::Direct) => println!("small messages go into the memory of the other cards"),
        Some(Transport::Host(why)) => println!("small messages go through memory of the host: {why}"),
        None => println!("RCCL moves small messages, too"),
    }
    let failed = |why: String| Error::other(std::io::Error::other(why));
    let asks = |option: &str| std::env::args().any(|arg| arg == option);
    let (types, sizes): (&[DType], &[usize]) = match asks("--brief") {
        true => (&[DType::F16, DType::I16], &[0, 7]),
        false => (every_type(), &[0, 1, 7, 1000]),
    };
    let cases = run(&ranks, types, sizes).map_err(failed)?;
    println!("{} ranks, every collective in {} types: {cases} results are right", ranks.len(), types.len());
    if asks("--times") {
        println!("all_reduce (sum) of f16, in place\n   bytes  µs a call  GB/s of the bus  µs recorded");
        for shift in [13, 14, 16, 18, 20, 22, 24, 26, 28] {
            let (bytes, each) = (1usize << shift, times(&ranks, 1 << shift)?);
            let bus = bytes as f64 * 2.0 * (ranks.len() - 1) as f64 / ranks.len() as f64;
            let recorded = recorded(&ranks, 1 << shift)?;
            let recorded = recorded.map_or("-".to_owned(), |time| format!("{:.1}", time.as_secs_f64() * 1e6));
            println!(
                "{bytes:>9}  {:>9.1}  {:>8.1}  {recorded:>8}",
                each.as_secs_f64() * 1e6,
                bus / each.as_secs_f64() / 1e9
            );
        }
    }
    Ok(())
}

const CALLS: u32 = 50;

/// The time of a call of this many bytes, when calls follow each other, by the slowest rank.
fn times(ranks: &[RocmGroup], bytes: usize) -> Result<Duration> {
    let measure = |g: &RocmGroup| -> Result<Duration> {
        let mut y = g.backend().zeros::<f16>([bytes / 2])?;
        for _ in 0..5 {
            g.all_reduce_inplace(&mut y, Reduction::Sum)?;
        }
        g.backend().synchronize()?;
        let start = Instant::now();
        for _ in 0..CALLS {
            g.all_reduce_inplace(&mut y, Reduction::Sum)?;
        }
        g.backend().synchronize()?;
        Ok(start.elapsed() / CALLS)
    };
    Ok(on_each(ranks, measure)?.into_iter().max().unwrap_or_default())
}

/// The same for recorded calls, where the host takes no part; `None` if these calls cannot be recorded.
fn recorded(ranks: &[RocmGroup], bytes: usize) -> Result<Option<Duration>> {
    let measure = |g: &RocmGroup| -> Result<Option<Duration>> {
        let b = g.backend();
        let mut y = b.zeros::<f16>([bytes / 2])?;
        g.all_reduce_inplace(&mut y, Reduction::Sum)?;
        let calls = || (0..CALLS).try_for_each(|_| g.all_reduce_inplace(&mut y, Reduction::Sum));
        let Ok((graph, ())) = b.capture::<(), Error>(calls) else { return Ok(None) };
        b.replay(&graph)?;
        b.synchronize()?;
        let start = Instant::now();
        b.replay(&graph)?;
        b.synchronize()?;
        Ok(Some(start.elapsed() / CALLS))
    };
    let times: Option<Vec<_>> = on_each(ranks, measure)?.into_iter().collect();
    Ok(times.and_then(|times| times.into_iter().max()))
}

/// What `measure` gives on each rank.
fn on_each<R: Send>(ranks: &[RocmGroup], measure: impl Fn(&RocmGroup) -> Result<R> + Sync) -> Result<Vec<R>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = ranks.iter().map(|rank| scope.spawn(|| measure(rank))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

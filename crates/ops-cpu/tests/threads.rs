//! The threads of backends: how many there are, and when they end.
#![cfg(target_os = "linux")]
use ops_core::{Backend, ops::*};
use ops_cpu::Cpu;
use std::time::{Duration, Instant};

/// Threads of this process that belong to the pool with `size` threads.
fn running(size: usize) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
    };
    let end = format!("/{size}");
    tasks.map(name).filter(|name| name.starts_with("ops-cpu ") && name.trim_end().ends_with(&end)).count()
}

/// Waits until `size` threads run in the pool of that size, or none.
fn wait_for(size: usize, count: usize) {
    let start = Instant::now();
    while running(size) != count {
        assert!(start.elapsed() < Duration::from_secs(30), "{} threads of {size}", running(size));
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn compute(cpu: &Cpu) {
    let x = cpu.zeros::<f32>(&[400, 400]).unwrap();
    assert_eq!(cpu.cos(&x).unwrap().to_vec(cpu).unwrap(), [1.0; 160_000]);
}

#[test]
fn threads_end_with_the_last_backend() {
    for _ in 0..3 {
        let first = Cpu::builder().threads(5).build().unwrap();
        let (clone, second) = (first.clone(), Cpu::builder().threads(5).build().unwrap());
        compute(&first);
        drop(first);
        compute(&clone);
        drop(clone);
        compute(&second);
        wait_for(5, 5);
        drop(second);
        wait_for(5, 0);
    }
}

#[test]
fn a_backend_may_be_dropped_by_one_of_its_threads() {
    let cpu = Cpu::builder().threads(3).build().unwrap();
    let parts = (0..12).map(|_| cpu.clone()).collect();
    cpu.for_each_part(parts, |inner: Cpu| {
        compute(&inner);
        assert_eq!(inner.threads(), 3);
    });
    drop(cpu);
    wait_for(3, 0);
}

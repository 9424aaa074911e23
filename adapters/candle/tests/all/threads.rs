//! Several threads, one tensor.
use crate::compare::*;
use rocm_ops::ops::Attention;
use rocm_ops_candle::Extras;
use std::sync::mpsc;
use std::time::Duration;

/// Every operand is the same tensor, and another thread waits to write it: a call must not wait for a second lock on it.
#[test]
fn an_operand_given_twice_is_locked_once() {
    let (done, finished) = mpsc::channel();
    let x = of::<f32>(&[1, 2, 16, 8], 1);
    let writer = {
        let (x, done) = (x.clone(), done.clone());
        move || {
            let (rows, slots) = (of::<f32>(&[1, 16, 8], 2), indices(&[1], &[1]));
            for _ in 0..2000 {
                cpu().cache_write(&rows, &slots, &x.squeeze(0).unwrap()).unwrap();
            }
            done.send(()).unwrap();
        }
    };
    let reader = move || {
        for _ in 0..2000 {
            cpu().attention(&x, &x, &x, Extras::default(), Attention::full()).unwrap();
        }
        done.send(()).unwrap();
    };
    std::thread::spawn(writer);
    std::thread::spawn(reader);
    for _ in 0..2 {
        finished.recv_timeout(Duration::from_secs(60)).expect("a thread waits for itself");
    }
}

use super::*;
use crate::cpu::runs::map_runs;
use ops_core::{DType, Error};

fn output<'a>(bytes: &'a mut [u8], dims: &[usize], strides: &[isize]) -> RawMut<'a> {
    let layout = Layout::strided(dims, strides, 0).unwrap();
    RawMut { bytes, size: 1, dtype: DType::U8, layout }
}

#[test]
fn an_output_with_overlapping_rows_is_refused_before_any_thread_starts() {
    let mut bytes = [7u8; 64];
    let untouched =
        |_: &mut [Scratch; 3], _: usize, _: &mut [u8]| -> TaskResult { unreachable!("a row was handed out") };
    // A broadcast output, where all rows coincide; rows that overlap; rows outside the memory.
    for (dims, strides) in [([64, 8], [0, 1]), ([8, 8], [4, 1]), ([9, 8], [8, 1])] {
        let done = for_each_row("copy", output(&mut bytes, &dims, &strides), 1 << 20, &untouched);
        assert!(matches!(done, Err(Error::Device { call: "copy", .. })), "{dims:?} {strides:?}: {done:?}");
    }
    let other = |_: &mut [Scratch; 3], _: usize, _: &mut [u8], _: &mut [u8]| -> TaskResult { unreachable!() };
    let mut more = [7u8; 64];
    let (y, z) = (output(&mut bytes, &[8, 8], &[8, 1]), output(&mut more, &[4, 16], &[16, 1]));
    assert!(for_each_row_pair("add_rms_norm", y, z, 1 << 20, &other).is_err(), "outputs of two shapes");
}

#[test]
fn no_position_leads_outside_an_output() {
    let mut bytes = [7u8; 8];
    let layout = Layout::contiguous(&[2]).unwrap();
    let y = RawMut { bytes: &mut bytes[2..6], size: 2, dtype: DType::F16, layout };
    let sink = Sink::new(y).unwrap();
    let far = usize::MAX / 2;
    for (p, n) in
        [(usize::MAX, 1), (usize::MAX - 1, 4), (far, 1), (far + 1, 1), (far, far + 2), (2, 1), (0, 3)]
    {
        let got = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            // SAFETY: this is the only thread.
            unsafe { sink.elements(p, n) }.len()
        }));
        assert!(got.is_err(), "{n} elements at {p}: {got:?}");
    }
    // SAFETY: as above.
    assert_eq!(unsafe { sink.elements(1, 1) }, [7, 7]);
}

#[test]
fn a_row_is_written_once() {
    let mut bytes = [0u8; 16];
    let rows = Rows::new(output(&mut bytes, &[2, 8], &[8, 1])).unwrap();
    let fill = |i: usize| {
        rows.write(i, &mut Scratch::default(), &mut |row| {
            row.fill(1);
            Ok(())
        })
    };
    assert!(fill(1).is_ok() && fill(1).is_err() && fill(2).is_err() && fill(0).is_ok());
}

#[test]
fn a_fault_in_a_row_fails_the_call() {
    let mut bytes = [0u8; 64];
    let x = Raw { bytes: &[1; 64], size: 1, dtype: DType::U8, layout: Layout::contiguous(&[8, 8]).unwrap() };
    for strides in [[8, 1], [1, 8]] {
        let done =
            map_runs(
                "silu",
                [x],
                output(&mut bytes, &[8, 8], &strides),
                8,
                1 << 20,
                &|_, _| Err("no".into()),
            );
        assert!(matches!(done, Err(Error::Device { call: "silu", .. })), "{done:?}");
    }
}

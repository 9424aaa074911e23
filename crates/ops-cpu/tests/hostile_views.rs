//! Views built to lead outside their buffers: safe code gets an error or a right result, and nothing else in memory changes.
use ops_core::ops::*;
use ops_core::{Backend, Error, Layout, TensorMut, TensorRef};
use ops_cpu::{Cpu, Host, Reference};

/// Layouts without elements, whose other strides would leave any buffer.
fn empties() -> Vec<Layout> {
    let list: [(&[usize], &[isize]); 6] = [
        (&[0, 2], &[1, -1]),
        (&[2, 0], &[-1, 1]),
        (&[0, 5], &[1, isize::MAX]),
        (&[3, 0], &[isize::MIN, 0]),
        (&[0, 2], &[0, 1 << 62]),
        (&[2, 3, 0], &[-5, 1, 1]),
    ];
    list.map(|(dims, strides)| Layout::strided(dims, strides, 0).unwrap()).to_vec()
}

#[test]
fn leaving_out_an_empty_axis_reaches_no_memory() -> ops_core::Result<()> {
    let cpu = Cpu::new();
    for empty in empties() {
        for axis in 0..empty.rank() {
            let Ok(picked) = empty.pick(&[axis]) else { continue };
            // What is left must be the empty axis.
            assert!(picked.is_empty(), "{empty} gave {picked}");
        }
        for view in [empty.pick(&[1, 0]), empty.narrow(0, 0, empty.dims()[0]), empty.unsqueeze(0)] {
            let Ok(view) = view else { continue };
            let mut cells = [0.0f32; 9];
            let (left, rest) = cells.split_at_mut(4);
            let (middle, right) = rest.split_at_mut(1);
            let x = cpu.tensor::<f32>(view.dims(), &[])?;
            cpu.copy_into(&x, TensorMut::<Host, f32>::new(middle, view)?)?;
            assert!(left.iter().chain(&*middle).chain(&*right).all(|v| *v == 0.0), "{view}");
        }
    }
    Ok(())
}

#[test]
fn empty_views_compute_alike_on_both_backends() -> ops_core::Result<()> {
    let data = [1.0f32; 4];
    let view = |layout| TensorRef::<Host, f32>::new(&data, layout);
    for a in empties() {
        let x = view(a)?;
        assert!(Cpu::new().silu(x)?.to_vec(&Cpu::new())?.is_empty());
        assert!(x.to_vec(&Cpu::new())?.is_empty());
        for axes in [Axes::from(0), Axes::from(-1), Axes::ALL] {
            let sums = Cpu::new().sum(x, axes)?.to_vec(&Cpu::new())?;
            assert_eq!(sums, Reference::new().sum(x, axes)?.to_vec(&Reference::new())?, "{a} over {axes:?}");
        }
        // [.., m, k] · [.., k, 4]
        let mut dims = a.dims().to_vec();
        let [.., row, last] = &mut dims[..] else { unreachable!("two axes or more") };
        (*row, *last) = (*last, 4);
        // A factor without elements can have any strides; one with elements is a broadcast number.
        let b = view(Layout::strided(&dims, &vec![0; dims.len()], 0)?)?;
        let (got, want) = (Cpu::new().matmul(x, b)?, Reference::new().matmul(x, b)?);
        assert_eq!(got.dims(), want.dims());
        assert_eq!(got.to_vec(&Cpu::new())?, want.to_vec(&Reference::new())?, "{a} · {dims:?}");
        let turned = Cpu::new().matmul(b.transpose(-1, -2)?, x.transpose(-1, -2)?)?;
        assert_eq!(turned.shape().len(), got.shape().len());
    }
    Ok(())
}

#[test]
fn views_outside_their_memory_are_errors() {
    let data = [1.0f32; 4];
    for layout in [
        Layout::strided(&[2], &[isize::MAX], 0),
        Layout::strided(&[2, 2], &[1 << 61, 1], 0),
        Layout::strided(&[3], &[1 << 61], 0),
        Layout::contiguous(&[5]),
    ] {
        let error = TensorRef::<Host, f32>::new(&data, layout.unwrap()).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::OutOfBounds { .. }), "{error}");
    }
    for (dims, strides, offset) in
        [(&[2][..], &[-1][..], 0), (&[2], &[isize::MIN], 1), (&[3], &[1 << 62], 1 << 62)]
    {
        assert!(Layout::strided(dims, strides, offset).is_err(), "{dims:?} {strides:?} {offset}");
    }
}

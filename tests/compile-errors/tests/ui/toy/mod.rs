//! A backend with two kernels, in host memory.
use core::marker::PhantomData;
use ops_core::ops::{RmsNorm, Softmax};
use ops_core::{Backend, Call, Element, Execute, Operands, Reason, Result, Space};

/// Memory for elements, made of whole words so that it is aligned for every type: a tensor may forget its type and be bytes.
pub struct Words<T> {
    words: Vec<u64>,
    len: usize,
    of: PhantomData<T>,
}

impl<T: Element> Words<T> {
    fn zeroed(len: usize) -> Self {
        Words { words: vec![0; (len * size_of::<T>()).div_ceil(8)], len, of: PhantomData }
    }
    fn as_slice(&self) -> &[T] {
        bytemuck::cast_slice(&bytemuck::cast_slice::<u64, u8>(&self.words)[..self.len * size_of::<T>()])
    }
    fn as_mut_slice(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut bytemuck::cast_slice_mut::<u64, u8>(&mut self.words)[..self.len * size_of::<T>()])
    }
    fn into_bytes(self) -> Words<u8> {
        Words { words: self.words, len: self.len * size_of::<T>(), of: PhantomData }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Toy;
#[derive(Clone, Copy, Debug)]
pub struct Memory;

impl Space for Memory {
    type Buffer<T: Element> = Words<T>;
    type Ref<'a, T: Element> = &'a [T];
    type Mut<'a, T: Element> = &'a mut [T];
    fn len<T: Element>(view: &[T]) -> usize {
        view.len()
    }
    fn borrow<T: Element>(buffer: &Words<T>) -> &[T] {
        buffer.as_slice()
    }
    fn borrow_mut<T: Element>(buffer: &mut Words<T>) -> &mut [T] {
        buffer.as_mut_slice()
    }
    fn share<'s, T: Element>(view: &'s &mut [T]) -> &'s [T] {
        view
    }
    fn reborrow<'s, T: Element>(view: &'s mut &mut [T]) -> &'s mut [T] {
        view
    }
    fn shorten<'s, 'l: 's, T: Element>(view: &'l [T]) -> &'s [T] {
        view
    }
    fn split_at<T: Element>(view: Self::Mut<'_, T>, mid: usize) -> (Self::Mut<'_, T>, Self::Mut<'_, T>) {
        view.split_at_mut(mid)
    }
    fn bytes<'a, T: Element>(view: Self::Ref<'a, T>) -> Self::Ref<'a, u8> {
        bytemuck::cast_slice(view)
    }
    fn bytes_mut<'a, T: Element>(view: Self::Mut<'a, T>) -> Self::Mut<'a, u8> {
        bytemuck::cast_slice_mut(view)
    }
    fn typed<'a, T: Element>(bytes: Self::Ref<'a, u8>) -> Option<Self::Ref<'a, T>> {
        bytemuck::try_cast_slice(bytes).ok()
    }
    fn typed_mut<'a, T: Element>(bytes: Self::Mut<'a, u8>) -> Option<Self::Mut<'a, T>> {
        bytemuck::try_cast_slice_mut(bytes).ok()
    }
    fn into_bytes<T: Element>(buffer: Words<T>) -> Words<u8> {
        buffer.into_bytes()
    }
    fn aligned(bytes: Self::Ref<'_, u8>, align: usize) -> bool {
        bytes.as_ptr().addr().is_multiple_of(align)
    }
}

impl Backend for Toy {
    type Space = Memory;
    type Event = ();
    fn name(&self) -> &'static str {
        "toy"
    }
    fn alloc<T: Element>(&self, len: usize) -> Result<Words<T>> {
        Ok(Words::zeroed(len))
    }
    fn read<T: Element>(&self, src: &[T], start: usize, dst: &mut [T]) -> Result<()> {
        dst.copy_from_slice(&src[start..][..dst.len()]);
        Ok(())
    }
    fn write<T: Element>(&self, src: &[T], dst: &mut [T], start: usize) -> Result<()> {
        dst[start..][..src.len()].copy_from_slice(src);
        Ok(())
    }
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
    fn fork(&self) -> Result<Self> {
        Ok(Toy)
    }
    fn mark(&self) -> Result<()> {
        Ok(())
    }
    fn wait(&self, _: &()) -> Result<()> {
        Ok(())
    }
}

impl Execute<RmsNorm<f32>> for Toy {
    fn support(&self, _: &RmsNorm<f32>, _: &dyn Operands) -> Result<(), Reason> {
        Ok(())
    }
    fn execute(&self, _: Call<'_, '_, RmsNorm<f32>, Memory>) -> Result<()> {
        Ok(())
    }
}

impl Execute<Softmax<f32>> for Toy {
    fn support(&self, _: &Softmax<f32>, _: &dyn Operands) -> Result<(), Reason> {
        Ok(())
    }
    fn execute(&self, _: Call<'_, '_, Softmax<f32>, Memory>) -> Result<()> {
        Ok(())
    }
}

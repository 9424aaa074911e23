//! [`Backend`](ops_core::Backend) for host memory, where calls are synchronous.

/// Implements [`Backend`](ops_core::Backend) for a backend that computes synchronously in [`Host`](crate::Host) memory.
///
/// Usage: `host_backend!(Cpu, "cpu", zero)`, where `zero` writes zeros to bytes. There is no queue, so `synchronize`, `mark` and
/// `wait` do nothing.
macro_rules! host_backend {
    ($backend:ty, $name:literal, $zero:expr) => {
        impl ops_core::Backend for $backend {
            type Space = $crate::Host;
            type Event = ();

            fn name(&self) -> &'static str {
                $name
            }
            fn alloc<T: ops_core::Element>(&self, len: usize) -> ops_core::Result<$crate::HostBuffer<T>> {
                $crate::HostBuffer::new(len, $name)
            }
            fn read<T: ops_core::Element>(
                &self,
                src: &[T],
                start: usize,
                dst: &mut [T],
            ) -> ops_core::Result<()> {
                ops_core::range("read", start, dst.len(), src.len())?;
                dst.copy_from_slice(&src[start..][..dst.len()]);
                Ok(())
            }
            fn write<T: ops_core::Element>(
                &self,
                src: &[T],
                dst: &mut [T],
                start: usize,
            ) -> ops_core::Result<()> {
                ops_core::range("write", start, src.len(), dst.len())?;
                dst[start..][..src.len()].copy_from_slice(src);
                Ok(())
            }
            fn synchronize(&self) -> ops_core::Result<()> {
                Ok(())
            }
            fn fork(&self) -> ops_core::Result<Self> {
                Ok(self.clone())
            }
            fn mark(&self) -> ops_core::Result<()> {
                Ok(())
            }
            fn wait(&self, (): &()) -> ops_core::Result<()> {
                Ok(())
            }
            fn adopt<T: ops_core::Element>(
                &self,
                memory: ops_core::HostMemory<T>,
            ) -> ops_core::Result<$crate::HostBuffer<T>> {
                Ok($crate::HostBuffer::shared(memory))
            }
            fn alloc_zeroed<T: ops_core::Element>(
                &self,
                len: usize,
            ) -> ops_core::Result<$crate::HostBuffer<T>> {
                let mut buffer = $crate::HostBuffer::new(len, $name)?;
                let zero: fn(&$backend, &mut [u8]) = $zero;
                zero(self, bytemuck::cast_slice_mut(buffer.as_mut_slice()));
                Ok(buffer)
            }
        }

        /// Calls run immediately on borrowed operands, so there is nothing to record.
        impl ops_core::Replay for $backend {
            type Graph = core::convert::Infallible;
        }
    };
}
pub(crate) use host_backend;

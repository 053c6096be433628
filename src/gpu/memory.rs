//! Buffers, and the pool of scratch buffers under a byte budget.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll, Waker};

use super::device::Gpu;
use super::kernel::Kernel;
use super::state::{Pool, close_scope, lock};
use crate::error::{Error, Result};
use crate::future::Boxed;

/// A part of a device buffer, as a kernel sees it.
#[derive(Debug, Clone, Copy)]
pub struct BufferSlice<'a> {
    pub(crate) buffer: &'a wgpu::Buffer,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl<'a> BufferSlice<'a> {
    /// A whole buffer.
    pub fn all(buffer: &'a wgpu::Buffer) -> Self {
        Self { buffer, offset: 0, bytes: buffer.size() }
    }

    /// `bytes` bytes from `offset` on, which must be a multiple of the device's storage offset alignment.
    pub fn range(buffer: &'a wgpu::Buffer, offset: u64, bytes: u64) -> Self {
        Self { buffer, offset, bytes }
    }

    /// An error unless the slice holds `rows` rows of `length` elements, `pitch` elements apart, each of `bytes` bytes.
    pub(crate) fn check_rows(
        self,
        argument: &'static str,
        rows: u32,
        [pitch, length]: [u32; 2],
        bytes: u64,
    ) -> Result<()> {
        let elements = u128::from(rows.saturating_sub(1)) * u128::from(pitch) + u128::from(length);
        let needed = elements * u128::from(bytes);
        if rows > 0 && needed > self.bytes.into() {
            let needed = format!("{needed} bytes for {rows} rows");
            return Err(Error::argument(argument, needed, format!("{} bytes", self.bytes)));
        }
        Ok(())
    }
}

impl<'a> From<&'a wgpu::Buffer> for BufferSlice<'a> {
    fn from(buffer: &'a wgpu::Buffer) -> Self {
        Self::all(buffer)
    }
}

/// Checks a caller's slices as wgpu will, which would report the fault to whoever uses the device next.
pub(super) fn check_slices(gpu: &Gpu, kernel: &Kernel, slices: &[BufferSlice<'_>]) -> Result<()> {
    let align = u64::from(gpu.device.limits().min_storage_buffer_offset_alignment);
    for (place, (&(name, access), slice)) in kernel.buffers.iter().zip(slices).enumerate() {
        let needed = if slice.bytes == 0 || slice.bytes % 4 > 0 {
            "bytes in whole words, at least one".into()
        } else if slice.offset.checked_add(slice.bytes).is_none_or(|end| end > slice.buffer.size()) {
            format!("a range within the buffer's {} bytes", slice.buffer.size())
        } else if slice.offset % align > 0 {
            format!("an offset that is a multiple of {align}")
        } else if !slice.buffer.usage().contains(wgpu::BufferUsages::STORAGE) {
            "a buffer with usage STORAGE".into()
        } else if slices[..place]
            .iter()
            .zip(kernel.buffers)
            .any(|(other, &(_, other_access))| other.buffer == slice.buffer && access != other_access)
        {
            "a buffer that the kernel does not also read or write elsewhere".into()
        } else {
            continue;
        };
        return Err(Error::argument(name, needed, format!("{} bytes from {}", slice.bytes, slice.offset)));
    }
    Ok(())
}

impl Gpu {
    /// A new buffer. Its contents are zero.
    pub(crate) fn create_buffer(
        &self,
        purpose: &str,
        bytes: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<wgpu::Buffer> {
        // A binding needs at least one element, and copies whole words.
        let size = bytes.next_multiple_of(4).max(16);
        let limit = self.adapter.capabilities.max_buffer_bytes;
        if size > limit {
            return Err(Error::unsupported(purpose, format!("a buffer of {size} bytes"), limit));
        }
        self.allocate(&wgpu::BufferDescriptor {
            label: Some(purpose),
            size,
            usage,
            mapped_at_creation: false,
        })
    }

    /// A new buffer, or the error that the device has no memory for it.
    pub(super) fn allocate(&self, descriptor: &wgpu::BufferDescriptor<'_>) -> Result<wgpu::Buffer> {
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let buffer = self.device.create_buffer(descriptor);
        let purpose = descriptor.label.unwrap_or_default().to_owned();
        let bytes = Some(descriptor.size);
        close_scope(&self.faults, memory, move |_| Error::OutOfMemory { purpose: purpose.into(), bytes })?;
        Ok(buffer)
    }

    /// An error when one binding cannot hold these bytes.
    pub(crate) fn check_binding(&self, what: &str, bytes: u64) -> Result<()> {
        let limit = self.adapter.capabilities.max_binding_bytes;
        if bytes <= limit {
            return Ok(());
        }
        Err(Error::unsupported(what, format!("{bytes} bytes in one binding"), limit))
    }

    /// A new buffer for kernels, and for copies in both directions.
    pub(crate) fn create_storage(&self, purpose: &str, bytes: u64) -> Result<wgpu::Buffer> {
        let copies = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        self.create_buffer(purpose, bytes, wgpu::BufferUsages::STORAGE | copies)
    }

    /// Takes all scratch buffers of a call at once, in the order of `requests`. Calls wait in line until others return
    /// theirs. Contents are arbitrary.
    pub(crate) fn reserve<'f>(self: &'f Arc<Self>, requests: &'f [Request]) -> Boxed<'f, Scratch> {
        Box::pin(async move {
            let limit = self.adapter.capabilities.max_binding_bytes;
            let classes: Vec<u64> = requests.iter().map(|request| size_class(request.bytes, limit)).collect();
            let needed: u64 = classes.iter().sum();
            let budget = self.options.budget_bytes;
            if needed > budget {
                let largest = requests.iter().max_by_key(|request| request.bytes);
                let purpose = largest.map_or("scratch", |request| request.purpose).replace('_', " ");
                return Err(Error::Budget { purpose, needed, budget });
            }
            Turn { gpu: self, needed, ticket: None }.await;
            // From here on the bytes are booked; dropping `scratch` gives them back.
            let mut scratch = Scratch { gpu: self.clone(), buffers: Vec::new(), booked: needed };
            for (request, class) in requests.iter().zip(classes) {
                let kept = lock(&self.pool).take(class, budget);
                let buffer = match kept {
                    Some(buffer) => buffer,
                    None => self.create_storage(request.purpose, class)?,
                };
                scratch.buffers.push(buffer);
            }
            Ok(scratch)
        })
    }

    /// [`Gpu::reserve`] for buffers with names: `name` puts each into its field, in the order of `requests`.
    pub(crate) async fn reserve_named<B>(
        self: &Arc<Self>,
        requests: &[Request],
        name: impl FnOnce(&mut dyn FnMut() -> wgpu::Buffer) -> B,
    ) -> Result<Reserved<B>> {
        let scratch = self.reserve(requests).await?;
        let mut taken = 0;
        let mut next = || {
            taken += 1;
            scratch[taken - 1].clone()
        };
        let buffers = name(&mut next);
        Ok(Reserved { buffers, _scratch: scratch })
    }
}

/// Declares a kernel's storage buffers once, from binding 1 on: `BUFFERS` for its declaration, and the struct with what is bound.
macro_rules! buffers {
    ($(#[$meta:meta])* pub(crate) struct Buffers<$l:lifetime> {
        $($(#[$field_meta:meta])* $field:ident: $access:ident $type:ty,)*
    }) => {
        pub(super) const BUFFERS: &[(&str, crate::gpu::Access)] =
            &[$((stringify!($field), crate::gpu::Access::$access),)*];

        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct Buffers<$l> { $($(#[$field_meta])* pub(crate) $field: $type,)* }

        impl<$l> Buffers<$l> {
            fn slices(&self) -> [crate::gpu::BufferSlice<$l>; BUFFERS.len()] {
                [$(self.$field.into(),)*]
            }
        }
    };
}
pub(crate) use buffers;

/// One scratch buffer of a reservation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) purpose: &'static str,
    pub(crate) bytes: u64,
}

/// Declares the scratch buffers of a call: a struct with one field for each buffer. Errors name a buffer by its field.
///
/// `Name::<u64>` holds their bytes, and its `reserve` takes them all at once: a [`Reserved`] with the buffers under the same names.
macro_rules! scratch {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($field:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        $vis struct $name<T = $crate::gpu::Buffer> {
            $(pub(crate) $field: T,)+
        }

        impl $name<u64> {
            /// The sizes with their names.
            $vis fn requests(self) -> impl Iterator<Item = $crate::gpu::Request> {
                [$($crate::gpu::Request { purpose: stringify!($field), bytes: self.$field },)+].into_iter()
            }

            /// Takes buffers of these sizes, under the device's budget.
            $vis async fn reserve(
                self,
                gpu: &std::sync::Arc<$crate::gpu::Gpu>,
            ) -> $crate::error::Result<$crate::gpu::Reserved<$name>> {
                let requests: Vec<_> = self.requests().collect();
                gpu.reserve_named(&requests, |next| $name { $($field: next(),)+ }).await
            }
        }
    };
}
pub(crate) use scratch;

/// Bytes that plans leave for the rounding of small buffers.
const SMALL_BUFFERS: u64 = 16 << 10;

/// The bytes of a budget that remain when every buffer is rounded up to its size class.
pub(crate) fn usable(budget: u64) -> u64 {
    (budget / 8 * 7).saturating_sub(SMALL_BUFFERS)
}

/// The smallest budget with this many usable bytes.
pub(crate) fn budget_for(bytes: u64) -> u64 {
    (bytes + SMALL_BUFFERS).div_ceil(7) * 8
}

/// Scratch buffers are shared between sizes that differ by an eighth at most. A size that fits a binding of `limit` bytes
/// has a class that does.
fn size_class(bytes: u64, limit: u64) -> u64 {
    let bytes = bytes.max(256);
    let step = (bytes.next_power_of_two() / 16).max(256);
    let class = bytes.next_multiple_of(step);
    if class > limit && bytes <= limit { limit / 4 * 4 } else { class }
}

/// The scratch buffers of one call. They go back to the pool when this is dropped; work that was submitted
/// with them is still right, because the device runs submissions in order.
#[derive(Debug)]
pub(crate) struct Scratch {
    gpu: Arc<Gpu>,
    buffers: Vec<wgpu::Buffer>,
    booked: u64,
}

impl std::ops::Index<usize> for Scratch {
    type Output = wgpu::Buffer;

    fn index(&self, index: usize) -> &wgpu::Buffer {
        &self.buffers[index]
    }
}

/// The scratch buffers of one call by their names: see [`scratch!`].
#[derive(Debug)]
pub(crate) struct Reserved<B> {
    buffers: B,
    /// Gives the buffers back.
    _scratch: Scratch,
}

impl<B> std::ops::Deref for Reserved<B> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.buffers
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut pool = lock(&self.gpu.pool);
        pool.booked -= self.booked;
        pool.kept.extend(self.buffers.drain(..));
        wake_first(pool);
    }
}

/// Wakes the call whose turn it is. An executor may poll inside of `wake`, so the pool is unlocked before.
fn wake_first(pool: MutexGuard<'_, Pool>) {
    let first = pool.waiting.front().map(|(_, waker)| waker.clone());
    drop(pool);
    first.into_iter().for_each(Waker::wake);
}

/// Resolves when it is this call's turn and its bytes fit: first come, first served.
struct Turn<'a> {
    gpu: &'a Gpu,
    needed: u64,
    ticket: Option<u64>,
}

impl Turn<'_> {
    /// Leaves the queue. The waker is dropped by the caller, who has unlocked the pool by then: a task may go with it.
    fn leave(&mut self, pool: &mut Pool) -> Option<(u64, Waker)> {
        let ticket = self.ticket.take()?;
        let at = pool.waiting.iter().position(|(other, _)| *other == ticket)?;
        pool.waiting.remove(at)
    }
}

impl Future for Turn<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let gpu = self.gpu;
        let mut waker = context.waker().clone();
        let mut pool = lock(&gpu.pool);
        let first = pool.waiting.front().is_none_or(|(front, _)| Some(*front) == self.ticket);
        if first && pool.booked + self.needed <= gpu.options.budget_bytes {
            pool.booked += self.needed;
            let left = self.leave(&mut pool);
            wake_first(pool);
            drop(left);
            return Poll::Ready(());
        }
        match self.ticket {
            Some(ticket) => {
                if let Some(entry) = pool.waiting.iter_mut().find(|(other, _)| *other == ticket) {
                    std::mem::swap(&mut entry.1, &mut waker);
                }
            }
            None => {
                let ticket = pool.next_ticket;
                self.ticket = Some(ticket);
                pool.next_ticket += 1;
                pool.waiting.push_back((ticket, waker.clone()));
            }
        }
        // The former waker outlives the guard, which is dropped first.
        drop(pool);
        Poll::Pending
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut pool = lock(&self.gpu.pool);
        if let Some(left) = self.leave(&mut pool) {
            wake_first(pool);
            drop(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::size_class;

    #[test]
    fn a_size_class_wastes_an_eighth_at_most() {
        for bytes in [1, 256, 257, 4095, 4096, 4097, 1_000_000, (1 << 28) + 1] {
            let class = size_class(bytes, u64::MAX);
            assert!(class >= bytes && class.is_multiple_of(256), "{bytes} -> {class}");
            assert!(class <= bytes.max(2048) + bytes.max(2048) / 8, "{bytes} -> {class}");
            assert_eq!(size_class(class, u64::MAX), class);
        }
    }

    #[test]
    fn what_fits_a_binding_has_a_class_that_fits() {
        for limit in [100_000_000, (1 << 31) - 4, (1 << 32) - 8] {
            for bytes in [limit / 16 * 15 + 4, limit - 4, limit] {
                let class = size_class(bytes / 4 * 4, limit);
                assert!(class >= bytes / 4 * 4 && class <= limit, "{bytes} of {limit} -> {class}");
            }
            assert!(size_class(limit + 4, limit) > limit, "too large stays too large");
        }
    }
}

//! The memory of a matrix on a device: a buffer of a GPU, or the host's.

use std::sync::Arc;

use crate::engine::device::engine::Engine;
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::gpu::{Buffer, Commands, words};
use crate::interrupt;
use crate::memory;

/// A copy of values, each converted.
pub(crate) fn copied<T: Copy, U>(values: &[T], convert: impl Fn(T) -> U) -> Result<Vec<U>> {
    let mut copy = memory::with_room(values.len())?;
    for values in values.chunks(interrupt::WORK) {
        interrupt::check()?;
        copy.extend(values.iter().map(|&value| convert(value)));
    }
    Ok(copy)
}

/// f32 values that a device keeps, perhaps shared with clones.
#[derive(Debug, Clone)]
pub(crate) enum MatrixMemory {
    Gpu(Arc<Buffer>),
    Host(Arc<Vec<f32>>),
}

impl MatrixMemory {
    pub(crate) fn buffer(&self) -> Result<&Buffer> {
        match self {
            Self::Gpu(buffer) => Ok(buffer),
            Self::Host(_) => Err(Error::unsupported("a buffer", "a GPU", "values in the host's memory")),
        }
    }

    /// The values of the host engine; none on a GPU.
    pub(crate) fn on_host(&self) -> &[f32] {
        match self {
            Self::Gpu(_) => &[],
            Self::Host(values) => values,
        }
    }

    /// Fetches the first `count` values, wherever they are.
    pub(crate) fn read<'f>(&'f self, engine: &'f Engine, count: usize) -> Boxed<'f, Vec<f32>> {
        Box::pin(async move {
            let Engine::Gpu(gpu) = engine else { return copied(self.on_host(), |x| x) };
            let mut values = Vec::with_capacity(count);
            let range = (self.buffer()?, 0, count as u64 * 4);
            Commands::new(gpu, None)
                .read_each(&[range], &mut |_, bytes| values.extend(words::<f32>(bytes)))
                .await?;
            Ok(values)
        })
    }
}

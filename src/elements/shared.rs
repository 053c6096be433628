//! Values of any element type that several owners may share. Whoever writes to shared ones gets a copy.

use std::ops::Range;
use std::sync::Arc;

use half::{bf16, f16};

use crate::elements::{Element, ElementKind, Elements, PackedBits, with_elements, with_type};
use crate::error::Result;
use crate::memory;
use crate::parallel::*;

/// Elements that one thread copies: more threads would take longer to wake.
const COPIED_ALONE: usize = 1 << 18;

/// Owned values, one after another.
#[derive(Debug, Clone)]
pub(crate) enum SharedElements {
    F32(Arc<Vec<f32>>),
    F16(Arc<Vec<f16>>),
    BF16(Arc<Vec<bf16>>),
    I8(Arc<Vec<i8>>),
    U8(Arc<Vec<u8>>),
    Bits(Arc<Vec<PackedBits>>),
}

/// Runs an expression on the shared vector inside, whatever its type.
macro_rules! with_vec {
    ($elements:expr, $values:ident => $run:expr) => {
        match $elements {
            SharedElements::F32($values) => $run,
            SharedElements::F16($values) => $run,
            SharedElements::BF16($values) => $run,
            SharedElements::I8($values) => $run,
            SharedElements::U8($values) => $run,
            SharedElements::Bits($values) => $run,
        }
    };
}

impl From<Arc<Vec<f32>>> for SharedElements {
    fn from(values: Arc<Vec<f32>>) -> Self {
        Self::F32(values)
    }
}

impl SharedElements {
    pub(crate) fn new(kind: ElementKind) -> Self {
        with_type!(kind, T => Self::of::<T>(vec![]))
    }

    /// Values of an element type.
    pub(crate) fn of<T: Element>(values: Vec<T>) -> Self {
        match T::KIND {
            ElementKind::F32 => Self::F32(Arc::new(bytemuck::cast_vec(values))),
            ElementKind::F16 => Self::F16(Arc::new(bytemuck::cast_vec(values))),
            ElementKind::BF16 => Self::BF16(Arc::new(bytemuck::cast_vec(values))),
            ElementKind::I8 => Self::I8(Arc::new(bytemuck::cast_vec(values))),
            ElementKind::U8 => Self::U8(Arc::new(bytemuck::cast_vec(values))),
            ElementKind::Bits => Self::Bits(Arc::new(bytemuck::cast_vec(values))),
        }
    }

    #[inline]
    pub(crate) fn elements(&self) -> Elements<'_> {
        with_vec!(self, values => values.as_slice().into())
    }

    pub(crate) fn kind(&self) -> ElementKind {
        self.elements().kind()
    }

    /// Writes values from `at` on. Those of another type are rounded to the nearest of this one: an index takes them where that is exact.
    pub(crate) fn write(&mut self, at: usize, values: Elements<'_>) {
        fn convert<T: Element>(own: &mut [T], values: Elements<'_>) {
            if values.kind() == T::KIND {
                return own.copy_from_slice(bytemuck::cast_slice(values.bytes()));
            }
            if T::KIND.is_wide() {
                return values.widen_into(bytemuck::cast_slice_mut(own));
            }
            with_elements!(values, values => {
                own.iter_mut().zip(values).for_each(|(own, value)| *own = T::nearest(value.widen()));
            });
        }
        let range = at..at + values.len();
        with_vec!(self, own => convert(&mut Arc::make_mut(own)[range], values));
    }

    /// Appends values, for which memory was reserved. Threads share the work where the types agree: the memory is fresh, and its pages take
    /// longer than the copy.
    pub(crate) fn append(&mut self, more: Elements<'_>) {
        fn extend<T: Element>(values: &mut Vec<T>, more: &[u8]) {
            let more: &[T] = bytemuck::cast_slice(more);
            if more.len() <= COPIED_ALONE {
                return values.extend_from_slice(more);
            }
            values.par_extend(more.par_iter().with_min_len(COPIED_ALONE / 4).map(|&value| value));
        }
        if self.kind() == more.kind() {
            return with_vec!(self, values => extend(Arc::make_mut(values), more.bytes()));
        }
        let at = self.elements().len();
        with_vec!(&mut *self, values => Arc::make_mut(values).resize(at + more.len(), Element::ZERO));
        self.write(at, more);
    }

    pub(crate) fn resize(&mut self, len: usize) -> Result<()> {
        with_vec!(self, values => memory::resize(Arc::make_mut(values), len, Element::ZERO))
    }

    /// Reserves memory for `len` values in all, and for no more.
    pub(crate) fn reserve_exact(&mut self, len: usize) -> Result<()> {
        with_vec!(self, values => memory::reserve_exact(Arc::make_mut(values), len))
    }

    pub(crate) fn copy_within(&mut self, range: Range<usize>, to: usize) {
        with_vec!(self, values => Arc::make_mut(values).copy_within(range, to));
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        with_vec!(self, values => Arc::make_mut(values).truncate(len));
    }

    /// Frees memory beyond that of `len` values.
    pub(crate) fn shrink_to(&mut self, len: usize) {
        with_vec!(self, values => Arc::make_mut(values).shrink_to(len));
    }

    /// How many values there is memory for.
    pub(crate) fn capacity(&self) -> usize {
        with_vec!(self, values => values.capacity())
    }
}

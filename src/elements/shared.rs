//! Values of any element type that several owners may share. Whoever writes to shared ones gets a copy.

use std::ops::Range;
use std::sync::Arc;

use half::f16;

use crate::elements::{Element, ElementKind, Elements, widen, with_type};
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
}

/// Runs an expression on the shared vector inside, whatever its type.
macro_rules! with_vec {
    ($elements:expr, $values:ident => $run:expr) => {
        match $elements {
            SharedElements::F32($values) => $run,
            SharedElements::F16($values) => $run,
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
        }
    }

    #[inline]
    pub(crate) fn elements(&self) -> Elements<'_> {
        with_vec!(self, values => values.as_slice().into())
    }

    pub(crate) fn kind(&self) -> ElementKind {
        self.elements().kind()
    }

    /// Writes values from `at` on: f16 widens exactly, and f32 is rounded to the nearest f16, which an index refuses at its door.
    pub(crate) fn write(&mut self, at: usize, values: Elements<'_>) {
        let range = at..at + values.len();
        match (self, values) {
            (Self::F32(own), Elements::F32(values)) => Arc::make_mut(own)[range].copy_from_slice(values),
            (Self::F32(own), Elements::F16(values)) => widen(values, &mut Arc::make_mut(own)[range]),
            (Self::F16(own), Elements::F16(values)) => Arc::make_mut(own)[range].copy_from_slice(values),
            (Self::F16(own), Elements::F32(values)) => {
                let own = Arc::make_mut(own)[range].iter_mut();
                own.zip(values).for_each(|(own, &value)| *own = f16::from_f32(value));
            }
        }
    }

    /// Appends values, for which memory was reserved. Threads share the work where the types agree: the memory is fresh, and its pages take
    /// longer than the copy.
    pub(crate) fn append(&mut self, more: Elements<'_>) {
        fn extend<T: Element>(values: &mut Vec<T>, more: &[T]) {
            if more.len() <= COPIED_ALONE {
                return values.extend_from_slice(more);
            }
            values.par_extend(more.par_iter().with_min_len(COPIED_ALONE / 4).map(|&value| value));
        }
        match (&mut *self, more) {
            (Self::F32(values), Elements::F32(more)) => extend(Arc::make_mut(values), more),
            (Self::F16(values), Elements::F16(more)) => extend(Arc::make_mut(values), more),
            _ => {
                let at = self.elements().len();
                with_vec!(&mut *self, values => Arc::make_mut(values).resize(at + more.len(), Element::ZERO));
                self.write(at, more);
            }
        }
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

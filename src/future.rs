//! Futures at the public face.

use std::pin::Pin;

use crate::error::Result;

/// A future behind a pointer. Generic public functions return or await these, so that the state machine behind one is compiled
/// in this crate: otherwise every program compiles the whole of it again.
pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Told how many rows or queries are done.
pub(crate) type Progress<'a> = &'a mut (dyn FnMut(usize) + Send);

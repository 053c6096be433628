//! Futures at the public face.

use std::pin::Pin;

use crate::error::Result;

/// A future behind a pointer. Generic public functions return or await these, so that the state machine behind one is compiled
/// in this crate: otherwise every program compiles the whole of it again.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;
/// The same in a browser, where a device belongs to one thread.
#[cfg(target_arch = "wasm32")]
pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + 'a>>;

/// Told how many rows are done.
pub(crate) type Progress<'a> = &'a mut (dyn FnMut(usize) + Send);

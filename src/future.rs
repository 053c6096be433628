//! Futures behind pointers, and functions in two forms.

use std::pin::Pin;
#[cfg(not(target_arch = "wasm32"))]
use std::{future::poll_fn, task::Poll};

use crate::error::Result;

/// A future behind a pointer. Two kinds of functions return one:
/// - generic public ones, because every program that uses them would compile their state machines again;
/// - those whose state machine is large, or holds large ones, because `rustc` compiles the body of an `async fn` again in every
///   codegen unit that awaits it. Without these boxes a fifth of the library's object code would be such copies.
pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Runs futures to their ends, by turns.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) async fn join_all<T>(mut futures: Vec<Boxed<'_, T>>) -> Vec<Result<T>> {
    let mut results: Vec<Option<Result<T>>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, result) in futures.iter_mut().zip(&mut results) {
            if result.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *result = Some(ready);
            }
        }
        if results.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    results.into_iter().flatten().collect()
}

/// Writes functions in two forms: one runs the future of the body with `$device.block_on`, the other awaits it. `future => field`
/// gives a field of the future's result.
macro_rules! blocking_and_async {
    ($device:expr; $(
        $(#[$doc:meta])*
        pub fn $name:ident $(<$lifetime:lifetime>)? $(<$type:ident: $bound:ident>)? ($($arguments:tt)*)
            -> Result<$output:ty> { $future:expr $(=> $field:ident)? }
        $(#[$doc_async:meta])*
        async $name_async:ident;
    )*) => {$(
        $(#[$doc])*
        pub fn $name $(<$lifetime>)? $(<$type: $bound>)? ($($arguments)*) -> Result<$output> {
            let device = &$device;
            device.block_on($future)$(.map(|result| result.$field))?
        }

        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") without blocking.")]
        $(#[$doc_async])*
        pub async fn $name_async $(<$lifetime>)? $(<$type: $bound>)? ($($arguments)*) -> Result<$output> {
            $future.await$(.map(|result| result.$field))?
        }
    )*};
}
pub(crate) use blocking_and_async;

/// Callback with the number of rows done so far.
pub(crate) type RowProgress<'a> = &'a mut (dyn FnMut(usize) + Send);

//! Calls that end early: a promise that resolves when the caller gives up, and functions that hear of progress.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use js_sys::{Function, Promise};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::JsFuture;

use crate::error::{Result, thrown};

/// Awaits a call of the library, unless `aborted` settles before: then the call is dropped between two submissions, and the error is
/// what the promise was settled with.
pub(crate) async fn unless<T>(
    aborted: Option<Promise>,
    call: impl Future<Output = nearfield::Result<T>>,
) -> Result<T> {
    let mut call = pin!(call);
    let mut aborted = aborted.map(JsFuture::from);
    poll_fn(|context| {
        if let Some(Poll::Ready(reason)) = aborted.as_mut().map(|aborted| Pin::new(aborted).poll(context)) {
            return Poll::Ready(Err(reason.unwrap_or_else(|reason| reason)));
        }
        call.as_mut().poll(context).map_err(thrown)
    })
    .await
}

/// A call whose rows are an argument of another name, from the caller's row `first` on.
pub(crate) async fn of_argument<T>(
    name: &'static str,
    first: u64,
    call: impl Future<Output = nearfield::Result<T>>,
) -> nearfield::Result<T> {
    call.await.map_err(|error| error.for_argument(name, first))
}

thread_local! {
    /// Functions that calls in progress report to. The library's callbacks may move between threads and hold a number instead.
    static LISTENERS: RefCell<Vec<Option<Function>>> = const { RefCell::new(vec![]) };
}

/// A function of JavaScript that hears of progress, until this is dropped.
pub(crate) struct Listener(usize);

impl Listener {
    pub(crate) fn new(function: Function) -> Self {
        LISTENERS.with_borrow_mut(|all| {
            let free = all.iter().position(Option::is_none);
            let place = free.unwrap_or(all.len());
            match free {
                Some(place) => all[place] = Some(function),
                None => all.push(Some(function)),
            }
            Self(place)
        })
    }

    /// Calls the function with a number. What it throws is its own.
    pub(crate) fn hear(&self, done: usize) {
        let function = LISTENERS.with_borrow(|all| all[self.0].clone());
        if let Some(function) = function {
            let _ = function.call1(&JsValue::UNDEFINED, &(done as f64).into());
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        LISTENERS.with_borrow_mut(|all| all[self.0] = None);
    }
}

//! Stands in for what a browser lacks: its one thread must never wait, and `std` has no clock there.

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use std::time::Instant;
#[cfg(target_arch = "wasm32")]
pub(crate) use web_time::Instant;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crate::error::{Error, Result};

/// Whether a thread may wait for others, or for the device. Without that, a blocking call succeeds only where nothing has to be waited for:
/// on the host engine.
pub(crate) const CAN_WAIT: bool = cfg!(not(target_arch = "wasm32"));

/// Whether there are files, and a user's directories for them.
pub(crate) const HAS_FILES: bool = cfg!(not(target_arch = "wasm32"));

/// Whether a GPU may have what WebGPU does not offer: cooperative matrices, and clocks fine enough to time kernels. Where it may not, the
/// compiler drops what needs them.
pub(crate) const HAS_NATIVE_FEATURES: bool = cfg!(not(target_arch = "wasm32"));

/// Polls a future once. An error if it is not ready.
pub(crate) fn poll_once<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => Err(Error::unsupported(
            "a blocking call that waits for a GPU",
            "a thread that may wait",
            "a browser: await the `_async` form of the call",
        )),
    }
}

/// The number of this process; a browser's tasks have none.
pub(crate) fn process_id() -> u32 {
    if CAN_WAIT { std::process::id() } else { 0 }
}

/// Lets a browser run the tasks that wait for their turn. Elsewhere other threads run them.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) async fn next_task() {}

/// Lets a browser run the tasks that wait for their turn.
#[cfg(target_arch = "wasm32")]
pub(crate) async fn next_task() {
    use futures_intrusive::channel::shared::oneshot_channel;
    use wasm_bindgen::closure::Closure;
    use wasm_bindgen::{JsCast, JsValue};

    let (sender, receiver) = oneshot_channel();
    let is_set = || {
        let timer = js_sys::Reflect::get(&js_sys::global(), &JsValue::from_str("setTimeout")).ok()?;
        let callback = Closure::once_into_js(move || drop(sender.send(())));
        timer.dyn_into::<js_sys::Function>().ok()?.call1(&JsValue::UNDEFINED, &callback).ok()
    };
    // Each of the places that WebAssembly runs in has timers.
    if is_set().is_some() {
        receiver.receive().await;
    }
}

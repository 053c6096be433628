//! Stands in for what a browser lacks: its one thread must never wait, and `std` has no clock there.

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use std::time::Instant;
#[cfg(target_arch = "wasm32")]
pub(crate) use web_time::Instant;

use std::cell::Cell;
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

thread_local! {
    /// Whether this thread polls a future that it will not poll again.
    static IS_ONCE: Cell<bool> = const { Cell::new(false) };
}

/// Polls a future once. An error if it is not ready.
pub(crate) fn poll_once<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    IS_ONCE.set(true);
    let polled = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
    IS_ONCE.set(false);
    match polled {
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

/// Runs work on a thread of its own that gives way to all others, where the system knows that of threads: on Linux. The caller waits.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn in_background<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            rustix::process::nice(19).ok();
            work()
        });
        let thread = thread.map_err(|_| Error::OutOfMemory { purpose: "a thread".into(), bytes: None })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
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

/// Lets a browser run tasks that wait, between two pieces of a long computation. Elsewhere other threads run them.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) async fn next_turn() {}

/// Lets a browser run tasks that wait, between two pieces of a long computation, unless a blocking call computes. By a message: a browser
/// makes timers that follow each other wait for 4 ms, and for a second in a page that is not seen.
#[cfg(target_arch = "wasm32")]
pub(crate) async fn next_turn() {
    use futures_intrusive::channel::shared::oneshot_channel;
    use js_sys::{Array, Function, Reflect};
    use wasm_bindgen::closure::Closure;
    use wasm_bindgen::{JsCast, JsValue};

    if IS_ONCE.get() {
        return;
    }
    let (sender, receiver) = oneshot_channel();
    let post = || {
        let get = |of: &JsValue, name: &str| Reflect::get(of, &name.into());
        let call = move |of: &JsValue, name| get(of, name)?.dyn_into::<Function>()?.call1(of, &JsValue::NULL);
        let class = get(&js_sys::global(), "MessageChannel")?.dyn_into::<Function>()?;
        let channel = Reflect::construct(&class, &Array::new())?;
        let (port, other) = (get(&channel, "port1")?, get(&channel, "port2")?);
        let own = port.clone();
        let callback = Closure::once_into_js(move || {
            // Node does not end while a port is open.
            let _ = call(&own, "close");
            drop(sender.send(()));
        });
        Reflect::set(&port, &"onmessage".into(), &callback)?;
        call(&other, "postMessage")
    };
    // Each of the places that WebAssembly runs in has messages.
    if post().is_ok() {
        receiver.receive().await;
    }
}

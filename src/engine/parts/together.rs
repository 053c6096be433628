//! Runs the work of several devices at the same time.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;

use crate::engine::device::engine::Engine;
use crate::error::{Error, Result};
use crate::future::{Boxed, join_all};
use crate::gpu::{Gpu, is_blocked};
use crate::interrupt;
use crate::parallel;
use crate::platform::CAN_WAIT;

/// The work of one device.
pub(super) type Work<'f, T> = (Engine, Boxed<'f, T>);

/// Runs futures to their ends, and returns what each comes to. Inside of a blocking call every device has a thread, on which its future
/// waits as a blocking call does; elsewhere, and on a thread of rayon's pool, they take turns on the caller's thread.
pub(super) async fn together<T: Send>(works: Vec<Work<'_, T>>) -> Vec<Result<T>> {
    match CAN_WAIT && is_blocked() {
        // The work of a host needs the pool's threads, and this one would wait for it without working.
        true if parallel::current_thread_index().is_some() => together_briefly(works).await,
        true => on_threads(works),
        false => by_turns(works).await,
    }
}

/// The same for short work: inside of a blocking call this thread submits the work of all GPUs and then polls them. With a thread for each
/// GPU, one query took nearly twice as long (docs/scale.md).
pub(super) async fn together_briefly<T: Send>(works: Vec<Work<'_, T>>) -> Vec<Result<T>> {
    if !(CAN_WAIT && is_blocked()) {
        return by_turns(works).await;
    }
    let engines: Vec<Engine> = works.iter().map(|(engine, _)| engine.clone()).collect();
    let gpus: Option<Vec<&Gpu>> =
        engines.iter().map(|engine| engine.gpu("").ok().map(|gpu| &**gpu)).collect();
    match gpus {
        Some(gpus) => Gpu::block_on_all(&gpus, async { Ok(by_turns(works).await) })
            .unwrap_or_else(|interrupted| vec![Err(interrupted)]),
        None if parallel::current_thread_index().is_some() => {
            works.into_iter().map(|(engine, future)| engine.block_on(future)).collect()
        }
        None => on_threads(works),
    }
}

/// The first work runs on this thread: a search of one device has no other.
fn on_threads<T: Send>(works: Vec<Work<'_, T>>) -> Vec<Result<T>> {
    let stop = Arc::new(AtomicBool::new(false));
    let patience = interrupt::patience();
    thread::scope(|scope| {
        let (sender, done) = channel::<()>();
        let mut works = works.into_iter();
        let first = works.next();
        let others: Vec<_> = works
            .map(|(engine, future)| {
                let (stop, sender) = (stop.clone(), sender.clone());
                // A thread that cannot be started is an error of its device's work.
                thread::Builder::new().name("nearfield-device".into()).spawn_scoped(scope, move || {
                    // Dropped at the end, also when the work panics.
                    let _sender = sender;
                    match patience {
                        // This thread has no hook: the caller's is asked below.
                        Some(_) => interrupt::interruptible(
                            move || !stop.load(Ordering::Relaxed),
                            || engine.block_on(future),
                        ),
                        None => engine.block_on(future),
                    }
                })
            })
            .collect();
        drop(sender);
        let first = first.map(|(engine, future)| engine.block_on(future));
        if matches!(first, Some(Err(Error::Interrupted))) {
            stop.store(true, Ordering::Relaxed);
        }
        while let Some(patience) = patience {
            match done.recv_timeout(patience) {
                Err(RecvTimeoutError::Disconnected) => break,
                _ if interrupt::check_waiting().is_err() => stop.store(true, Ordering::Relaxed),
                _ => {}
            }
        }
        let joined = others.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(error) => Err(Error::OutOfMemory {
                purpose: format!("a thread for a device ({error})").into(),
                bytes: None,
            }),
        });
        first.into_iter().chain(joined).collect()
    })
}

async fn by_turns<T>(works: Vec<Work<'_, T>>) -> Vec<Result<T>> {
    join_all(works.into_iter().map(|(_, future)| future).collect()).await
}

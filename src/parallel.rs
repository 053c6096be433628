//! Work that several threads share, under rayon's names. A browser's page or worker has one thread, which runs everything there: the code
//! that shares work would be a tenth of the module.

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use rayon::{ThreadPool, current_num_threads, current_thread_index, in_place_scope, prelude::*};
#[cfg(target_arch = "wasm32")]
pub(crate) use sequential::*;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use threads::{start_threads, thread_pool};

#[cfg(not(target_arch = "wasm32"))]
mod threads {
    use std::io::{Error as IoError, ErrorKind};
    use std::sync::{Arc, Mutex, OnceLock, mpsc};
    use std::thread;

    use rayon::{ThreadPool, ThreadPoolBuilder, current_thread_index};

    use crate::error::{Error, Result};
    use crate::lock::lock;
    use crate::memory;

    /// Bytes of a thread: its stack, and what its allocator takes.
    const THREAD_BYTES: u64 = 8 << 20;
    /// Bytes that threads leave to their work.
    const WORK_BYTES: u64 = 64 << 20;

    /// Threads for one purpose; none where they could not be started.
    pub(crate) fn thread_pool(threads: usize, name: &'static str) -> Option<ThreadPool> {
        ThreadPoolBuilder::new().num_threads(threads).thread_name(move |_| name.to_owned()).build().ok()
    }

    /// Starts the threads of rayon's global pool, unless it has some. Every device calls this before rayon's first use, because rayon
    /// starts its pool once, and panics for good if one thread fails. This makes the pool of the threads that do start. If none does, it
    /// returns an error, and the next call tries again.
    pub(crate) fn start_threads() -> Result<()> {
        static STARTED: OnceLock<()> = OnceLock::new();
        if STARTED.get().is_some() || current_thread_index().is_some() {
            return Ok(());
        }
        let asked = std::env::var("RAYON_NUM_THREADS").ok().and_then(|threads| threads.parse().ok());
        let wanted = match asked {
            Some(1..) => asked,
            _ => thread::available_parallelism().ok().map(usize::from),
        };
        let (send, receive) = mpsc::channel::<rayon::ThreadBuilder>();
        let receive = Arc::new(Mutex::new(receive));
        let spawn = |started: u64| {
            // Beside its stack, a thread takes memory without asking when it begins to run, and its allocator takes addresses. All threads
            // but the first leave some to the work.
            let spare = if started == 0 { THREAD_BYTES } else { WORK_BYTES + started * THREAD_BYTES };
            memory::check_free("a thread", spare).ok()?;
            let receive = receive.clone();
            let work = move || {
                let next = lock(&receive).recv();
                if let Ok(thread) = next {
                    thread.run();
                }
            };
            thread::Builder::new().name("nearfield".into()).spawn(work).ok()
        };
        let started = (0..wanted.unwrap_or(1)).map_while(|started| spawn(started as u64)).count();
        if started == 0 {
            return Err(Error::OutOfMemory { purpose: "a thread of the host engine".into(), bytes: None });
        }
        let hand_over = |thread| send.send(thread).map_err(|_| IoError::from(ErrorKind::BrokenPipe));
        // An error says that another part of the program has made the pool: then these threads end, as nobody sends them work.
        ThreadPoolBuilder::new().num_threads(started).spawn_handler(hand_over).build_global().ok();
        STARTED.get_or_init(|| ());
        Ok(())
    }
}

#[cfg(target_arch = "wasm32")]
mod sequential {
    use std::{iter, slice};

    pub(crate) fn current_num_threads() -> usize {
        1
    }

    /// The number of this thread in a pool: there are none.
    pub(crate) fn current_thread_index() -> Option<usize> {
        None
    }

    pub(crate) enum ThreadPool {}

    /// There are no threads to start.
    pub(crate) fn start_threads() -> crate::error::Result<()> {
        Ok(())
    }

    pub(crate) fn thread_pool(_threads: usize, _name: &'static str) -> Option<ThreadPool> {
        None
    }

    impl ThreadPool {
        pub(crate) fn scope<T>(&self, _work: impl FnOnce(&Scope) -> T) -> T {
            match *self {}
        }

        pub(crate) fn install<T>(&self, _work: impl FnOnce() -> T) -> T {
            match *self {}
        }
    }

    pub(crate) struct Scope;

    impl Scope {
        pub(crate) fn spawn(&self, work: impl FnOnce(&Self)) {
            work(self);
        }
    }

    pub(crate) fn in_place_scope<T>(work: impl FnOnce(&Scope) -> T) -> T {
        work(&Scope)
    }

    /// An iterator under the name of rayon's, with those of its methods that the library uses.
    pub(crate) struct Sequential<I>(I);

    pub(crate) trait IndexedParallelIterator: Sized {
        type Item;
        type Inner: Iterator<Item = Self::Item>;

        fn inner(self) -> Self::Inner;

        fn enumerate(self) -> Sequential<iter::Enumerate<Self::Inner>> {
            Sequential(self.inner().enumerate())
        }

        fn zip<J: IndexedParallelIterator>(self, other: J) -> Sequential<iter::Zip<Self::Inner, J::Inner>> {
            Sequential(self.inner().zip(other.inner()))
        }

        fn with_min_len(self, _least: usize) -> Self {
            self
        }

        fn filter<F: Fn(&Self::Item) -> bool>(self, keeps: F) -> Sequential<iter::Filter<Self::Inner, F>> {
            Sequential(self.inner().filter(keeps))
        }

        fn map<T, F: Fn(Self::Item) -> T>(self, work: F) -> Sequential<iter::Map<Self::Inner, F>> {
            Sequential(self.inner().map(work))
        }

        fn flat_map_iter<J: IntoIterator, F: Fn(Self::Item) -> J>(
            self,
            work: F,
        ) -> Sequential<iter::FlatMap<Self::Inner, J, F>> {
            Sequential(self.inner().flat_map(work))
        }

        fn for_each(self, work: impl Fn(Self::Item)) {
            self.inner().for_each(work);
        }

        fn try_for_each<E>(self, work: impl Fn(Self::Item) -> Result<(), E>) -> Result<(), E> {
            self.inner().try_for_each(work)
        }

        fn collect<C: FromIterator<Self::Item>>(self) -> C {
            self.inner().collect()
        }
    }

    impl<I: Iterator> IndexedParallelIterator for Sequential<I> {
        type Item = I::Item;
        type Inner = I;

        fn inner(self) -> I {
            self.0
        }
    }

    pub(crate) trait IntoParallelIterator: IntoIterator + Sized {
        fn into_par_iter(self) -> Sequential<Self::IntoIter> {
            Sequential(self.into_iter())
        }
    }

    impl<C: IntoIterator> IntoParallelIterator for C {}

    /// Elements side by side.
    pub(crate) trait ParallelSlice<T> {
        fn par_iter(&self) -> Sequential<slice::Iter<'_, T>>;
        fn par_iter_mut(&mut self) -> Sequential<slice::IterMut<'_, T>>;
        fn par_chunks(&self, size: usize) -> Sequential<slice::Chunks<'_, T>>;
        fn par_chunks_mut(&mut self, size: usize) -> Sequential<slice::ChunksMut<'_, T>>;
        fn par_chunks_exact_mut(&mut self, size: usize) -> Sequential<slice::ChunksExactMut<'_, T>>;
        fn par_sort_unstable(&mut self)
        where
            T: Ord;
    }

    impl<T> ParallelSlice<T> for [T] {
        fn par_iter(&self) -> Sequential<slice::Iter<'_, T>> {
            Sequential(self.iter())
        }

        fn par_iter_mut(&mut self) -> Sequential<slice::IterMut<'_, T>> {
            Sequential(self.iter_mut())
        }

        fn par_chunks(&self, size: usize) -> Sequential<slice::Chunks<'_, T>> {
            Sequential(self.chunks(size))
        }

        fn par_chunks_mut(&mut self, size: usize) -> Sequential<slice::ChunksMut<'_, T>> {
            Sequential(self.chunks_mut(size))
        }

        fn par_chunks_exact_mut(&mut self, size: usize) -> Sequential<slice::ChunksExactMut<'_, T>> {
            Sequential(self.chunks_exact_mut(size))
        }

        fn par_sort_unstable(&mut self)
        where
            T: Ord,
        {
            self.sort_unstable();
        }
    }

    pub(crate) trait ParallelExtend<T> {
        fn par_extend(&mut self, others: impl IndexedParallelIterator<Item = T>);
    }

    impl<T> ParallelExtend<T> for Vec<T> {
        fn par_extend(&mut self, others: impl IndexedParallelIterator<Item = T>) {
            self.extend(others.inner());
        }
    }
}

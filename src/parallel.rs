//! Work that several threads share, under rayon's names. A browser's page or worker has one thread, which runs everything there: the code
//! that shares work would be a tenth of the module.

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use rayon::{ThreadPool, current_num_threads, current_thread_index, in_place_scope, prelude::*};
#[cfg(target_arch = "wasm32")]
pub(crate) use sequential::*;

/// Threads for one purpose; none where they could not be started.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn thread_pool(threads: usize, name: &'static str) -> Option<ThreadPool> {
    rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(move |_| name.to_owned()).build().ok()
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

//! A loaded index equals the saved one: answers, ids, lists, and later changes. A damaged file is an error.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::task::{Context, Waker};

use crate::common::Engine::{self, Adapter, Host};
use crate::common::has_kernels;
use nearfield::{
    Device, ElementKind, Error, Filter, Flat, Index, Ivf, Metric, Quantization, SavedIndex, SearchOptions,
    Vectors,
};
use nearfield_testing::living::{self, Kind, LISTS, bits, ids};
use nearfield_testing::{Random, rounded, view};
use tempfile::TempDir;
use test_case::test_matrix;

const DIM: usize = 19;
const KINDS: [Kind; 2] = [Kind::Flat, Kind::Ivf];

/// An index of squared L2 without rows.
fn plain(device: &Device, kind: Kind) -> Index {
    kind.make(device, Metric::L2Squared, DIM, ElementKind::F32, Quantization::None)
}

/// Adds rows in the index's element type.
fn add(index: &mut Index, rows: &[f32], ids: Option<&[u64]>) {
    let (halves, _) = rounded(rows);
    let rows: Vectors<'_> = match index.elements() {
        ElementKind::F16 => view(&halves, DIM).into(),
        _ => view(rows, DIM).into(),
    };
    living::add(index, rows, ids).expect("good rows");
}

/// A folder, and a file in it.
fn place() -> (TempDir, PathBuf) {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("index.nf");
    (directory, path)
}

/// Both indexes are the same to whoever asks.
fn same(one: &Index, other: &Index, said: &str) {
    let mut random = Random::new(5);
    let all = ids(one);
    assert_eq!(all, ids(other), "{said}");
    for _ in 0..all.len().min(3) {
        let id = all[random.below(all.len())];
        assert_eq!(one.get(&[id]).expect("a row"), other.get(&[id]).expect("a row"), "{said}: row {id}");
    }
    if let (Index::Ivf(one), Index::Ivf(other)) = (one, other) {
        assert_eq!(one.list_sizes(), other.list_sizes(), "{said}");
        assert_eq!(one.centroids().expect("centroids"), other.centroids().expect("centroids"), "{said}");
    }
    let few = |id: u64| id % 3 == 1;
    for (count, k, probes, filter) in
        [(1, 5, 1, None), (70, 10, 3, None), (2, 400, LISTS, None), (3, 9, 2, Some(Filter::by(&few)))]
    {
        let queries = random.floats(count * DIM);
        let mut options = SearchOptions::new(k);
        options.filter = filter;
        let [a, b] =
            [one, other].map(|index| bits(&living::answer(index, view(&queries, DIM), &options, probes)));
        assert_eq!(a, b, "{said}: {count} queries, k {k}, {probes} probes, filter {}", filter.is_some());
    }
    if let (Index::Flat(one), Index::Flat(other)) = (one, other) {
        let queries = random.floats(3 * DIM);
        let within = |index: &Flat| {
            index.search_with(view(&queries, DIM), &SearchOptions::within(0.9)).expect("an answer").neighbors
        };
        assert_eq!(bits(&within(one)), bits(&within(other)), "{said}");
    }
}

/// Saves and loads. The lives of `tests/indexes/living.rs` go on with what they loaded.
fn round_trip(device: &Device, index: &Index, said: &str) -> SavedIndex {
    let said = format!("{:?}, {:?}, {said}", index.metric(), index.elements());
    let (_directory, path) = place();
    index.save(&path).expect("saves");
    let loaded = Index::load(device, &path).expect("loads");
    same(index, &loaded, &said);
    let about = SavedIndex::read(&path).expect("reads");
    let wanted = (index.lists(), index.metric(), DIM, index.elements(), index.len());
    assert_eq!((about.lists, about.metric, about.dim, about.elements, about.rows), wanted, "{said}");
    // Saving the loaded index writes the same bytes over the first file.
    let bytes = fs::read(&path).expect("reads");
    loaded.save(&path).expect("saves");
    assert!(bytes == fs::read(&path).expect("reads"), "{said}: the second file is another");
    about
}

/// Every metric for both kinds of index. The ways of storing rows take turns.
#[test_matrix([Adapter, Host])]
fn an_index_with_tombstones_and_given_ids_is_loaded_as_it_was(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let stored = [
        (ElementKind::F32, Quantization::None),
        (ElementKind::F32, Quantization::Int8),
        (ElementKind::F16, Quantization::Int8),
    ];
    let kinds = KINDS.into_iter().flat_map(|kind| Metric::ALL.map(|metric| (kind, metric)));
    for ((kind, metric), (elements, quantization)) in kinds.zip(stored.into_iter().cycle()) {
        let mut random = Random::new(1);
        let mut index = kind.make(device, metric, DIM, elements, quantization);
        add(&mut index, &random.floats(300 * DIM), None);
        let given: Vec<u64> = (0..50).map(|i| (1 << 62) - i * i).collect();
        add(&mut index, &random.floats(50 * DIM), Some(&given));
        let gone: Vec<u64> = (0..300).filter(|i| i % 7 < 2 || i % 31 == 0).chain([1 << 62]).collect();
        index.remove(&gone).expect("they are there");
        assert_eq!(round_trip(device, &index, "with tombstones").quantization, quantization);
    }
}

#[test_matrix([Adapter, Host])]
fn indexes_of_insertion_numbers_without_rows_and_with_empty_lists_are_loaded_as_they_were(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let rows = Random::new(2).floats(100 * DIM);
    // Near each other, so that they are in one list or two.
    let near: Vec<f32> = (0..70 * DIM).map(|i| rows[i % DIM] + (i / DIM) as f32 * 1e-4).collect();
    for kind in KINDS {
        for (values, said) in [
            (&[][..], "nothing was added"),
            (&rows, "insertion numbers"),
            (&rows, "all were removed"),
            (&near, "empty lists"),
        ] {
            let mut index = plain(device, kind);
            add(&mut index, values, None);
            if said == "all were removed" {
                index.remove(&ids(&index)).expect("they are there");
            }
            if let Index::Ivf(index) = &index {
                assert!(said != "empty lists" || index.list_sizes().contains(&0));
            }
            round_trip(device, &index, said);
        }
    }
}

#[test_matrix([Adapter, Host])]
fn numbers_go_on_where_they_were(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (_directory, path) = place();
    for kind in KINDS {
        let rows = Random::new(3).floats(20 * DIM);
        let mut index = plain(device, kind);
        add(&mut index, &rows, None);
        // The last ones, which no row tells of any more.
        index.remove(&[18, 19]).expect("they are there");
        index.save(&path).expect("saves");
        let mut loaded = Index::load(device, &path).expect("loads");
        add(&mut loaded, &rows[..DIM], None);
        assert_eq!(ids(&loaded), (0..18).chain([20]).collect::<Vec<_>>());
    }
}

#[test_matrix([Adapter, Host])]
fn many_segments_are_loaded_in_pieces(engine: Engine) {
    // 128 rows a segment, and scratch for a few rows.
    let Some(device) = engine.confined(128 * 20 * 4, 1 << 20) else { return };
    let rows = Random::new(4).floats(1000 * DIM);
    for kind in KINDS {
        let mut index = kind.make(&device, Metric::L2Squared, DIM, ElementKind::F32, Quantization::Int8);
        add(&mut index, &rows, None);
        let (_directory, path) = place();
        index.save(&path).expect("saves");
        same(&index, &Index::load(&device, &path).expect("loads"), "small segments");
        // On a device that has other ones.
        let Some(device) = engine.device() else { return };
        same(&index, &Index::load(device, &path).expect("loads"), "other segments");
    }
}

#[test_matrix([Adapter, Host])]
fn a_file_larger_than_a_piece_is_loaded_as_it_was(engine: Engine) {
    let Some(device) = engine.device() else { return };
    // 16 MiB are a piece.
    let (dim, count) = (1024, 5000);
    let mut random = Random::new(6);
    let rows: Vec<f32> = (0..dim * count).map(|_| random.unit()).collect();
    let (_directory, path) = place();
    let mut index = Flat::builder(device, Metric::Cosine, dim).build().expect("an index");
    index.add(view(&rows, dim)).expect("rows");
    index.remove(&[0, 4444]).expect("they are there");
    index.save(&path).expect("saves");
    let loaded = Flat::load(device, &path).expect("loads");
    assert_eq!(loaded.ids().expect("memory"), index.ids().expect("memory"));
    for id in [1, 4095, 4096, 4097, 4999] {
        assert_eq!(loaded.get(&[id]).expect("it is there"), rows[id as usize * dim..][..dim]);
    }
    let queries = view(&rows[..dim], dim);
    let search = |index: &Flat| bits(&index.search(queries, 20).expect("an answer"));
    assert_eq!(search(&loaded), search(&index));
}

/// A small index of each kind and its file.
fn small(device: &Device, kind: Kind, path: &Path) -> Index {
    let mut index = plain(device, kind);
    add(&mut index, &Random::new(7).floats(9 * DIM), None);
    index.save(path).expect("saves");
    index
}

/// Both ways to load a file fail; what they say.
fn refused(device: &Device, path: &Path) -> [String; 2] {
    let errors = [Flat::load(device, path).map(|_| ()), Ivf::load(device, path).map(|_| ())];
    errors.map(|result| {
        let error = result.expect_err("it is not whole");
        assert!(matches!(error, Error::File { .. }), "{error}");
        error.to_string()
    })
}

#[test_matrix([Adapter, Host])]
fn a_damaged_file_is_an_error(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (_directory, path) = place();
    let mut random = Random::new(8);
    for kind in KINDS {
        small(device, kind, &path);
        let bytes = fs::read(&path).expect("reads");
        for place in (0..bytes.len()).step_by(3) {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1 << random.below(8);
            fs::write(&path, &damaged).expect("writes");
            assert!(Index::load(device, &path).is_err(), "byte {place} of {}", bytes.len());
            if place % 48 == 0 {
                refused(device, &path);
            }
        }
        for cut in [&bytes[..bytes.len() - 1], &bytes[..bytes.len() / 2], &[&bytes[..], &[0; 8]].concat()] {
            fs::write(&path, cut).expect("writes");
            refused(device, &path);
        }
    }
}

#[test_matrix([Adapter, Host])]
fn files_of_another_kind_are_told(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (_directory, path) = place();
    small(device, Kind::Flat, &path);
    let error = Ivf::load(device, &path).expect_err("a flat one").to_string();
    assert!(error.ends_with("needed an index of kind ivf, found one of kind flat"), "{error}");
    assert!(error.starts_with(path.to_str().expect("text")), "{error}");
    small(device, Kind::Ivf, &path);
    let error = Flat::load(device, &path).expect_err("an ivf one").to_string();
    assert!(error.ends_with("needed an index of kind flat, found one of kind ivf"), "{error}");
}

fn names(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory");
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

#[test_matrix([Adapter, Host])]
fn a_name_may_be_as_long_as_the_system_allows(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (directory, path) = place();
    let path = path.with_file_name(format!("{}.nf", "n".repeat(252)));
    small(device, Kind::Flat, &path);
    assert_eq!(names(directory.path()), [path]);
}

#[test_matrix([Adapter, Host])]
fn what_fails_to_be_saved_leaves_the_old_file(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (directory, path) = place();
    small(device, Kind::Flat, &path);
    let before = fs::read(&path).expect("reads");
    let stays = |said: &str| {
        assert_eq!(names(directory.path()), std::slice::from_ref(&path), "{said}");
        assert!(fs::read(&path).expect("reads") == before, "{said}");
    };
    // No row goes through so little scratch, which is found out when half of the file is written.
    let Some(poor) = engine.confined(1 << 20, 2048) else { return };
    // The host engine takes none for that.
    if has_kernels(&poor) {
        let mut index = Flat::builder(&poor, Metric::L2, 1000).build().expect("an index");
        index.add(view(&vec![1.0; 1000], 1000)).expect("a row");
        let error = index.save(&path).expect_err("no scratch");
        assert!(matches!(error, Error::Budget { .. }), "{error}");
        stays("an error");
    }
    // The caller drops the future.
    for kind in KINDS {
        let mut index = plain(device, kind);
        add(&mut index, &Random::new(9).floats(50 * DIM), None);
        let mut saving = Box::pin(index.save_async(&path));
        let first = saving.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if first.is_pending() {
            drop(saving);
            stays("a future that was dropped");
        } else {
            // The device was so quick, in the waiting of another test, that all was saved.
            fs::write(&path, &before).expect("writes");
        }
    }
}

#[test_matrix([Adapter, Host])]
fn loading_and_saving_without_blocking_is_the_same(engine: Engine) {
    let Some(device) = engine.device() else { return };
    fn is_send<T: Send>(future: T) -> T {
        future
    }
    let (_directory, path) = place();
    for kind in KINDS {
        let index = small(device, kind, &path);
        let loaded = pollster::block_on(is_send(Index::load_async(device, &path))).expect("loads");
        pollster::block_on(is_send(loaded.save_async(&path))).expect("saves");
        same(&index, &Index::load(device, &path).expect("loads"), "without blocking");
    }
}

/// Hands out a few bytes at a time.
struct Trickle<'a>(&'a [u8]);

impl std::io::Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = buffer.len().min(self.0.len()).min(1000);
        std::io::Read::read(&mut self.0, &mut buffer[..count])
    }
}

#[test_matrix([Adapter, Host])]
fn a_writer_gets_the_bytes_of_the_file_and_a_reader_loads_them(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (_directory, path) = place();
    for kind in KINDS {
        let index = small(device, kind, &path);
        let bytes = fs::read(&path).expect("reads");
        assert_eq!(index.to_bytes().expect("saves"), bytes);
        let mut written = vec![];
        index.save_to(&mut written).expect("saves");
        assert_eq!(written, bytes);
        // The loader leaves the rest of a stream there.
        written.extend(b"more");
        let mut stream = Trickle(&written);
        let loader = Index::loader(device).capacity(100).budget(1 << 20);
        same(&index, &loader.load_from(&mut stream).expect("loads"), "from a reader");
        assert_eq!(stream.0, b"more");
        same(&index, &loader.load_bytes(&bytes).expect("loads"), "from bytes");
        assert!(matches!(loader.load_bytes(&written), Err(Error::File { .. })), "bytes behind the index");
        for end in [0, 5, 100, bytes.len() - 1] {
            assert!(loader.load_bytes(&bytes[..end]).is_err(), "{end} bytes");
            assert!(matches!(loader.load_from(&bytes[..end]), Err(Error::Io { .. })), "{end} bytes");
        }
        let mut damaged = bytes.clone();
        damaged[bytes.len() - 3] ^= 1;
        assert!(matches!(loader.load_from(&damaged[..]), Err(Error::File { .. })));
    }
}

#[test_matrix([Adapter, Host])]
fn a_loaded_index_has_the_budget_and_the_host_copy_of_its_loader(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let (_directory, path) = place();
    for kind in KINDS {
        let index = small(device, kind, &path);
        let copied = Index::loader(device).keep_host_copy(true).fallback(true).load(&path).expect("loads");
        assert_eq!(ids(&index), ids(&copied));
        assert_eq!(index.get(&ids(&index)).expect("rows"), copied.get(&ids(&copied)).expect("rows"));
        let error = Index::loader(device).fallback(true).load(&path).map(|_| ()).expect_err("no copy");
        assert!(matches!(error, Error::Argument { argument: "fallback", .. }), "{error}");
        let error = Index::loader(device).budget(u64::MAX).load(&path).map(|_| ()).expect_err("too large");
        assert!(matches!(error, Error::Budget { .. }), "{error}");
        let tight = Index::loader(device).budget(1000).load(&path).expect("loads");
        let error = tight.search(view(&[0.5f32; DIM], DIM), 3);
        assert!(!has_kernels(device) || matches!(error, Err(Error::Budget { .. })), "{error:?}");
    }
}

//! A loaded index equals the saved one: answers, ids, lists, and later changes. A damaged file is an error.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::task::{Context, Waker};

use crate::common::Engine::{self, Adapter, Host};
use crate::common::has_kernels;
use nearfield::{
    Device, ElementKind, Error, Filter, Flat, Index, Ivf, Metric, Neighbors, Rows, SavedIndex, Screen,
    SearchOptions,
};
use nearfield_testing::living;
use nearfield_testing::{Random, rounded, view};
use tempfile::TempDir;
use test_case::test_matrix;

const DIM: usize = 19;

/// The settings of an index.
#[derive(Debug, Clone, Copy)]
struct Kind {
    lists: Option<usize>,
    metric: Metric,
    elements: ElementKind,
    screen: Screen,
}

impl Kind {
    fn new(lists: Option<usize>) -> Self {
        Self { lists, metric: Metric::L2Squared, elements: ElementKind::F32, screen: Screen::None }
    }

    /// Every metric for both kinds of index. The ways of storing rows take turns.
    fn all() -> impl Iterator<Item = Self> {
        let stored = [
            (ElementKind::F32, Screen::None),
            (ElementKind::F32, Screen::I8),
            (ElementKind::F16, Screen::I8),
        ];
        let kinds = [None, Some(12)].into_iter().flat_map(|lists| Metric::ALL.map(|metric| (lists, metric)));
        kinds.zip(stored.into_iter().cycle()).map(|((lists, metric), (elements, screen))| Self {
            lists,
            metric,
            elements,
            screen,
        })
    }

    /// An index without rows.
    fn build(self, device: &Device) -> Index {
        let Self { lists, metric, elements, screen } = self;
        match lists {
            None => {
                let builder = Flat::builder(device, metric, DIM).elements(elements).screen(screen);
                builder.build().expect("an index").into()
            }
            Some(lists) => {
                let sample = Random::new(99).floats(200 * DIM);
                let builder = Ivf::builder(device, metric, DIM).elements(elements).screen(screen);
                builder.lists(lists).train(view(&sample, DIM)).expect("trains").into()
            }
        }
    }
}

fn add(index: &mut Index, kind: Kind, rows: &[f32], ids: Option<&[u64]>) -> Result<(), Error> {
    let (halves, _) = rounded(rows);
    let rows: Rows<'_> = match kind.elements {
        ElementKind::F16 => view(&halves, DIM).into(),
        _ => view(rows, DIM).into(),
    };
    living::add(index, rows, ids)
}

fn update(index: &mut Index, kind: Kind, id: u64, row: &[f32]) -> Result<(), Error> {
    match kind.elements {
        ElementKind::F16 => index.update(&[id], &rounded(row).0),
        _ => index.update(&[id], row),
    }
}

fn ids(index: &Index) -> Vec<u64> {
    index.ids().expect("memory")
}

/// Answers to a search, with the bits of the distances.
fn found(
    index: &Index,
    queries: &[f32],
    k: usize,
    probes: usize,
    filter: Option<Filter<'_>>,
) -> Vec<(u64, u32)> {
    let mut options = SearchOptions::new(k);
    options.filter = filter;
    options.probes = index.lists().map(|lists| probes.min(lists));
    bits(&index.search_with(view(queries, DIM), &options).expect("an answer").neighbors)
}

fn bits(found: &Neighbors) -> Vec<(u64, u32)> {
    // With an entry at the end of each row, so that their lengths count as well.
    let rows = found.iter().map(|hits| hits.iter().map(|hit| (hit.id, hit.distance.to_bits())));
    rows.flat_map(|hits| hits.chain([(u64::MAX, 0)])).collect()
}

/// Both indexes are the same to whoever asks.
fn same(one: &Index, other: &Index, random: &mut Random, said: &str) {
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
        [(1, 5, 1, None), (70, 10, 3, None), (2, 400, 99, None), (3, 9, 2, Some(Filter::by(&few)))]
    {
        let queries = random.floats(count * DIM);
        let (a, b) = (found(one, &queries, k, probes, filter), found(other, &queries, k, probes, filter));
        assert_eq!(a, b, "{said}: {count} queries, k {k}, {probes} probes, filter {}", filter.is_some());
    }
    if let (Index::Flat(one), Index::Flat(other)) = (one, other) {
        let queries = random.floats(3 * DIM);
        let within = |index: &Flat| index.search_within(view(&queries, DIM), 0.9).expect("an answer");
        assert_eq!(bits(&within(one)), bits(&within(other)), "{said}");
    }
}

/// One random change of both; what it comes to is the same.
fn change(kind: Kind, indexes: [&mut Index; 2], random: &mut Random, said: &str) {
    let all = ids(indexes[0]);
    let some = |random: &mut Random| all.get(random.below(all.len().max(1))).copied().unwrap_or(7);
    let count = 1 + random.below(40);
    let rows = random.floats(count * DIM);
    let (what, id) = (random.below(6), some(random));
    let gone: Vec<u64> = (0..random.below(30)).map(|_| some(random)).collect();
    let given: Vec<u64> = (0..count).map(|_| random.below(1 << 40) as u64).collect();
    let results = indexes.map(|index| {
        let result = match what {
            0 | 1 => add(index, kind, &rows, None),
            2 => add(index, kind, &rows, Some(&given)),
            3 => index.remove(&gone),
            4 => update(index, kind, id, &rows[..DIM]),
            _ => index.compact(),
        };
        result.map_err(|error| error.to_string())
    });
    assert_eq!(results[0], results[1], "{said}");
}

/// Saves and loads, and lets both live on.
fn round_trip(engine: Engine, kind: Kind, mut index: Index, changes: usize, said: &str) {
    let Some(device) = engine.device() else { return };
    let said = format!("{kind:?}, {said}");
    let mut random = Random::new(5);
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("index.nf");
    index.save(&path).expect("saves");
    let mut loaded = Index::load(device, &path).expect("loads");
    same(&index, &loaded, &mut random, &said);
    let about = SavedIndex::read(&path).expect("reads");
    let wanted = (kind.lists, kind.metric, DIM, kind.elements, index.len(), kind.screen);
    let SavedIndex { lists, metric, dim, elements, rows, screen, .. } = about;
    assert_eq!((lists, metric, dim, elements, rows, screen), wanted, "{said}");
    // Saving the loaded index writes the same bytes over the first file.
    let bytes = fs::read(&path).expect("reads");
    loaded.save(&path).expect("saves");
    assert!(bytes == fs::read(&path).expect("reads"), "{said}: the second file is another");
    for number in 0..changes {
        change(kind, [&mut index, &mut loaded], &mut random, &format!("{said}, change {number}"));
    }
    same(&index, &loaded, &mut random, &format!("{said}, after changes"));
    loaded.save(&path).expect("saves");
    let again = Index::load(device, &path).expect("loads");
    same(&index, &again, &mut random, &format!("{said}, loaded again"));
}

#[test_matrix([Adapter, Host])]
fn an_index_with_gaps_and_given_ids_is_loaded_as_it_was(engine: Engine) {
    let Some(device) = engine.device() else { return };
    for kind in Kind::all() {
        let mut random = Random::new(1);
        let mut index = kind.build(device);
        add(&mut index, kind, &random.floats(300 * DIM), None).expect("rows");
        let given: Vec<u64> = (0..50).map(|i| (1 << 62) - i * i).collect();
        add(&mut index, kind, &random.floats(50 * DIM), Some(&given)).expect("rows");
        let gone: Vec<u64> = (0..300).filter(|i| i % 7 < 2 || i % 31 == 0).chain([1 << 62]).collect();
        index.remove(&gone).expect("they are there");
        update(&mut index, kind, 3, &random.floats(DIM)).expect("a row");
        round_trip(engine, kind, index, 8, "with gaps");
    }
}

#[test_matrix([Adapter, Host])]
fn indexes_of_insertion_numbers_without_rows_and_with_empty_lists_are_loaded_as_they_were(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let rows = Random::new(2).floats(100 * DIM);
    // Near each other, so that they are in one list or two.
    let near: Vec<f32> = (0..70 * DIM).map(|i| rows[i % DIM] + (i / DIM) as f32 * 1e-4).collect();
    for lists in [None, Some(12)] {
        let kind = Kind::new(lists);
        for (values, said) in [
            (&[][..], "nothing was added"),
            (&rows, "insertion numbers"),
            (&rows, "all were removed"),
            (&near, "empty lists"),
        ] {
            let mut index = kind.build(device);
            add(&mut index, kind, values, None).expect("rows");
            if said == "all were removed" {
                index.remove(&ids(&index)).expect("they are there");
            }
            if let Index::Ivf(index) = &index {
                assert!(said != "empty lists" || index.list_sizes().contains(&0));
            }
            round_trip(engine, kind, index, 4, said);
        }
    }
}

#[test_matrix([Adapter, Host])]
fn numbers_go_on_where_they_were(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("index.nf");
    for lists in [None, Some(3)] {
        let kind = Kind::new(lists);
        let rows = Random::new(3).floats(20 * DIM);
        let mut index = kind.build(device);
        add(&mut index, kind, &rows, None).expect("rows");
        // The last ones, which no row tells of any more.
        index.remove(&[18, 19]).expect("they are there");
        index.save(&path).expect("saves");
        let mut loaded = Index::load(device, &path).expect("loads");
        add(&mut loaded, kind, &rows[..DIM], None).expect("a row");
        assert_eq!(ids(&loaded), (0..18).chain([20]).collect::<Vec<_>>());
    }
}

#[test_matrix([Adapter, Host])]
fn many_segments_are_loaded_in_pieces(engine: Engine) {
    // 128 rows a segment, and scratch for a few rows.
    let Some(device) = engine.confined(128 * 20 * 4, 1 << 20) else { return };
    let rows = Random::new(4).floats(1000 * DIM);
    for lists in [None, Some(12)] {
        let kind = Kind { screen: Screen::I8, ..Kind::new(lists) };
        let mut index = kind.build(&device);
        add(&mut index, kind, &rows, None).expect("rows");
        let directory = TempDir::new().expect("a directory");
        let path = directory.path().join("index.nf");
        index.save(&path).expect("saves");
        let mut random = Random::new(5);
        let loaded = Index::load(&device, &path).expect("loads");
        same(&index, &loaded, &mut random, "small segments");
        // On a device that has other ones.
        let Some(device) = engine.device() else { return };
        same(&index, &Index::load(device, &path).expect("loads"), &mut random, "other segments");
    }
}

#[test_matrix([Adapter, Host])]
fn a_file_larger_than_a_piece_is_loaded_as_it_was(engine: Engine) {
    let Some(device) = engine.device() else { return };
    // 16 MiB are a piece.
    let (dim, count) = (1024, 5000);
    let mut random = Random::new(6);
    let rows: Vec<f32> = (0..dim * count).map(|_| random.unit()).collect();
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("index.nf");
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
fn small(device: &Device, lists: Option<usize>, path: &Path) -> Index {
    let kind = Kind::new(lists);
    let mut index = kind.build(device);
    add(&mut index, kind, &Random::new(7).floats(9 * DIM), None).expect("rows");
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
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("index.nf");
    let mut random = Random::new(8);
    for lists in [None, Some(3)] {
        small(device, lists, &path);
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
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("index.nf");
    small(device, None, &path);
    let error = Ivf::load(device, &path).expect_err("a flat one").to_string();
    assert!(error.ends_with("needed an index of kind ivf, found one of kind flat"), "{error}");
    assert!(error.starts_with(path.to_str().expect("text")), "{error}");
    small(device, Some(3), &path);
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
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join(format!("{}.nf", "n".repeat(252)));
    small(device, None, &path);
    assert_eq!(names(directory.path()), [path]);
}

#[test_matrix([Adapter, Host])]
fn what_fails_to_be_saved_leaves_the_old_file(engine: Engine) {
    let Some(device) = engine.device() else { return };
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("index.nf");
    small(device, None, &path);
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
    for lists in [None, Some(3)] {
        let kind = Kind::new(lists);
        let mut index = kind.build(device);
        add(&mut index, kind, &Random::new(9).floats(50 * DIM), None).expect("rows");
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
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("index.nf");
    let mut random = Random::new(10);
    for lists in [None, Some(3)] {
        let index = small(device, lists, &path);
        let loaded = pollster::block_on(is_send(Index::load_async(device, &path))).expect("loads");
        pollster::block_on(is_send(loaded.save_async(&path))).expect("saves");
        same(&index, &Index::load(device, &path).expect("loads"), &mut random, "without blocking");
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
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("index.nf");
    for lists in [None, Some(5)] {
        let mut random = Random::new(31);
        let index = small(device, lists, &path);
        let bytes = fs::read(&path).expect("reads");
        assert_eq!(index.to_bytes().expect("saves"), bytes);
        let mut written = vec![];
        index.save_to(&mut written).expect("saves");
        assert_eq!(written, bytes);
        // The loader leaves the rest of a stream there.
        written.extend(b"more");
        let mut stream = Trickle(&written);
        let loader = Index::loader(device).capacity(100).budget(1 << 20);
        same(&index, &loader.load_from(&mut stream).expect("loads"), &mut random, "from a reader");
        assert_eq!(stream.0, b"more");
        same(&index, &loader.load_bytes(&bytes).expect("loads"), &mut random, "from bytes");
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
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("index.nf");
    for lists in [None, Some(5)] {
        let index = small(device, lists, &path);
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

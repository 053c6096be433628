//! Rows in a file that is mapped: the answers of an index that holds them, errors for files that are not what they should be, and for
//! those that change.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use half::f16;
use nearfield::{
    AddOptions, Device, Devices, Distribution, ElementKind, Error, Flat, Ivf, Metric, Neighbors,
    Quantization, Residency, SearchOptions,
};
use tempfile::TempDir;

use super::{assert_same, clustered};
use crate::common::Engine::Adapter;
use crate::support::{self, limited};
use nearfield_testing::{Random, rounded, view};

const DIM: usize = 20;
const ROWS: usize = 5000;

/// Rows, queries, and a folder for files.
struct Given {
    folder: TempDir,
    values: Vec<f32>,
    queries: Vec<f32>,
}

impl Given {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let (values, queries) = (clustered(&mut random, ROWS, DIM), clustered(&mut random, 30, DIM));
        Self { folder: tempfile::tempdir().expect("a folder"), values, queries }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file in pieces.
    fn write(&self, name: &str, pieces: &[&[u8]]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, pieces.concat()).expect("written");
        path
    }

    fn npy(&self, name: &str) -> PathBuf {
        self.write(name, &[&npy_header("<f4", "False", &[ROWS, DIM], 64), bytemuck::cast_slice(&self.values)])
    }

    /// The index of the same rows on the host engine.
    fn on_host(&self, metric: Metric, elements: ElementKind) -> Flat {
        let builder = Flat::builder(&Device::host(), metric, DIM).elements(elements);
        let mut index = builder.build().expect("an index");
        match elements {
            ElementKind::F16 => index.add(view::<f16>(&rounded(&self.values).0, DIM)),
            _ => index.add(view(&self.values, DIM)),
        }
        .expect("good rows");
        index
    }

    /// Compares all kinds of searches.
    fn compare(&self, mapped: &Flat, wanted: &Flat) {
        assert_eq!(mapped.ids().expect("memory"), wanted.ids().expect("memory"));
        let same = |ask: &dyn Fn(&Flat) -> Neighbors| assert_same(&ask(mapped), &ask(wanted));
        for count in [1, 30] {
            let queries = view(&self.queries[..count * DIM], DIM);
            for k in [1, 10, 1000] {
                same(&|index| index.search(queries, k).expect("an answer"));
            }
            let radius = wanted.search(queries, 40).expect("an answer").row(0)[39].distance;
            same(&|index| {
                index.search_with(queries, &SearchOptions::within(radius)).expect("an answer").neighbors
            });
        }
        for step in [3, 50] {
            let allowed: Vec<u64> = wanted.ids().expect("memory").into_iter().step_by(step).collect();
            let options = SearchOptions::new(5).filter(&allowed);
            let queries = view(&self.queries, DIM);
            same(&|index| index.search_with(queries, &options).expect("an answer").neighbors);
        }
        let some: Vec<u64> = wanted.ids().expect("memory").into_iter().step_by(77).collect();
        assert_eq!(mapped.get(&some).expect("there"), wanted.get(&some).expect("there"));
    }
}

/// The header of an npy array whose data start at a multiple of `alignment`, plus one if that is 1.
fn npy_header(dtype: &str, fortran: &str, shape: &[usize], alignment: usize) -> Vec<u8> {
    let shape: String = shape.iter().map(|length| format!("{length}, ")).collect();
    let mut text = format!("{{'descr': '{dtype}', 'fortran_order': {fortran}, 'shape': ({shape}), }}");
    let misplaced = usize::from(alignment == 1);
    while (10 + text.len() + 1) % alignment.max(4) != misplaced {
        text.push(' ');
    }
    text.push('\n');
    [&b"\x93NUMPY\x01\x00"[..], &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat()
}

/// The host engine and the GPU where there is one, each alone and as one of several.
pub(super) fn devices() -> Vec<Devices> {
    let host = Device::host();
    let mut all = vec![Devices::from(&host), Devices::from(&[host.clone(), host.clone(), host])];
    if let Some(two) = support::devices(Adapter, 2) {
        all.extend([Devices::from(&two[0]), Devices::from(&two)]);
    }
    all
}

fn mapped(devices: &Devices, metric: Metric, path: &Path) -> Result<Flat, Error> {
    Flat::builder(devices, metric, DIM).mapped(path).build()
}

#[track_caller]
fn refused(path: &Path, parts: &[&str]) {
    for device in devices() {
        let error = mapped(&device, Metric::L2, path).expect_err("a file that is refused");
        let text = error.to_string();
        assert!(matches!(error, Error::File { .. } | Error::Io { .. }), "{error:?}");
        for part in parts.iter().copied().chain(path.file_name().and_then(|name| name.to_str())) {
            assert!(text.contains(part), "{text}: {part}");
        }
    }
}

#[test]
fn files_of_vectors_are_searched_in_place() {
    let given = Given::new(31);
    let halves = rounded(&given.values).0;
    let counts = [ROWS as u32, DIM as u32];
    let (singles, halves): (&[u8], &[u8]) =
        (bytemuck::cast_slice(&given.values), bytemuck::cast_slice(&halves));
    let of_f32 = [
        given.npy("rows.npy"),
        given.write("misplaced.npy", &[&npy_header("<f4", "False", &[ROWS, DIM], 1), singles]),
        given.write("rows.fbin", &[bytemuck::cast_slice(&counts), singles]),
    ];
    let of_f16 = [
        given.write("half.npy", &[&npy_header("<f2", "False", &[ROWS, DIM], 64), halves]),
        given.write("misplaced half.npy", &[&npy_header("<f2", "False", &[ROWS, DIM], 1), halves]),
        given.write("rows.f16bin", &[bytemuck::cast_slice(&counts), halves]),
    ];
    for (files, elements, metric) in [
        (&of_f32[..], ElementKind::F32, Metric::L2),
        (&of_f32[..1], ElementKind::F32, Metric::Cosine),
        (&of_f16[..], ElementKind::F16, Metric::Cosine),
        (&of_f16[..1], ElementKind::F16, Metric::L2),
    ] {
        let wanted = given.on_host(metric, elements);
        for (path, device) in
            files.iter().flat_map(|path| devices().into_iter().map(move |device| (path, device)))
        {
            let index = mapped(&device, metric, path).expect("an index");
            assert_eq!((index.len(), index.next_id(), index.elements()), (ROWS, ROWS as u64, elements));
            given.compare(&index, &wanted);
        }
    }
}

#[test]
#[ignore = "nightly"]
fn rows_of_saved_indexes_keep_their_ids() {
    let given = Given::new(32);
    let ids: Vec<u64> = (0..ROWS as u64).map(|row| (row * 7919) % 1_000_003).collect();
    let mut wanted = Flat::builder(&Device::host(), Metric::InnerProduct, DIM).build().expect("an index");
    wanted.add_with(view(&given.values, DIM), &AddOptions::new().ids(&ids)).expect("good rows");
    wanted.remove(&ids[3..900]).expect("there");
    let path = given.path("saved.nf");
    wanted.save(&path).expect("saved");
    for device in devices() {
        let mut index = mapped(&device, Metric::InnerProduct, &path).expect("an index");
        assert_eq!(index.next_id(), ROWS as u64);
        given.compare(&index, &wanted);
        // Rows may go, and a saved index has those that are left.
        index.remove(&ids[1000..1200]).expect("there");
        let mut left = wanted.clone_to(&Device::host()).expect("a copy");
        left.remove(&ids[1000..1200]).expect("there");
        given.compare(&index, &left);
        assert!(index.to_bytes().expect("bytes") == left.to_bytes().expect("bytes"), "saved alike");
        let error = mapped(&device, Metric::L2, &path).expect_err("another metric");
        assert!(error.to_string().contains("an index of metric l2"), "{error}");
    }
    // The rows of lists are rows.
    let mut lists = Ivf::builder(&Device::host(), Metric::L2, DIM)
        .lists(8)
        .train(view(&given.values, DIM))
        .expect("an index");
    lists.add(view(&given.values, DIM)).expect("good rows");
    lists.save(given.path("lists.nf")).expect("saved");
    for device in devices() {
        let index = mapped(&device, Metric::L2, &given.path("lists.nf")).expect("an index");
        given.compare(&index, &given.on_host(Metric::L2, ElementKind::F32));
    }
}

#[test]
fn files_that_are_something_else_are_refused() {
    let given = Given::new(33);
    let whole = fs::read(given.npy("rows.npy")).expect("a file");
    refused(&given.path("missing.npy"), &[]);
    refused(given.folder.path(), &[]);
    refused(&given.write("empty.npy", &[]), &["0 bytes"]);
    refused(&given.write("empty.fbin", &[]), &["0 bytes", "8 bytes"]);
    refused(&given.write("cut.npy", &[&whole[..whole.len() - 4]]), &["400128 bytes", "400124 bytes"]);
    let bytes = [4, 0, 0, 0, 1, 2, 3, 4];
    refused(
        &given.write("x.bvecs", &[&bytes]),
        &["rows of .npy, .fbin, .f16bin, .bf16bin, .i8bin or .u8bin, or an index of nearfield"],
    );
    refused(&given.write("header.npy", &[&whole[..100]]), &["100 bytes"]);
    let counts = |rows: u32, dim: u32| [rows.to_le_bytes(), dim.to_le_bytes()].concat();
    refused(&given.write("cut.fbin", &[&counts(5, 20), &[0; 396]]), &["408 bytes", "404 bytes"]);
    refused(&given.write("huge.fbin", &[&counts(u32::MAX - 2, 20), &[0; 80]]), &["88 bytes"]);
    refused(&given.write("dim.fbin", &[&counts(5, 19), &[0; 400]]), &["dim 20", "dim 19"]);
    let array = |name: &str, dtype, fortran, shape: &[usize]| {
        given.write(name, &[&npy_header(dtype, fortran, shape, 64), &[0; 8000]])
    };
    refused(&array("dim.npy", "<f4", "False", &[50, 19]), &["dim 20", "dim 19"]);
    refused(&array("double.npy", "<f8", "False", &[50, 20]), &["'<f8'", "'<f4'"]);
    refused(&array("big.npy", ">f4", "False", &[50, 20]), &["'>f4'"]);
    refused(&array("order.npy", "<f4", "True", &[50, 20]), &["Fortran"]);
    refused(&array("flat.npy", "<f4", "False", &[1000]), &["2 dimensions"]);
    refused(&array("cube.npy", "<f4", "False", &[5, 10, 20]), &["2 dimensions"]);
    refused(&given.write("text.csv", &[b"1,2,3\n"]), &["an index of nearfield"]);
    // One row that no index takes.
    for (value, what) in [(f32::NAN, "4321"), (1e30, "4321")] {
        let mut values = given.values.clone();
        values[4321 * DIM] = value;
        let header = npy_header("<f4", "False", &[ROWS, DIM], 64);
        refused(&given.write("value.npy", &[&header, bytemuck::cast_slice(&values)]), &[what]);
    }
    // A bit of a saved index.
    let path = given.path("saved.nf");
    given.on_host(Metric::L2, ElementKind::F32).save(&path).expect("saved");
    let mut bytes = fs::read(&path).expect("a file");
    let last = bytes.len() - 1000;
    bytes[last] ^= 1;
    refused(&given.write("damaged.nf", &[&bytes]), &["checksum"]);
    refused(&given.write("cut.nf", &[&bytes[..last]]), &["bytes"]);
}

#[test]
fn a_file_without_rows_is_an_empty_index() {
    let given = Given::new(34);
    let path = given.write("none.npy", &[&npy_header("<f4", "False", &[0, DIM], 64)]);
    for device in devices() {
        let index = mapped(&device, Metric::L2, &path).expect("an index");
        assert!(index.is_empty());
        assert!(index.search(&given.queries[..DIM], 3).expect("an answer").row(0).is_empty());
    }
}

#[test]
fn files_that_change_are_errors() {
    let given = Given::new(35);
    for device in devices() {
        for change in ["value", "cut", "longer"] {
            let path = given.npy("changing.npy");
            let index = mapped(&device, Metric::L2, &path).expect("an index");
            index.search(&given.queries[..DIM], 3).expect("an answer");
            // Times of files may be coarse.
            std::thread::sleep(std::time::Duration::from_millis(30));
            let mut file = File::options().write(true).open(&path).expect("there");
            let length = file.metadata().expect("there").len();
            match change {
                "value" => {
                    file.seek(SeekFrom::Start(length - 4)).expect("a place");
                    file.write_all(&1f32.to_le_bytes()).expect("written");
                }
                "cut" => file.set_len(length / 2).expect("cut"),
                _ => file.set_len(length + 4096).expect("longer"),
            }
            drop(file);
            for error in [
                index.search(view(&given.queries, DIM), 3).expect_err("a changed file"),
                index
                    .search_with(&given.queries[..DIM], &SearchOptions::within(1.0))
                    .expect_err("a changed file"),
                index.get(&[4999]).expect_err("a changed file"),
                index.to_bytes().expect_err("a changed file"),
            ] {
                assert!(matches!(error, Error::File { .. }), "{error:?}");
                assert!(error.to_string().contains("changing.npy"), "{error}");
                assert!(error.to_string().contains("when it was mapped"), "{error}");
            }
        }
        // Another file under the same name leaves the mapped one.
        let path = given.npy("replaced.npy");
        let index = mapped(&device, Metric::L2, &path).expect("an index");
        let other = given.write("other.npy", &[b"something else"]);
        if cfg!(unix) {
            fs::rename(other, &path).expect("renamed");
            given.compare(&index, &given.on_host(Metric::L2, ElementKind::F32));
        }
    }
}

#[test]
fn rows_in_a_file_go_but_do_not_come() {
    let given = Given::new(36);
    let path = given.npy("rows.npy");
    for device in devices() {
        let mut index = mapped(&device, Metric::L2, &path).expect("an index");
        let mut wanted = given.on_host(Metric::L2, ElementKind::F32);
        let row = &given.values[..DIM];
        for error in [
            index.add(row).expect_err("a file is not written to"),
            index.update(&[3], row).expect_err("a file is not written to"),
        ] {
            assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
            assert!(error.to_string().contains("rows.npy"), "{error}");
        }
        let gone: Vec<u64> = (0..ROWS as u64).filter(|id| id % 5 < 3).collect();
        index.remove(&gone).expect("there");
        wanted.remove(&gone).expect("there");
        let last: Vec<u64> = (4900..5000).filter(|id| id % 5 >= 3).collect();
        index.remove(&last).expect("there");
        wanted.remove(&last).expect("there");
        given.compare(&index, &wanted);
        assert!(matches!(index.compact(), Err(Error::Unsupported { .. })));
        given.compare(&index, &wanted);
        let all = index.ids().expect("memory");
        index.remove(&all).expect("there");
        assert!(index.is_empty());
        assert!(index.search(row, 3).expect("an answer").row(0).is_empty());
    }
}

#[test]
fn memory_tells_what_is_in_the_file() {
    let given = Given::new(37);
    let path = given.npy("rows.npy");
    for device in devices() {
        let builder = Flat::builder(&device, Metric::L2, DIM).quantization(Quantization::Int8);
        let index = builder.mapped(path.clone()).build().expect("an index");
        let memory = index.memory();
        assert_eq!(memory.at(Residency::Mapped), (ROWS * DIM * 4) as u64, "{memory}");
        let rows: Vec<_> = memory.parts().iter().filter(|part| part.name == "rows").collect();
        assert!(rows.len() == 1 && rows[0].residency == Residency::Mapped, "{memory}");
        assert!(memory.to_string().contains("(mapped)"), "{memory}");
        assert_eq!(memory.total(), memory.at(Residency::Device) + memory.at(Residency::Host));
        assert!(index.is_quantized());

        let builder = Flat::builder(&device, Metric::L2, DIM).distribution(Distribution::Replicated);
        let index = builder.mapped(path.clone()).build().expect("an index");
        given.compare(&index, &given.on_host(Metric::L2, ElementKind::F32));
        assert_eq!(index.memory().at(Residency::Mapped), (ROWS * DIM * 4) as u64, "there is one file");
    }
}

#[test]
fn rows_are_mapped_by_a_builder_with_a_path_alone() {
    let given = Given::new(38);
    let path = given.path("saved.nf");
    given.on_host(Metric::L2, ElementKind::F32).save(&path).expect("saved");
    let loader = Flat::loader(&Device::host()).residency(Residency::Mapped);
    let error = loader.load(&path).expect_err("the builder maps files");
    let is_refused = |error: Error| matches!(error, Error::Argument { argument: "residency", .. });
    assert!(is_refused(error), "a loader");
    // Neither a file that stays where it is without its path, nor a path of rows that are to be elsewhere.
    let builder = || Flat::builder(&Device::host(), Metric::L2, DIM);
    assert!(is_refused(builder().residency(Residency::Mapped).build().expect_err("no path")));
    assert!(is_refused(builder().mapped(&path).residency(Residency::Host).build().expect_err("two places")));
}

/// Shards are whole blocks: one of two has more than half of the rows.
#[test]
fn shards_whose_copy_does_not_quite_fit_are_streamed() {
    let given = Given::new(39);
    let path = given.npy("rows.npy");
    let wanted = given.on_host(Metric::L2, ElementKind::F32);
    let Some(roomy) = support::devices(Adapter, 2) else { return };
    let there = mapped(&Devices::from(&roomy), Metric::L2, &path).expect("an index");
    let each = there.memory().at(Residency::Device) / 2;
    assert_eq!(there.plan(40, 10).expect("a plan").windows, 0);
    // Room for half of the rows, in whole blocks that is not enough.
    let limit = each * (ROWS as u64 / 2) / (ROWS as u64 / 2).next_multiple_of(128);
    let [one, other] = [limit, limit - 1].map(|limit| limited(limit).expect("a device"));
    let index = mapped(&Devices::from(&[one.clone(), other.clone()]), Metric::L2, &path).expect("an index");
    assert!(index.plan(40, 10).expect("a plan").windows > 0);
    given.compare(&index, &wanted);
}

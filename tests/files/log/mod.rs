//! What a log of changes has, an index has when it is opened again: all that was synced, and no change in part.

#[cfg(unix)]
mod killed;
mod script;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use nearfield::{
    AddOptions, Device, Durable, ElementKind, Error, Flat, Index, Ivf, Matrix, Metric, SavedIndex,
    SearchOptions,
};
use script::{Change, DIM, Model, make};
use tempfile::TempDir;

/// The host engine, made once: it looks at the processor.
fn host() -> &'static Device {
    static HOST: LazyLock<Device> = LazyLock::new(Device::host);
    &HOST
}

fn empty() -> Flat {
    Flat::builder(host(), Metric::L2Squared, DIM).build().expect("an index")
}

fn created() -> (TempDir, PathBuf, Durable<Flat>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("index.nf");
    let index = Durable::create(empty(), &path).expect("created");
    (folder, path, index)
}

fn opened(path: &Path) -> Durable<Flat> {
    Flat::open(host(), path).expect("opened")
}

fn log_of(path: &Path) -> PathBuf {
    SavedIndex::log_path(path)
}

fn model_of(index: &Flat) -> Model {
    Model::of(index, index.next_id())
}

#[test]
fn what_was_changed_is_there_when_the_index_is_opened_or_loaded_again() {
    let (_folder, path, mut index) = created();
    let mut model = Model::default();
    for round in 0..12 {
        make(&mut index, round * 9..(round + 1) * 9, &mut model);
        assert_eq!(model_of(&index), model, "round {round}, before it is closed");
        if round % 4 == 2 {
            index.checkpoint().expect("a checkpoint");
            assert_eq!(index.log_bytes(), 0);
        }
        drop(index);
        assert_eq!(model_of(&Flat::load(host(), &path).expect("loaded")), model, "round {round}");
        index = opened(&path);
        assert_eq!((model_of(&index), index.cut_bytes()), (model.clone(), 0), "round {round}");
    }
}

#[test]
fn each_kind_of_index_and_rows_goes_through_its_log() {
    let host = host();
    let values: Vec<f32> = (0..600).map(|i| ((i * 37) % 101) as f32).collect();
    let numbers = Matrix::F32(values, 6);
    let bits = Matrix::Bits((0..60).map(|i| nearfield::PackedBits((i as u8).wrapping_mul(5))).collect(), 2);
    for (kind, store) in
        ElementKind::ALL.map(|kind| (kind, false)).into_iter().chain([(ElementKind::I8, true)])
    {
        let is_bits = kind == ElementKind::Bits;
        let rows = if is_bits { bits.clone() } else { numbers.clone() };
        let metric = if is_bits { Metric::Hamming } else { Metric::Cosine };
        let dim = rows.dim();
        let given = if store { rows.clone() } else { rows.clone().to_kind(kind) };
        let flat = Flat::builder(host, metric, dim);
        let flat = if store { flat.store(kind) } else { flat.elements(kind) };
        let ivf = Ivf::builder(host, metric, dim).lists(3);
        let ivf = if store { ivf.store(kind) } else { ivf.elements(kind) };
        let indexes = [
            Index::from(flat.build().expect("a flat")),
            ivf.train(&if store { rows.clone() } else { rows.clone().to_kind(kind) }).expect("an ivf").into(),
        ];
        for mut plain in indexes {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("index.nf");
            let copy = plain.clone_to(host).expect("a copy");
            let mut index = Durable::create(copy, &path).expect("created");
            let ids: Vec<u64> = (0..given.rows() as u64).map(|id| 3 * id + 1).collect();
            let options = AddOptions::new().ids(&ids);
            let new = nearfield::HostVectors::from(&given).slice(5..7);
            index.add_with(&given, &options).expect("added");
            index.update(&[4, 10], new).expect("updated");
            index.remove(&[1, 7]).expect("removed");
            plain.add_with(&given, &options).expect("added");
            plain.update(&[4, 10], new).expect("updated");
            plain.remove(&[1, 7]).expect("removed");
            drop(index);
            let index = Index::open(host, &path).expect("opened");
            let all = SearchOptions::new(40).iterative_scan(true);
            let found =
                [&plain, &*index].map(|index| index.search_with(&rows, &all).expect("found").neighbors);
            assert_eq!(found[0], found[1], "{kind:?} {store} {:?}", plain.lists());
            let of = |index: &Index| {
                let ids = index.ids().expect("ids");
                (index.get(&ids).expect("rows"), ids, index.next_id(), index.elements(), index.quantizes())
            };
            assert_eq!(of(&index), of(&plain), "{kind:?} {store}");
        }
    }
}

/// The bytes of a log after some changes, and where it ended after each. The first `synced` of them were synced.
fn logged(changes: u64, synced: u64) -> (TempDir, PathBuf, Vec<u8>, Vec<usize>) {
    let (folder, path, mut index) = created();
    let mut model = Model::default();
    let mut ends = vec![fs::read(log_of(&path)).expect("a log").len()];
    for number in 0..changes {
        make(&mut index, number..number + 1, &mut model);
        if number + 1 == synced {
            index.sync().expect("synced");
        }
        ends.push(fs::read(log_of(&path)).expect("a log").len());
    }
    drop(index);
    let bytes = fs::read(log_of(&path)).expect("a log");
    (folder, path, bytes, ends)
}

#[test]
fn every_prefix_of_a_log_gives_the_changes_that_are_whole_in_it() {
    let (_folder, path, bytes, ends) = logged(7, 0);
    let models: Vec<Model> = (0..=7).map(Model::after).collect();
    for length in 0..=bytes.len() {
        fs::write(log_of(&path), &bytes[..length]).expect("written");
        let whole = ends.iter().take_while(|&&end| end <= length).count().saturating_sub(1);
        assert_eq!(model_of(&Flat::load(host(), &path).expect("loaded")), models[whole], "{length}");
        // A writer waits for the disk.
        if length % 7 > 0 && !ends.contains(&length) {
            continue;
        }
        let mut index = opened(&path);
        assert_eq!(model_of(&index), models[whole], "{length} bytes");
        let cut = if length < ends[0] { 0 } else { length - ends[whole] };
        assert_eq!(index.cut_bytes(), cut as u64, "{length} bytes");
        let mut model = models[whole].clone();
        make(&mut index, 100..101, &mut model);
        drop(index);
        assert_eq!(model_of(&opened(&path)), model, "{length} bytes and a change");
    }
}

#[test]
fn a_disk_that_lost_bytes_behind_the_last_sync_has_all_changes_before_it() {
    let (_folder, path, bytes, ends) = logged(14, 8);
    let models: Vec<Model> = (0..=14).map(Model::after).collect();
    // Zeros where the system had given room and not yet bytes, and bytes of other files; the rest may have come to the disk.
    for hole in (ends[8]..bytes.len()).step_by(8) {
        for end in [hole + 8, hole + 100, bytes.len()] {
            for fill in [0, 0xa5] {
                let mut left = bytes.clone();
                let end = end.min(bytes.len());
                left[hole..end].fill(fill);
                if left == bytes {
                    continue;
                }
                fs::write(log_of(&path), &left).expect("written");
                let found = model_of(&opened(&path));
                let whole = ends.iter().take_while(|&&end| end <= hole).count() - 1;
                assert_eq!(found, models[whole], "a hole at {hole}..{end}");
                assert!(whole >= 8);
            }
        }
    }
}

#[test]
fn damage_before_a_sync_is_named_with_its_byte() {
    let (_folder, path, bytes, ends) = logged(6, 6);
    for place in (0..bytes.len()).step_by(3) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x10;
        fs::write(log_of(&path), &damaged).expect("written");
        let error = Flat::load(host(), &path);
        let whole = ends.iter().take_while(|&&end| end <= place).count();
        if place >= bytes.len() - 32 {
            // The record that tells of the sync itself, which nothing tells of.
            assert_eq!(model_of(&error.expect("loaded")), Model::after(6));
            continue;
        }
        let message = error.expect_err("damaged").to_string();
        if whole > 0 {
            let byte =
                message.split("a whole record at byte ").nth(1).and_then(|rest| rest.split(',').next());
            let byte: usize =
                byte.and_then(|byte| byte.parse().ok()).unwrap_or_else(|| panic!("{place}: {message}"));
            assert!((ends[whole - 1]..=place).contains(&byte), "byte {place}: {message}");
        } else {
            assert!(
                message.contains("the log of an index") || message.contains("changes of"),
                "{place}: {message}"
            );
        }
        assert!(Flat::open(host(), &path).is_err());
        assert_eq!(fs::read(log_of(&path)).expect("there"), damaged, "it stays as it is");
    }
}

#[test]
fn a_checkpoint_that_ended_anywhere_loses_nothing() {
    let (_folder, path, mut index) = created();
    let mut model = Model::default();
    make(&mut index, 0..20, &mut model);
    let before = [&path, &log_of(&path)].map(|file| fs::read(file).expect("there"));
    index.checkpoint().expect("a checkpoint");
    drop(index);
    let after = [&path, &log_of(&path)].map(|file| fs::read(file).expect("there"));
    assert_ne!(before[0], after[0]);
    let header = after[1].clone();
    assert_eq!(header.len(), 32);
    let mut half = before[1].clone();
    half[..32].copy_from_slice(&header);
    let logs = [&before[1][..], &[], &header[..9], &[0; 32], &header, &half];
    for (file, logs) in [(&before[0], &logs[..1]), (&after[0], &logs[..])] {
        for (number, log) in logs.iter().enumerate() {
            fs::write(&path, file).expect("written");
            fs::write(log_of(&path), log).expect("written");
            assert_eq!(model_of(&Flat::load(host(), &path).expect("loaded")), model, "log {number}");
            let mut index = opened(&path);
            assert_eq!(model_of(&index), model, "log {number}");
            let mut model = model.clone();
            make(&mut index, 20..23, &mut model);
            drop(index);
            assert_eq!(model_of(&opened(&path)), model, "log {number} and changes");
        }
    }
}

#[test]
fn a_change_that_is_refused_leaves_index_and_log_as_they_were() {
    let (_folder, path, mut index) = created();
    let mut model = Model::default();
    make(&mut index, 0..5, &mut model);
    let bytes = fs::read(log_of(&path)).expect("a log");
    let refused = |result: nearfield::Result<()>, needed: &str| {
        let message = result.expect_err("refused").to_string();
        assert!(message.contains(needed), "{message}");
        assert_eq!(fs::read(log_of(&path)).expect("a log"), bytes, "{needed}");
    };
    refused(index.add(&[[1.0f32, f32::NAN, 0.0]]), "NaN");
    refused(index.add(&[[1.0f32, 2.0]]), "dim 3");
    refused(index.add_with(&[[1.0f32; 3]; 2], &AddOptions::new().ids(&[900, 900])), "900 again");
    refused(index.update(&[1 << 50], &[[1.0f32; 3]]), "no row has");
    let id = *model.rows.keys().next().expect("a row");
    refused(index.update(&[id, id], &[[1.0f32; 3]; 2]), "twice");
    refused(index.remove(&[id, 1 << 50]), "no row has");
    let mut other = empty();
    other.add_with(&[[1.0f32; 3]; 2], &AddOptions::new().ids(&[9000, id])).expect("added");
    refused(index.merge(&other), "again");
    assert_eq!(model_of(&index), model);
    index.add(&[[0.0f32; 3]; 0]).expect("no rows");
    drop(index);
    assert_eq!(model_of(&opened(&path)), model);
}

#[test]
fn a_merge_is_one_change() {
    let (_folder, path, mut index) = created();
    let mut other = Flat::builder(host(), Metric::L2Squared, DIM).build().expect("an index");
    let rows: Vec<[f32; 3]> = (0..50).map(|row| [row as f32, 1.0, -1.0]).collect();
    other.add_with(&rows[..], &AddOptions::new().ids(&(500..550).collect::<Vec<_>>())).expect("added");
    index.merge(&other).expect("merged");
    let merged = model_of(&index);
    assert_eq!((merged.rows.len(), merged.next), (50, 50));
    drop(index);
    assert_eq!(model_of(&opened(&path)), merged);
    let bytes = fs::read(log_of(&path)).expect("a log");
    fs::write(log_of(&path), &bytes[..bytes.len() - 1]).expect("written");
    assert!(opened(&path).is_empty());
}

#[test]
fn one_writer_has_an_index_at_a_time_and_nobody_replaces_its_file() {
    let (folder, path, index) = created();
    let locked = |result: Option<Error>| {
        let message = result.expect("refused").to_string();
        assert!(message.contains("one that a writer has open"), "{message}");
    };
    locked(Flat::open(host(), &path).err());
    locked(empty().save(&path).err());
    Flat::load(host(), &path).expect("readers come and go");
    empty().save(folder.path().join("other.nf")).expect("another path");
    drop(index);
    let mut index = opened(&path);
    index.add(&[[1.0f32; 3]]).expect("added");
    index.save(&path).expect("its own file, by a checkpoint");
    assert_eq!(index.log_bytes(), 0);
    index.add(&[[2.0f32; 3]]).expect("added");
    drop(index);
    assert!(Durable::create(empty(), &path).expect_err("there is a file").to_string().contains("exists"));
    let log = fs::read(log_of(&path)).expect("a log");
    empty().save(&path).expect("replaced as a whole");
    assert!(!log_of(&path).exists(), "with its log");
    // A crash before that was removed.
    fs::write(log_of(&path), log).expect("written");
    assert!(opened(&path).is_empty());
}

#[test]
fn documents_have_no_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("docs.nf");
    let documents = || nearfield::MultiVector::builder(host(), DIM).build().expect("an index");
    let message = Durable::create(documents(), &path).expect_err("refused").to_string();
    assert!(message.contains("a MultiVector"), "{message}");
    documents().save(&path).expect("saved");
    assert!(nearfield::MultiVector::loader(host()).open(&path).is_err());
    assert!(!folder.path().join("docs.nf.lock").exists());
}

#[test]
fn the_log_of_another_index_is_refused() {
    let (folder, path, mut index) = created();
    index.add(&[[1.0f32; 3]]).expect("added");
    drop(index);
    let other = folder.path().join("other.nf");
    let mut another = empty();
    another.add(&[[5.0f32; 3]]).expect("added");
    another.save(&other).expect("saved");
    fs::copy(log_of(&path), log_of(&other)).expect("copied");
    let message = Flat::load(host(), &other).expect_err("refused").to_string();
    assert!(message.contains("those of another index"), "{message}");
}

#[test]
fn rows_in_a_file_that_has_changes_beside_it_are_not_mapped() {
    let (_folder, path, mut index) = created();
    index.add(&[[1.0f32; 3]]).expect("added");
    let mapped = || Flat::builder(host(), Metric::L2Squared, DIM).mapped(&path).build();
    let message = mapped().expect_err("refused").to_string();
    assert!(message.contains("one with a log of changes"), "{message}");
    index.checkpoint().expect("a checkpoint");
    assert_eq!(mapped().expect("mapped").len(), 1);
}

#[test]
fn a_follower_takes_changes_as_they_come() {
    let (_folder, path, mut index) = created();
    let mut model = Model::default();
    let mut follower = Flat::loader(host()).follow(&path).expect("followed");
    for round in 0..10 {
        assert!(!follower.refresh().expect("refreshed"), "nothing new");
        make(&mut index, round * 4..round * 4 + 4, &mut model);
        if round % 3 == 2 {
            index.checkpoint().expect("a checkpoint");
        }
        assert_ne!(model_of(&follower), model);
        assert!(follower.refresh().expect("refreshed"));
        assert_eq!(model_of(&follower), model, "round {round}");
    }
    // An unfinished change is not there yet.
    let bytes = fs::read(log_of(&path)).expect("a log");
    let change = Change::number(400, &model);
    change.make(&mut index).expect("changed");
    let more = fs::read(log_of(&path)).expect("a log");
    fs::write(log_of(&path), &more[..bytes.len() + 40]).expect("written");
    assert!(!follower.refresh().expect("refreshed"));
    fs::write(log_of(&path), &more).expect("written");
    assert!(follower.refresh().expect("refreshed"));
    change.note(&mut model);
    assert_eq!(model_of(&follower), model);
}

#[test]
fn a_long_log_is_folded_into_the_file_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("index.nf");
    let flat = || Flat::builder(host(), Metric::L2Squared, 1024).build().expect("an index");
    // 20 MB, so two records each.
    let rows = Matrix::F32((0..5000 * 1024).map(|i| i as f32).collect(), 1024);
    for (part, folds) in [(None, false), (Some(1.0), true)] {
        let mut index = Durable::create(flat(), &path).expect("created").checkpoint_at(part);
        (0..5).for_each(|_| index.add(&rows).expect("added"));
        assert_eq!((index.log_bytes() < 30 << 20, index.checkpoint_error().is_none()), (folds, true));
        drop(index);
        let loaded = Flat::load(host(), &path).expect("loaded");
        assert_eq!((loaded.len(), loaded.next_id()), (25_000, 25_000));
        fs::remove_file(&path).expect("removed");
    }
}

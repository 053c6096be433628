//! Proves that saved indexes load, and that saving is atomic.

mod refused;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use safetensors::SafeTensors;
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::index::file::header::LONGEST;
use crate::index::file::{Dtype, Reader, Writer};

/// A small index of `rows` rows of two f32, with all bytes derived from `seed`, and two tensors without elements.
struct Small {
    rows: usize,
    seed: u64,
}

impl Small {
    fn ids(&self) -> Vec<u64> {
        (0..self.rows as u64).map(|id| id * 3 + self.seed).collect()
    }

    fn row_bytes(&self) -> Vec<u8> {
        (0..self.rows * 2).flat_map(|value| (value as f32 + self.seed as f32).to_le_bytes()).collect()
    }

    fn writer(&self, path: &Path) -> crate::Result<Writer<'_>> {
        let metadata = [("metric", "cosine".to_owned()), ("seed", self.seed.to_string())];
        let ids = [self.rows];
        let rows = [self.rows, 2];
        let tensors: [(&str, Dtype, &[usize]); 4] = [
            ("ids", Dtype::U64, &ids),
            ("none", Dtype::F32, &[0, 7]),
            ("empty", Dtype::F32, &[5, 0]),
            ("rows", Dtype::F32, &rows),
        ];
        Writer::create(path, &metadata, &tensors)
    }

    fn save(&self, path: &Path) -> crate::Result<()> {
        let mut writer = self.writer(path)?;
        for id in self.ids() {
            writer.write("ids", &id.to_le_bytes())?;
        }
        for piece in self.row_bytes().chunks(5) {
            writer.write("rows", piece)?;
        }
        writer.finish()
    }
}

/// Reads all parts of a `Small` with any seed, and checks them.
fn load(path: &Path) -> crate::Result<Small> {
    let reader = Reader::open(path)?;
    let (kind, rows) = reader.rows("rows", 2)?;
    let small = Small { rows, seed: reader.get("seed", "a number")? };
    let mut pieces = reader.tensor("rows", kind.dtype(), &[rows, 2], 24)?;
    let mut bytes: Vec<u8> = vec![];
    while let Some(piece) = pieces.next_piece()? {
        bytes.extend(piece);
    }
    for (name, shape) in [("none", [0, 7]), ("empty", [5, 0])] {
        assert!(reader.tensor(name, Dtype::F32, &shape, 1)?.next_piece()?.is_none());
    }
    assert_eq!(reader.u64s("ids", &[rows])?, small.ids());
    assert_eq!(bytes, small.row_bytes());
    Ok(small)
}

/// A directory with a `Small` in `a.nf`, and the path of that file.
fn saved(rows: usize, seed: u64) -> Result<(TempDir, PathBuf)> {
    let directory = TempDir::new()?;
    let path = directory.path().join("a.nf");
    Small { rows, seed }.save(&path)?;
    Ok((directory, path))
}

fn names(directory: &Path) -> Result<Vec<String>> {
    let name = |entry: std::io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    let mut names = fs::read_dir(directory)?.map(name).collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

#[test]
fn what_was_saved_is_loaded() -> Result<()> {
    let directory = TempDir::new()?;
    let path = directory.path().join("a.nf");
    for rows in [0, 1, 1000] {
        Small { rows, seed: 5 }.save(&path)?;
        assert_eq!(load(&path)?.rows, rows);
        let first = fs::read(&path)?;
        Small { rows, seed: 5 }.save(&path)?;
        assert_eq!(first, fs::read(&path)?, "the same index is the same bytes");
    }
    // A path without a directory stands for the current directory.
    let bare = format!("nearfield-{}.nf", std::process::id());
    let saved = Small { rows: 3, seed: 0 }.save(Path::new(&bare));
    let loaded = load(Path::new(&bare));
    fs::remove_file(&bare)?;
    saved?;
    assert_eq!(loaded?.rows, 3);
    Ok(())
}

#[test]
fn the_crate_reads_it() -> Result<()> {
    let (_directory, path) = saved(9, 2)?;
    let bytes = fs::read(&path)?;
    let file = SafeTensors::deserialize(&bytes)?;
    assert_eq!(file.len(), 4);
    let rows = file.tensor("rows")?;
    assert_eq!(
        (rows.dtype(), rows.shape(), rows.data()),
        (Dtype::F32, &[9, 2][..], &Small { rows: 9, seed: 2 }.row_bytes()[..])
    );
    assert_eq!(file.tensor("none")?.shape(), [0, 7]);
    let (length, header) = SafeTensors::read_metadata(&bytes)?;
    ensure!(length.is_multiple_of(8));
    let checksum = header.metadata().iter().flatten().find(|(key, _)| *key == "xxh3.rows");
    let digits = format!("{:016x}", xxh3_64(rows.data()));
    assert_eq!(checksum.context("a checksum")?.1, &digits);
    Ok(())
}

#[test]
fn an_end_at_any_step_leaves_the_old_file() -> Result<()> {
    let (directory, path) = saved(4, 1)?;
    let before = fs::read(&path)?;
    let new = Small { rows: 3000, seed: 7 };
    let ids: Vec<u8> = new.ids().iter().flat_map(|id| id.to_le_bytes()).collect();
    let bytes = new.row_bytes();
    let steps = [(0, 0), (1, 0), (ids.len(), 0), (ids.len(), 1), (ids.len(), 9999), (ids.len(), bytes.len())];
    for killed in [false, true] {
        for (step, (of_ids, of_rows)) in steps.into_iter().enumerate() {
            let mut writer = new.writer(&path)?;
            writer.write("ids", &ids[..of_ids])?;
            if of_ids == ids.len() {
                writer.write("rows", &bytes[..of_rows])?;
            }
            let hidden = names(directory.path())?.into_iter().find(|name| name.ends_with(".tmp"));
            let hidden = directory.path().join(hidden.context("a file that is being written")?);
            ensure!(Reader::open(&hidden).is_err(), "nobody takes a part for the whole");
            if killed {
                // A killed process leaves its file behind, and a later process may have the same id.
                std::mem::forget(writer);
                let left = names(directory.path())?;
                assert_eq!(left.len(), 2 + step);
            } else if step == steps.len() - 1 {
                drop(writer);
                assert_eq!(names(directory.path())?, ["a.nf"]);
            } else {
                let error = writer.finish().err().context("an error")?;
                ensure!(matches!(error, Error::Argument { argument: "tensor", .. }), "{error:?}");
                assert_eq!(names(directory.path())?, ["a.nf"]);
            }
            assert!(before == fs::read(&path)?);
        }
    }
    new.save(&path)?;
    assert_eq!(load(&path)?.rows, 3000);
    Ok(())
}

#[test]
fn a_place_that_cannot_be_written_is_an_error() -> Result<()> {
    let directory = TempDir::new()?;
    let small = Small { rows: 4, seed: 1 };
    let taken = directory.path().join("directory");
    fs::create_dir_all(taken.join("full"))?;
    let file = directory.path().join("file");
    fs::write(&file, "")?;
    let mut paths = vec![taken.clone(), directory.path().join("missing/a.nf"), file.join("a.nf")];
    if cfg!(target_os = "linux") {
        paths.push("/proc/self/a.nf".into());
    }
    let closed = directory.path().join("closed");
    fs::create_dir(&closed)?;
    let old = closed.join("old.nf");
    small.save(&old)?;
    let open = fs::metadata(&closed)?.permissions();
    let mut permissions = open.clone();
    permissions.set_readonly(true);
    fs::set_permissions(&closed, permissions)?;
    // Privileged users and Windows can write there anyway; on Linux, /proc refuses privileged users as well.
    if fs::write(closed.join("probe"), "").is_err() {
        paths.push(old.clone());
        paths.push(closed.join("new.nf"));
    }
    for path in &paths {
        let error = small.save(path).err().with_context(|| format!("an error for {}", path.display()))?;
        ensure!(matches!(&error, Error::Io { path: named, .. } if named == path), "{error:?}");
    }
    fs::set_permissions(&closed, open)?;
    assert_eq!(load(&old)?.rows, 4);
    assert_eq!(names(directory.path())?, ["closed", "directory", "file"]);
    assert_eq!(names(&taken)?, ["full"]);
    Ok(())
}

#[test]
fn saves_at_the_same_time_leave_one_whole_file() -> Result<()> {
    let (directory, path) = saved(1, 0)?;
    std::thread::scope(|scope| {
        let savers: Vec<_> = (1..3)
            .map(|seed| {
                let path = &path;
                scope.spawn(move || {
                    for turn in 0..30 {
                        Small { rows: 500 * seed as usize + turn, seed }.save(path)?;
                    }
                    crate::Result::<()>::Ok(())
                })
            })
            .collect();
        while savers.iter().any(|saver| !saver.is_finished()) {
            load(&path)?;
        }
        for saver in savers {
            saver.join().map_err(|_| anyhow::anyhow!("a saver panicked"))??;
        }
        anyhow::Ok(())
    })?;
    ensure!([1, 2].contains(&load(&path)?.seed));
    assert_eq!(names(directory.path())?, ["a.nf"]);
    Ok(())
}

#[test]
fn what_is_missing_is_named() -> Result<()> {
    let (_directory, path) = saved(5, 1)?;
    let reader = Reader::open(&path)?;
    assert_eq!(reader.get::<crate::Metric>("metric", "a metric")?, crate::Metric::Cosine);
    let messages = [
        reader.get::<u64>("dim", "a number").map(|_| ()),
        reader.get::<u64>("metric", "a number").map(|_| ()),
        reader.tensor("centroids", Dtype::F32, &[5, 2], 8).map(|_| ()),
        reader.tensor("rows", Dtype::F16, &[5, 2], 8).map(|_| ()),
        reader.tensor("rows", Dtype::F32, &[2, 5], 8).map(|_| ()),
        reader.u64s("ids", &[6]).map(|_| ()),
        reader.rows("rows", 3).map(|_| ()),
        reader.rows("ids", 1).map(|_| ()),
    ];
    let expected = [
        "needed metadata `dim`, a number, found none",
        "needed metadata `metric`, a number, found \"cosine\"",
        "needed a tensor centroids, found tensors [ids, empty, none, rows]",
        "needed tensor rows: F16 [5, 2], found tensor rows: F32 [5, 2]",
        "needed tensor rows: F32 [2, 5], found tensor rows: F32 [5, 2]",
        "needed tensor ids: U64 [6], found tensor ids: U64 [5]",
        "needed tensor rows: F32 or F16 or BF16 or I8 or U8 [rows, 3], found tensor rows: F32 [5, 2]",
        "needed tensor ids: F32 or F16 or BF16 or I8 or U8 [rows, 1], found tensor ids: U64 [5]",
    ];
    for (message, expected) in messages.into_iter().zip(expected) {
        let message = message.err().context("an error")?.to_string();
        ensure!(message.ends_with(expected) && message.contains("a.nf"), "{message}");
    }
    Ok(())
}

#[test]
fn a_writer_takes_what_it_was_told() -> Result<()> {
    let directory = TempDir::new()?;
    let path = directory.path().join("a.nf");
    let create = |keys: &[&str], tensors: &[(&str, Dtype, &[usize])]| {
        let metadata: Vec<_> = keys.iter().map(|key| (*key, "value".to_owned())).collect();
        Writer::create(&path, &metadata, tensors).map(|_| ()).err()
    };
    let long = "k".repeat(LONGEST);
    let refused = [
        create(&["format"], &[]),
        create(&["key", "key"], &[]),
        create(&["xxh3.a"], &[("a", Dtype::U8, &[1])]),
        create(&[&long], &[]),
        create(&[], &[("header", Dtype::U8, &[1])]),
        create(&[], &[("a", Dtype::U8, &[1]), ("a", Dtype::U8, &[1])]),
        create(&[], &[("a", Dtype::U8, &[1]), ("b", Dtype::F16, &[1])]),
        create(&[], &[("a", Dtype::F4, &[2])]),
        create(&[], &[("a", Dtype::U8, &[usize::MAX, 2])]),
        create(&[], &[("a", Dtype::U8, &[usize::MAX]), ("b", Dtype::U8, &[1])]),
    ];
    for (case, error) in refused.into_iter().enumerate() {
        ensure!(matches!(error, Some(Error::Argument { .. })), "case {case}: {error:?}");
    }

    let small = Small { rows: 2, seed: 0 };
    let mut writer = small.writer(&path)?;
    for (tensor, bytes) in [("rows", 1), ("ids", 17), ("none", 1), ("other", 0)] {
        let error = writer.write(tensor, &vec![0; bytes]).err().context("an error")?;
        ensure!(error.to_string().contains("needed 16 bytes of ids"), "{error}");
    }
    // None of these calls wrote anything.
    writer.write("ids", &[0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0])?;
    writer.write("rows", &small.row_bytes())?;
    let error = writer.write("rows", &[0]).err().context("an error")?;
    ensure!(error.to_string().contains("needed 0 bytes of rows"), "{error}");
    writer.finish()?;
    assert_eq!(load(&path)?.rows, 2);
    Ok(())
}

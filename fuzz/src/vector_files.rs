//! Files of vectors, ids and distances: what is read has the shape that was told, in whole and in pieces.

use std::fs;
use std::path::{Path, PathBuf};

use nearfield::Matrix;
use nearfield::io::{Ids, VectorFile, read_distances, read_ids, read_values, write_npy, write_truth};
use tempfile::TempDir;

/// The endings of files that are no numpy arrays, and such a file of some rows.
fn raw_files() -> [(&'static str, Vec<u8>); 13] {
    let counted =
        |width: usize| [&3u32.to_le_bytes()[..], &4u32.to_le_bytes(), &vec![7; 12 * width]].concat();
    let prefixed = |row: &[u8]| [&4u32.to_le_bytes()[..], row].concat().repeat(5);
    let text = br#"{"rows":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}    "#;
    [
        ("fvecs", prefixed(&[0; 16])),
        ("bvecs", prefixed(&[9; 4])),
        ("ivecs", prefixed(&[0; 16])),
        ("fbin", counted(4)),
        ("f16bin", counted(2)),
        ("u8bin", counted(1)),
        ("i8bin", counted(1)),
        ("ibin", counted(4)),
        ("bin", counted(8)),
        ("csv", b"1,2.5,-3e2\n4,5,6\n".repeat(3)),
        ("tsv", b"1\t2.5\t-3e2\n4\t5\t6\n".repeat(3)),
        ("jsonl", b"[1, 2.5, -3e2]\n[4, 5, 6]\n".repeat(3)),
        ("safetensors", [&(text.len() as u64).to_le_bytes(), &text[..], &[0; 24]].concat()),
    ]
}

/// A numpy array.
pub(crate) fn npy(data: &[u8]) {
    read(data, "npy", &[""]);
}

/// An archive of numpy arrays.
pub(crate) fn npz(data: &[u8]) {
    read(data, "npz", &["", ":vectors", ":ids", ":distances.npy", ":"]);
}

/// Any other file of numbers: the first byte chooses its ending.
pub(crate) fn raw(data: &[u8]) {
    let Some((&ending, data)) = data.split_first() else { return };
    let files = raw_files();
    read(data, files[usize::from(ending) % files.len()].0, &[""]);
}

/// Reads a file with this content in every way.
fn read(data: &[u8], ending: &str, members: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(format!("file.{ending}"));
    fs::write(&path, data).expect("it is written");
    for member in members {
        let path = PathBuf::from(format!("{}{member}", path.display()));
        if let Ok(file) = VectorFile::open(&path) {
            vectors(&file);
        }
        if let Ok(file) = VectorFile::open(&path).and_then(VectorFile::of_bits) {
            vectors(&file);
        }
        if let Ok(ids) = read_ids(&path) {
            assert_eq!(ids.values.len(), ids.rows * ids.width, "ids");
        }
        if let Ok(Some((distances, width))) = read_distances(&path) {
            assert!(width > 0 && distances.len() % width == 0, "distances");
        }
        drop(read_values(&path));
    }
}

fn vectors(file: &VectorFile) {
    let (rows, dim) = (file.rows(), file.dim());
    assert!(dim > 0, "no dim");
    assert!(file.read(0..rows + 1).is_err(), "rows behind the end");
    let Ok(all) = file.read_all() else { return };
    assert_eq!((all.rows(), all.dim()), (rows, dim), "the shape");
    let middle = rows / 3..rows - rows / 4;
    let part = file.read(middle.clone()).expect("a range of what was read");
    assert_eq!(bits(&part), bits(&all)[middle.start * dim..middle.end * dim], "a range");
    let mut next = 0;
    for piece in file.pieces(100) {
        let (first, piece) = piece.expect("a piece of what was read");
        assert_eq!(first, next, "pieces follow each other");
        next += piece.rows();
        assert_eq!(bits(&piece), bits(&all)[first * dim..next * dim], "a piece");
    }
    assert_eq!(next, rows, "all pieces");
}

/// The bits of all elements: NaN differ otherwise.
fn bits(matrix: &Matrix) -> Vec<u32> {
    match matrix {
        Matrix::F32(values, _) => values.iter().map(|value| value.to_bits()).collect(),
        Matrix::F16(values, _) => values.iter().map(|value| value.to_bits().into()).collect(),
        Matrix::BF16(values, _) => values.iter().map(|value| value.to_bits().into()).collect(),
        Matrix::I8(values, _) => values.iter().map(|&value| value as u32).collect(),
        Matrix::U8(values, _) => values.iter().map(|&value| value.into()).collect(),
        Matrix::Bits(values, _) => values.iter().map(|byte| byte.0.into()).collect(),
    }
}

/// The bytes that `write` puts into a file of this name.
fn written(name: &str, write: impl FnOnce(&Path) -> nearfield::Result<()>) -> Vec<u8> {
    let folder: TempDir = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    write(&path).expect("it is written");
    fs::read(path).expect("it is there")
}

/// Neighbours of six queries.
fn truth() -> (Ids, Vec<f32>) {
    let ids = Ids { values: (0..24).collect(), rows: 6, width: 4 };
    (ids, (0..24).map(|value| value as f32 * 0.5).collect())
}

/// An array of three rows of sixteen bools, which numpy writes and nearfield only reads.
fn bools() -> Vec<u8> {
    let header = "{'descr': '|b1', 'fortran_order': False, 'shape': (3, 16), }";
    let header = format!("{header:<117}\n");
    [b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes(), &[0, 1, 1].repeat(16)].concat()
}

pub(crate) fn npy_seeds() -> Vec<Vec<u8>> {
    let values: Vec<f32> = (0..60).map(|value| value as f32).collect();
    let halves: Vec<half::f16> = values.iter().map(|&value| half::f16::from_f32(value)).collect();
    vec![
        written("a.npy", |path| write_npy(path, [12, 5], &values)),
        written("a.npy", |path| write_npy(path, [60, 1], &halves)),
        written("a.npy", |path| write_npy(path, [6, 4], &truth().0.values)),
        bools(),
    ]
}

pub(crate) fn npz_seeds() -> Vec<Vec<u8>> {
    let (ids, distances) = truth();
    vec![written("a.npz", |path| write_truth(path, &ids, &distances))]
}

pub(crate) fn raw_seeds() -> Vec<Vec<u8>> {
    (0u8..).zip(raw_files()).map(|(ending, (_, bytes))| [&[ending], &bytes[..]].concat()).collect()
}

//! Tests of the reader of HDF5 files, on files that h5py wrote: `data/make.py`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use half::f16;
use nearfield::Matrix;
use nearfield::io::{Ids, VectorFile, read_distances, read_ids};

/// A file of `data`.
pub(crate) fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/data").join(name)
}

fn named(name: &str, dataset: &str) -> String {
    format!("{}:{dataset}", shipped(name).display())
}

/// `[6, 4]`: what most of the datasets hold.
fn rows() -> Vec<f32> {
    (0..24).map(|index| (index * 7 % 100) as f32).collect()
}

#[test]
fn files_of_ann_benchmarks_have_rows_queries_and_truth() -> Result<()> {
    assert_eq!(VectorFile::open(named("ann.hdf5", "train"))?.read_all()?, Matrix::F32(rows(), 4));
    let test = VectorFile::open(named("ann.hdf5", "test"))?;
    assert_eq!((test.read(1..2)?, test.converted()), (Matrix::F32(rows()[4..8].to_vec(), 4), None));
    assert_eq!(read_ids(shipped("ann.hdf5"))?, Ids { values: vec![0, 1, 1, 0], rows: 2, width: 2 });
    assert_eq!(read_distances(shipped("ann.hdf5"))?, Some((vec![0.0, 0.5, 0.0, 0.25], 2)));
    let error = VectorFile::open(shipped("ann.hdf5")).err().context("needed an error")?.to_string();
    for part in
        ["one member that is 2-D of floats or integers", "train (floats of 4 bytes", "[6, 4])", "neighbors ("]
    {
        ensure!(error.contains(part), "{error}");
    }
    Ok(())
}

#[test]
fn every_layout_and_type_reads_the_same_rows() -> Result<()> {
    let halves: Vec<f16> = rows().iter().map(|value| f16::from_f32(*value)).collect();
    for (dataset, note) in [
        ("chunked", None),
        ("gzip", None),
        ("grown", None),
        ("big", Some("float64 rounded to float32, from big endian")),
        ("u8", None),
        ("half", None),
        ("deep/er/rows", Some("int64 to float32")),
    ] {
        let read = VectorFile::open(named("layouts.h5", dataset)).with_context(|| dataset.to_owned())?;
        assert_eq!(read.converted().as_deref(), note, "{dataset}");
        match read.read_all()? {
            Matrix::F16(values, 4) => assert_eq!(values, halves, "{dataset}"),
            other @ Matrix::U8(_, 4) => assert_eq!(other.into_f32(), rows(), "{dataset}"),
            Matrix::F32(values, 4) => assert_eq!(values, rows(), "{dataset}"),
            other => anyhow::bail!("{dataset}: {other:?}"),
        }
        for range in [0..1, 2..5, 5..6, 3..3] {
            let wanted = &rows()[range.start * 4..range.end * 4];
            assert_eq!(read.read(range)?.into_f32(), wanted, "{dataset}");
        }
    }
    assert_eq!(VectorFile::open(shipped("one.h5"))?.read_all()?, Matrix::F32(rows(), 4));
    let unwritten = VectorFile::open(named("layouts.h5", "unwritten"))?;
    assert_eq!(unwritten.read_all()?, Matrix::F32(vec![1.5; 6], 2));
    for (dataset, part) in [
        ("cube", "an array of 2 dimensions"),
        ("texts", "floats or integers"),
        ("line", "an array of 2 dimensions"),
        ("deep", "a member deep"),
        ("absent", "a member absent"),
    ] {
        let error = VectorFile::open(named("layouts.h5", dataset)).err().context(dataset)?.to_string();
        ensure!(error.contains(part), "{dataset}: {error}");
    }
    Ok(())
}

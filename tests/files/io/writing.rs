//! Written files read back, and errors leave no file behind.

use std::fs;

use anyhow::{Context, Result, ensure};
use half::f16;
use nearfield::Matrix;
use nearfield::io::{
    Ids, VectorFile, VectorWriter, read_distances, read_ids, read_row_ids, read_values, write_csr, write_npy,
    write_ranking, write_truth,
};
use tempfile::TempDir;

use super::bytes::{small, write};

#[test]
fn written_arrays_read_back() -> Result<()> {
    let directory = TempDir::new()?;
    let path = directory.path().join("x.npy");
    let f32s: Vec<f32> = (0..300_000).map(|value| value as f32 * 0.37 - 9.0).collect();
    write_npy(&path, [1000, 300], &f32s)?;
    assert_eq!(VectorFile::open(&path)?.read_all()?, Matrix::F32(f32s.clone(), 300));
    let f16s: Vec<f16> = f32s.iter().map(|value| f16::from_f32(*value)).collect();
    write_npy(&path, [300, 1000], &f16s)?;
    assert_eq!(VectorFile::open(&path)?.read_all()?, Matrix::F16(f16s, 1000));
    let ids = vec![0, -1, i64::MAX, i64::MIN, 5, 6];
    write_npy(&path, [2, 3], &ids)?;
    assert_eq!(read_ids(&path)?, Ids { values: ids, rows: 2, width: 3 });
    write_npy::<f32>(&path, [0, 7], &[])?;
    let empty = VectorFile::open(&path)?;
    assert_eq!((empty.rows(), empty.dim(), empty.pieces(100).count()), (0, 7, 0));
    assert_eq!(fs::read_dir(&directory)?.count(), 1, "no temporary file is left");
    Ok(())
}

#[test]
fn what_cannot_be_written_leaves_nothing_behind() -> Result<()> {
    let directory = TempDir::new()?;
    let path = write(directory.path(), "x.npy", b"before")?;
    for shape in [[2, 2], [usize::MAX, 2], [0, 3]] {
        let error = write_npy(&path, shape, &[1.0f32, 2.0, 3.0]).map_err(|error| error.to_string());
        let expected = format!("values: needed as many as the shape {shape:?} has, given 3");
        assert_eq!(error, Err(expected));
    }
    assert_eq!(fs::read(&path)?, b"before");
    fs::create_dir(directory.path().join("taken.npy"))?;
    assert!(write_npy(directory.path().join("taken.npy"), [1, 1], &[1.0f32]).is_err());
    assert!(write_npy(directory.path().join("absent/x.npy"), [1, 1], &[1.0f32]).is_err());
    assert_eq!(fs::read_dir(&directory)?.count(), 2);
    Ok(())
}

#[test]
fn vectors_are_written_piece_by_piece() -> Result<()> {
    let directory = TempDir::new()?;
    let values: Vec<f32> = small(12).iter().map(|&value| f32::from(value)).collect();
    for ending in ["npy", "fbin"] {
        let path = directory.path().join(format!("v.{ending}"));
        let mut writer = VectorWriter::create(&path, [4, 3])?;
        for some in values.chunks(5) {
            writer.write(some)?;
            ensure!(!path.exists(), "a half file is there");
        }
        writer.finish()?;
        assert_eq!(VectorFile::open(&path)?.read_all()?, Matrix::F32(values.clone(), 3));
    }
    let halves: Vec<f16> = values.iter().map(|&value| f16::from_f32(value)).collect();
    let path = directory.path().join("v.f16bin");
    let mut writer = VectorWriter::create(&path, [4, 3])?;
    writer.write(&halves)?;
    writer.finish()?;
    assert_eq!(VectorFile::open(&path)?.read_all()?, Matrix::F16(halves.clone(), 3));

    // Too few, too many, none at all, the wrong ending: what was there stays, and nothing is added.
    for count in [11, 12 + 1] {
        let mut writer = VectorWriter::create(&path, [4, 3])?;
        writer.write(&vec![f16::ONE; count])?;
        let error = writer.finish().err().context("needed an error")?.to_string();
        ensure!(error.contains("[4, 3]") && error.contains(&count.to_string()), "{error}");
    }
    drop(VectorWriter::<f16>::create(&path, [4, 3])?);
    let error = VectorWriter::<f32>::create(&path, [4, 3]).err().context("needed an error")?.to_string();
    ensure!(error.contains(".fbin") && error.contains("v.f16bin"), "{error}");
    assert_eq!(VectorFile::open(&path)?.read_all()?, Matrix::F16(halves, 3));
    // Larger than any file, which would be known when the disk is full.
    for shape in [[usize::MAX, 3], [1 << 40, 1 << 40], [1 << 61, 1]] {
        let error = VectorWriter::<f32>::create(directory.path().join("l.npy"), shape).err();
        let error = error.context("needed an error")?.to_string();
        ensure!(error.contains("2^63") && error.contains(&shape[0].to_string()), "{error}");
    }
    assert_eq!(fs::read_dir(directory.path())?.count(), 3);
    Ok(())
}

/// The members that `scipy.sparse.load_npz` asks for, and the ids.
#[test]
fn a_sparse_matrix_has_what_scipy_reads() -> Result<()> {
    let directory = TempDir::new()?;
    let path = directory.path().join("g.npz");
    let (ids, indptr, indices, data) = ([7, 3, 9], [0, 1, 1, 3], [2, 0, 1], [0.5f32, 1.5, 2.5]);
    write_csr(&path, &ids, &indptr, &indices, &data)?;
    let member = |name: &str| read_row_ids(format!("{}:{name}", path.display()));
    assert_eq!((member("shape")?, member("ids")?), (vec![3, 3], vec![7, 3, 9]));
    assert_eq!((member("indptr")?, member("indices")?), (vec![0, 1, 1, 3], vec![2, 0, 1]));
    assert_eq!(read_values(format!("{}:data", path.display()))?, data);
    let bytes = fs::read(&path)?;
    let has = |text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    assert!(has(b"'descr': '|S3', 'fortran_order': False, 'shape': ()") && has(b"\ncsr"), "the format");
    write_csr(&path, &[], &[0], &[], &[])?;
    for (indptr, indices, data, named) in [
        (&[0u64, 1, 1][..], &indices[..], &data[..], "indptr"),
        (&[1, 1, 1, 3], &indices, &data, "indptr"),
        (&[0, 2, 1, 3], &indices, &data, "indptr"),
        (&indptr, &[2, 0, 3], &data, "indices"),
        (&indptr, &indices[1..], &data, "indices"),
        (&indptr, &indices, &data[1..], "data"),
    ] {
        let error = write_csr(&path, &ids, indptr, indices, data).err().context("needed an error")?;
        ensure!(error.to_string().starts_with(named), "{error}");
    }
    Ok(())
}

#[test]
fn true_neighbours_read_back() -> Result<()> {
    let directory = TempDir::new()?;
    let ids = Ids { values: vec![5, 0, 7, -1], rows: 2, width: 2 };
    let distances = [0.0, 0.5, 1.5, 3.0];
    for (ending, has_distances) in [("npz", true), ("bin", true), ("npy", false), ("ibin", false)] {
        let path = directory.path().join(format!("t.{ending}"));
        write_truth(&path, &ids, &distances)?;
        assert_eq!(read_ids(&path)?, ids);
        assert_eq!(read_distances(&path)?, has_distances.then(|| (distances.to_vec(), 2)));
    }
    assert!(write_truth(directory.path().join("t.txt"), &ids, &distances).is_err());
    assert!(write_truth(directory.path().join("t.npz"), &ids, &distances[1..]).is_err());
    let path = directory.path().join("r.npz");
    write_ranking(&path, &ids, &distances)?;
    assert_eq!(read_ids(&path)?, ids);
    let scores = VectorFile::open(directory.path().join("r.npz:scores"))?.read_all()?;
    assert_eq!(scores, Matrix::F32(distances.to_vec(), 2));
    assert!(write_ranking(directory.path().join("r.bin"), &ids, &distances).is_err());
    assert!(write_ranking(&path, &ids, &distances[1..]).is_err());
    let large = Ids { values: vec![1 << 31], rows: 1, width: 1 };
    assert!(write_truth(directory.path().join("l.bin"), &large, &[0.0]).is_err());

    let path = directory.path().join("t.bin");
    let whole = fs::read(&path)?;
    for damaged in [&whole[..7], &whole[..39], &[whole.as_slice(), &[0]].concat(), &[0xff; 40]] {
        fs::write(&path, damaged)?;
        for error in [read_ids(&path).err(), read_distances(&path).err()] {
            let error = error.context("needed an error")?.to_string();
            ensure!(error.contains("t.bin") && error.contains("bytes"), "{error}");
        }
    }
    Ok(())
}

//! Tests of the readers and writers of vector files.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use half::f16;
use nearfield::io::{
    Ids, VectorFile, VectorWriter, read_distances, read_ids, read_values, write_npy, write_truth,
};
use nearfield::{ElementKind, Matrix};
use proptest::prelude::*;
use rawzip::{CompressionMethod, ZipArchiveWriter};
use tempfile::TempDir;

const STORED: CompressionMethod = CompressionMethod::STORE;
const DEFLATED: CompressionMethod = CompressionMethod::DEFLATE;

const VECTOR_ENDINGS: [&str; 13] = [
    "npy",
    "npz",
    "fvecs",
    "bvecs",
    "fbin",
    "f16bin",
    "u8bin",
    "i8bin",
    "safetensors",
    "csv",
    "tsv",
    "jsonl",
    "ndjson",
];
const WITH_IDS: [&str; 5] = ["npy", "npz", "ivecs", "ibin", "bin"];

/// An npy array with the given header fields.
fn npy(dtype: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    npy_text(&format!("{{'descr': '{dtype}', 'fortran_order': {fortran}, 'shape': {shape}, }}"), data)
}

fn npy_text(text: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(text.len() + 1).unwrap_or(u16::MAX).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.push(b'\n');
    bytes.extend(data);
    bytes
}

fn npz(method: CompressionMethod, members: &[(&str, &[u8])]) -> Result<Vec<u8>> {
    let mut zip = ZipArchiveWriter::new(Vec::new());
    for (name, bytes) in members {
        let name = format!("{name}.npy");
        let (mut entry, config) = zip.new_file(&name).compression_method(method).start()?;
        let packed = match method {
            STORED => bytes.to_vec(),
            _ => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(bytes)?;
                encoder.finish()?
            }
        };
        entry.write_all(&packed)?;
        // Length and checksum are those of the bytes, packed or not.
        let mut counted = config.wrap(std::io::sink());
        counted.write_all(bytes)?;
        let (_, descriptor) = counted.finish()?;
        entry.finish(descriptor)?;
    }
    Ok(zip.finish()?)
}

/// A file of safetensors: names, element types, shapes and bytes.
fn safetensors(tensors: &[(&str, &str, [u32; 2], &[u8])]) -> Vec<u8> {
    let mut end = 0;
    let describe = tensors.iter().map(|(name, dtype, [rows, dim], bytes)| {
        let start = end;
        end += bytes.len();
        format!(
            "\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":[{rows},{dim}],\"data_offsets\":[{start},{end}]}}"
        )
    });
    let header = format!("{{{}}}", describe.collect::<Vec<_>>().join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.into_bytes());
    tensors.iter().for_each(|(.., bytes)| file.extend(*bytes));
    file
}

/// Elements of `size` bytes in the other byte order.
fn swapped(bytes: &[u8], size: usize) -> Vec<u8> {
    bytes.chunks_exact(size).flat_map(|bytes| bytes.iter().rev().copied()).collect()
}

/// Rows of `dim` elements of `size` bytes, column after column.
fn turned(bytes: &[u8], dim: usize, size: usize) -> Vec<u8> {
    let column =
        |column| bytes.chunks_exact(dim * size).flat_map(move |row| row[column * size..][..size].to_vec());
    (0..dim).flat_map(column).collect()
}

/// A text of one row a line.
fn lines(bytes: &[u8], dim: usize, line: impl Fn(Vec<String>) -> String) -> Vec<u8> {
    let row = |row: &[u8]| line(row.iter().map(u8::to_string).collect()) + "\n";
    bytes.chunks(dim).map(row).collect::<String>().into_bytes()
}

fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The fbin family: a header, then the data.
fn with_header(rows: u32, dim: u32, data: &[u8]) -> Vec<u8> {
    [&rows.to_le_bytes(), &dim.to_le_bytes(), data].concat()
}

/// The fvecs family: every row after its dim.
fn with_row_headers(dim: u32, row_bytes: usize, data: &[u8]) -> Vec<u8> {
    data.chunks(row_bytes).flat_map(|row| [&dim.to_le_bytes(), row].concat()).collect()
}

/// Small whole numbers, which every element type holds.
fn small(count: usize) -> Vec<u8> {
    (0..count).map(|index| (index * 7 % 100) as u8).collect()
}

/// `[rows, dim]` of the same numbers as a file of every vector format.
fn every_format(directory: &Path, rows: usize, dim: usize) -> Result<Vec<PathBuf>> {
    let bytes = small(rows * dim);
    let f32s: Vec<f32> = bytes.iter().map(|byte| f32::from(*byte)).collect();
    let f16s: Vec<u8> = f32s.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect();
    let f64s: Vec<u8> = f32s.iter().flat_map(|value| f64::from(*value).to_le_bytes()).collect();
    let u16s: Vec<u8> = bytes.iter().flat_map(|byte| u16::from(*byte).to_le_bytes()).collect();
    let f32s = f32_bytes(&f32s);
    let shape = format!("({rows}, {dim})");
    let (rows, columns) = (u32::try_from(rows)?, u32::try_from(dim)?);
    let array = npy("<f4", "False", &shape, &f32s);
    let half_array = npy("<f2", "False", &shape, &f16s);
    let files = [
        ("f32.npy", array.clone()),
        ("f16.npy", half_array.clone()),
        ("stored.npz", npz(STORED, &[("ids", b"not an array"), ("base", &array)])?),
        ("deflated.npz", npz(DEFLATED, &[("base", &half_array)])?),
        ("x.fvecs", with_row_headers(columns, dim * 4, &f32s)),
        ("x.bvecs", with_row_headers(columns, dim, &bytes)),
        ("x.fbin", with_header(rows, columns, &f32s)),
        ("x.f16bin", with_header(rows, columns, &f16s)),
        ("x.u8bin", with_header(rows, columns, &bytes)),
        ("x.i8bin", with_header(rows, columns, &bytes)),
        ("f64.npy", npy("<f8", "False", &shape, &f64s)),
        ("big.npy", npy(">f2", "False", &shape, &swapped(&f16s, 2))),
        ("fortran.npy", npy("<f4", "True", &shape, &turned(&f32s, dim, 4))),
        (
            "fortran.npz",
            npz(DEFLATED, &[("base", &npy(">f8", "True", &shape, &turned(&swapped(&f64s, 8), dim, 8)))])?,
        ),
        ("u16.npz", npz(STORED, &[("only", &npy("<u2", "False", &shape, &u16s))])?),
        (
            "x.safetensors",
            safetensors(&[("base", "F32", [rows, columns], &f32s), ("more", "I64", [1, 1], &[7; 8])]),
        ),
        ("f16.safetensors", safetensors(&[("base", "F16", [rows, columns], &f16s)])),
        ("x.csv", lines(&bytes, dim, |row| row.join(","))),
        (
            "header.tsv",
            [b"\xef\xbb\xbfone\ttwo\r\n".to_vec(), lines(&bytes, dim, |row| row.join("\t") + "\r")].concat(),
        ),
        ("x.jsonl", lines(&bytes, dim, |row| format!("[{}]", row.join(", ")))),
        ("x.ndjson", lines(&bytes, dim, |row| format!("{{\"id\": 7, \"vector\": [{}]}}", row.join(",")))),
    ];
    files.into_iter().map(|(name, bytes)| write(directory, name, &bytes)).collect()
}

fn write(directory: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf> {
    let path = directory.join(name);
    fs::write(&path, bytes)?;
    Ok(path)
}

/// `path:member`.
fn member(path: &Path, name: &str) -> String {
    format!("{}:{name}", path.display())
}

/// Every reader on the bytes of a file; the outcomes do not matter.
fn read_with_everything(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Ok(file) = VectorFile::from_bytes(path, bytes.to_vec()) {
        file.read_all().ok();
        file.pieces(1 << 12).take(1 << 10).for_each(drop);
    }
    if path.extension().is_some_and(|ending| WITH_IDS.iter().any(|one| ending == *one)) {
        fs::write(path, bytes)?;
        read_ids(path).ok();
        read_distances(path).ok();
        read_values(path).ok();
    }
    Ok(())
}

#[test]
fn every_format_reads_the_same_vectors() -> Result<()> {
    let directory = TempDir::new()?;
    let expected: Vec<f32> = small(35 * 11).iter().map(|byte| f32::from(*byte)).collect();
    for path in every_format(directory.path(), 35, 11)? {
        let file = VectorFile::open(&path).with_context(|| path.display().to_string())?;
        assert_eq!((file.rows(), file.dim()), (35, 11), "{file:?}");
        let name = path.display().to_string();
        let half = ["f16", "deflated", "big"].iter().any(|part| name.contains(part));
        assert_eq!(file.kind(), if half { ElementKind::F16 } else { ElementKind::F32 });
        let all = file.read_all()?;
        assert_eq!(all.kind(), file.kind());
        assert_eq!(all.into_f32(), expected, "{name}");
        assert_eq!(VectorFile::open(file.path())?.path(), file.path(), "its own path opens it again");
    }
    Ok(())
}

#[test]
fn pieces_make_up_the_whole() -> Result<()> {
    let directory = TempDir::new()?;
    // Rows of 4 KB make several of the internal reads, and several marks in texts.
    for path in every_format(directory.path(), 700, 1024)? {
        let file = VectorFile::open(&path)?;
        let whole = file.read_all()?.into_f32();
        // Each range of a deflated array in Fortran order decodes all of it.
        let some = if path.ends_with("fortran.npz") { &[usize::MAX][..] } else { &[0, 333_333, usize::MAX] };
        for &bytes in some {
            let (mut rows, mut values) = (0, Vec::new());
            for piece in file.pieces(bytes).take(if bytes == 0 { 50 } else { usize::MAX }) {
                let (first, piece) = piece?;
                assert_eq!(first, rows);
                ensure!(piece.rows() == 1 || piece.rows() * 1024 * file.kind().size() <= bytes);
                rows += piece.rows();
                values.extend(piece.into_f32());
            }
            assert_eq!(rows, if bytes == 0 { 50 } else { 700 });
            assert!(values == whole[..rows * 1024], "{} in pieces of {bytes} bytes", path.display());
        }
        // Back, forward with a gap, empty, and the end.
        for range in [600..603, 7..9, 610..660, 5..5, 699..700, 700..700] {
            let piece = file.read(range.clone())?;
            assert_eq!((piece.rows(), piece.dim()), (range.len(), 1024));
            assert!(piece.into_f32() == whole[range.start * 1024..range.end * 1024]);
        }
    }
    Ok(())
}

#[test]
fn threads_share_a_file() -> Result<()> {
    let directory = TempDir::new()?;
    for path in every_format(directory.path(), 600, 500)? {
        let file = VectorFile::open(&path)?;
        let whole = file.read_all()?.into_f32();
        let equal = |rows: std::ops::Range<usize>| {
            let part = file.read(rows.clone()).map(Matrix::into_f32);
            part.is_ok_and(|part| part == whole[rows.start * 500..rows.end * 500])
        };
        let all_equal = std::thread::scope(|scope| {
            let part = |first: usize| (0..10).all(|step| equal(first + step * 20..first + step * 20 + 20));
            let others = [0, 200, 400].map(|first| scope.spawn(move || part(first)));
            others.into_iter().all(|other| other.join().unwrap_or(false))
        });
        assert!(all_equal, "{}", path.display());
    }
    Ok(())
}

#[test]
fn ranges_have_to_lie_within_the_rows() -> Result<()> {
    let directory = TempDir::new()?;
    let file = VectorFile::open(write(directory.path(), "x.u8bin", &with_header(3, 2, &small(6)))?)?;
    let backwards = std::ops::Range { start: 2, end: 1 };
    for range in [0..4, 4..4, backwards, 0..usize::MAX] {
        let message = file.read(range.clone()).map_err(|error| error.to_string());
        assert_eq!(message, Err(format!("range: needed a range within 0..3, given {range:?}")));
    }
    Ok(())
}

#[test]
fn signed_bytes_and_halves_widen_exactly() -> Result<()> {
    let directory = TempDir::new()?;
    let bytes: Vec<u8> = (0..=255).collect();
    let signed = VectorFile::open(write(directory.path(), "x.i8bin", &with_header(2, 128, &bytes))?)?;
    let expected: Vec<f32> = (0..128).chain(-128..0).map(|value: i16| f32::from(value)).collect();
    assert_eq!(signed.read_all()?.into_f32(), expected);
    let halves: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let file = VectorFile::open(write(directory.path(), "x.f16bin", &with_header(256, 256, &halves))?)?;
    let Matrix::F16(values, 256) = file.read_all()? else { anyhow::bail!("not f16") };
    assert!(values.iter().map(|value| value.to_bits()).eq(0..=u16::MAX));
    Ok(())
}

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

#[test]
fn ids_of_every_type() -> Result<()> {
    let directory = TempDir::new()?;
    let expected = Ids { values: vec![3, 1, 4, 1, 5, 9], rows: 2, width: 3 };
    let i32s: Vec<u8> = expected.values.iter().flat_map(|id| (*id as i32).to_le_bytes()).collect();
    let i64s: Vec<u8> = expected.values.iter().flat_map(|id| id.to_le_bytes()).collect();
    let array = |dtype: &str| npy(dtype, "False", "(2, 3)", if dtype.ends_with('8') { &i64s } else { &i32s });
    let small = npy(">i2", "True", "(2, 3)", &[0, 3, 0, 1, 0, 4, 0, 5, 0, 1, 0, 9]);
    assert_eq!(
        read_ids(write(directory.path(), "x.npy", &small)?)?,
        Ids { values: vec![3, 4, 1, 1, 5, 9], rows: 2, width: 3 }
    );
    let float = read_ids(write(directory.path(), "x.npy", &npy("<f4", "False", "(1, 1)", &[0; 4]))?);
    ensure!(float.is_err_and(|error| {
        error.to_string().contains("needed integers of at most 8 bytes, found dtype <f4")
    }));
    for dtype in ["<i4", "<u4", "<i8", "<u8"] {
        assert_eq!(read_ids(write(directory.path(), "x.npy", &array(dtype))?)?, expected);
    }
    assert_eq!(read_ids(write(directory.path(), "x.ibin", &with_header(2, 3, &i32s))?)?, expected);
    assert_eq!(read_ids(write(directory.path(), "x.ivecs", &with_row_headers(3, 12, &i32s))?)?, expected);
    for method in [STORED, DEFLATED] {
        let members = [("ids", &array("<i8")[..]), ("other", &array("<i4"))];
        let path = write(directory.path(), "x.npz", &npz(method, &members)?)?;
        for path in [path.display().to_string(), member(&path, "other"), member(&path, "other.npy")] {
            assert_eq!(read_ids(path)?, expected);
        }
        assert_eq!(read_distances(&path)?, None);
    }
    assert_eq!(read_distances(directory.path().join("x.npy"))?, None);
    Ok(())
}

#[test]
fn members_are_chosen_by_name_or_alone() -> Result<()> {
    let directory = TempDir::new()?;
    let (one, two) = (npy("<f4", "False", "(1, 1)", &[0; 4]), npy("<f2", "False", "(1, 2)", &[0; 4]));
    let scale = npy("<f4", "False", "(1,)", &[0, 0, 128, 63]);
    for method in [STORED, DEFLATED] {
        let alone = write(directory.path(), "a.npz", &npz(method, &[("scale", &scale), ("base", &two)])?)?;
        let file = VectorFile::open(&alone)?;
        assert_eq!((file.dim(), file.path()), (2, Path::new(&member(&alone, "base"))));
        assert_eq!(read_values(&alone)?, [1.0]);
        let several = write(directory.path(), "b.NPZ", &npz(method, &[("x", &one), ("y", &two)])?)?;
        assert_eq!(VectorFile::open(member(&several, "y"))?.dim(), 2);
        let listed = "members x (<f4 [1, 1]), y (<f2 [1, 2])";
        refuses(&several, &["one member that is 2-D of floats or integers", listed])?;
        refuses(Path::new(&member(&several, "z")), &["b.NPZ: needed a member z", listed])?;
    }
    Ok(())
}

#[test]
fn numbers_of_every_type_are_converted_or_refused_by_row() -> Result<()> {
    let directory = TempDir::new()?;
    let read = |dtype: &str, data: &[u8]| -> Result<(Matrix, Option<String>)> {
        let size: usize = dtype[2..].parse()?;
        let shape = format!("({}, 1)", data.len() / size);
        let file = VectorFile::open(write(directory.path(), "x.npy", &npy(dtype, "False", &shape, data))?)?;
        Ok((file.read_all()?, file.converted()))
    };
    let f32s = |values: &[f32]| Matrix::F32(values.to_vec(), 1);
    let note = |text: &str| Some(text.to_owned());
    assert_eq!(read("|u1", &[0, 255])?, (f32s(&[0.0, 255.0]), note("uint8 to float32")));
    assert_eq!(read("|i1", &[127, 128])?, (f32s(&[127.0, -128.0]), note("int8 to float32")));
    assert_eq!(read(">u2", &[1, 0])?, (f32s(&[256.0]), note("uint16 to float32, from big endian")));
    assert_eq!(read("<i2", &[0, 128])?, (f32s(&[-32768.0]), note("int16 to float32")));
    assert_eq!(read("<f4", &f32_bytes(&[0.1]))?, (f32s(&[0.1]), None));
    assert_eq!(read("<f2", &f16::ONE.to_le_bytes())?, (Matrix::F16(vec![f16::ONE], 1), None));
    let doubles = [0.1f64, -1e300 / 1e270, f64::INFINITY, 5e-324, f64::from(f32::MAX)];
    let bytes: Vec<u8> = doubles.iter().flat_map(|value| value.to_le_bytes()).collect();
    let rounded = [0.1, -1e30, f32::INFINITY, 0.0, f32::MAX];
    assert_eq!(read("<f8", &bytes)?, (f32s(&rounded), note("float64 rounded to float32")));
    let refused = |dtype: &str, data: &[u8], texts: [&str; 2]| -> Result<()> {
        let error = read(dtype, data).err().context("needed an error")?.to_string();
        ensure!(texts.iter().all(|text| error.contains(text)), "{error}");
        Ok(())
    };
    refused(
        "<f8",
        &[1.0, 2.0, 3.5e38f64].map(f64::to_le_bytes).concat(),
        ["exceed the largest float32", "in row 2"],
    )?;
    // On either side of 2^24, and the extremes.
    let exact = [0, 1, -1, 1 << 24, -(1 << 24), (1 << 24) + 2, -(1 << 25) - 4, i32::MIN, 0x7fff_ff80];
    let bytes: Vec<u8> = exact.iter().flat_map(|value: &i32| value.to_le_bytes()).collect();
    assert_eq!(read("<i4", &bytes)?.0, f32s(&exact.map(|value| value as f32)));
    for odd in [(1 << 24) + 1, -(1 << 24) - 1, i32::MAX, i32::MIN + 1] {
        let bytes = [8, odd].map(i32::to_le_bytes).concat();
        refused("<i4", &bytes, ["astype('float32')", &format!("{odd} in row 1")])?;
    }
    assert_eq!(read(">u4", &0xffff_ff00u32.to_be_bytes())?.0, f32s(&[4_294_967_040.0]));
    refused(">u4", &u32::MAX.to_be_bytes(), ["integers that float32 holds", "4294967295 in row 0"])?;
    assert_eq!(read("<u8", &(1u64 << 63).to_le_bytes())?.0, f32s(&[9.223_372e18]));
    refused(
        "<u8",
        &u64::MAX.to_le_bytes(),
        ["integers that float32 holds", "18446744073709551615 in row 0"],
    )?;
    assert_eq!(read("<i8", &i64::MIN.to_le_bytes())?.0, f32s(&[-9.223_372e18]));
    refused("<i8", &i64::MAX.to_le_bytes(), ["integers that float32 holds", "9223372036854775807 in row 0"])?;

    let bf16 = safetensors(&[("x", "BF16", [1, 2], &[0x80, 0x3f, 0x00, 0xc0])]);
    let file = VectorFile::open(write(directory.path(), "x.safetensors", &bf16)?)?;
    assert_eq!(
        (file.read_all()?, file.converted()),
        (Matrix::F32(vec![1.0, -2.0], 2), note("bfloat16 to float32"))
    );
    // In Fortran order, the row of a misfit is that of the array.
    let bytes = [1, 2, 3, 1 << 24, 5, (1 << 24) + 1].map(i32::to_le_bytes).concat();
    let turned = npy("<i4", "True", "(3, 2)", &bytes);
    let file = VectorFile::open(write(directory.path(), "x.npy", &turned)?)?;
    assert_eq!(file.converted(), note("int32 to float32, from Fortran order"));
    assert_eq!(file.read(0..2)?, Matrix::F32(vec![1.0, 16_777_216.0, 2.0, 5.0], 2));
    refuses(&directory.path().join("x.npy"), &["16777217 in row 2"])
}

#[test]
fn text_is_read_as_people_write_it() -> Result<()> {
    let read = |name: &'static str, text: &'static str| -> Result<(Vec<f32>, usize, Option<String>)> {
        let file = VectorFile::from_bytes(name, text.as_bytes())?;
        Ok((file.read_all()?.into_f32(), file.dim(), file.converted()))
    };
    let plain = (vec![1.0, -2.5, 3e-2, 4.0], 2, None);
    let noted = (plain.0.clone(), 2, Some("without its header line".to_owned()));
    for text in [
        "1,-2.5\n3e-2,4",
        "1 ; -2.5\r\n+0.03;4.\r\n\r\n",
        " 1 -2.5 \n .03   4\n",
        "\"1\",\"-2.5\"\n\"0.03\",\"4\"\n",
    ] {
        assert_eq!(read("x.csv", text)?, plain, "{text}");
    }
    assert_eq!(read("x.tsv", "x\ty\n1\t-2.5\n.03\t4\n\n\n")?, noted);
    // Columns that pandas numbered.
    assert_eq!(read("x.csv", "0,1,2\n5,6,7\n")?.0, [5.0, 6.0, 7.0]);
    assert_eq!(read("x.csv", "1\n2\n")?, (vec![1.0, 2.0], 1, None));
    assert!(read("x.csv", "nan,-inf\n")?.0.iter().all(|value| !value.is_finite()));
    assert_eq!(read("x.jsonl", "[1, -2.5]\n [3e-2,4]\n")?, plain);
    assert_eq!(read("x.jsonl", "{\"v\": [1, -2.5]}\n{\"v\": [0.03, 4], \"id\": \"b\"}\n")?, plain);
    let two = "{\"a\": [9], \"v\": [1, -2.5]}\n{\"v\": [0.03, 4], \"a\": []}\n";
    assert_eq!(read("x.jsonl:v", two)?, plain);
    for (name, text, parts) in [
        ("x.csv", "", &["an empty file"][..]),
        ("x.csv", "a,b\n", &["a header alone"]),
        ("x.csv", "1,2\n3,4\n5\n", &["2 numbers in each line", "found 1 in line 3"]),
        ("x.csv", "1,2\n3,four\n", &["a row of numbers in each line", "\"four\" in line 2"]),
        ("x.csv", "1,b\n3,4\n", &["\"b\" in line 1"]),
        ("x.csv", "1,2\n3,\n", &["\"\" in line 2"]),
        ("x.tsv", "1\t2\n3\t\n", &["\"\" in line 2"]),
        ("x.csv", "1,2\n\n3,4\n", &["a row in each line", "found none in line 2"]),
        ("x.csv", "1,2\n3,1e39\n", &["\"1e39\" in line 2"]),
        ("x.jsonl", "[1, 2]\n[1, null]\n", &["null", "in line 2"]),
        ("x.jsonl", "[1, 1e39]\n", &["too large for float32", "in line 1"]),
        ("x.jsonl", "[1, 2\n", &["EOF", "in line 1"]),
        ("x.jsonl", two, &["not one array among the fields a, v (FILE:FIELD names one)", "in line 1"]),
        ("x.jsonl:w", two, &["no array w", "a, v", "in line 1"]),
        ("x.jsonl", "[]\n", &["dim 1 or more", "line 1"]),
        ("x.jsonl", "{\"v\": [1, \"2\"]}\n", &["\"2\" in line 1"]),
    ] {
        let error = read(name, text).err().context(text)?.to_string();
        ensure!(parts.iter().all(|part| error.contains(part)), "{text:?}: {error}");
        ensure!(error.starts_with("x."), "{error}");
    }
    let long = vec![b'1'; 5 << 20];
    let error = VectorFile::from_bytes("x.csv", long).err().context("needed an error")?.to_string();
    ensure!(error.contains("lines of at most 4194304 bytes") && error.contains("line 1"), "{error}");
    let error = VectorFile::from_bytes("x.csv", &b"\xff\n"[..]).err().context("needed an error")?.to_string();
    ensure!(error.contains("no UTF-8 in line 1"), "{error}");
    Ok(())
}

#[test]
fn arrays_of_floats_come_before_arrays_of_integers() -> Result<()> {
    let directory = TempDir::new()?;
    let (ids, base) = (npy("<i8", "False", "(1, 1)", &[7; 8]), npy("<f8", "False", "(1, 2)", &[0; 16]));
    let path = write(directory.path(), "x.npz", &npz(STORED, &[("ids", &ids), ("base", &base)])?)?;
    assert_eq!(VectorFile::open(&path)?.dim(), 2);
    let tensors = [("a", "F32", [1, 1], &[0; 4][..]), ("b", "BF16", [1, 2], &[0; 4])];
    let path = write(directory.path(), "x.safetensors", &safetensors(&tensors))?;
    refuses(
        &path,
        &["one member that is 2-D of floats or integers", "members a (F32 [1, 1]), b (BF16 [1, 2])"],
    )?;
    let file = VectorFile::open(member(&path, "b"))?;
    assert_eq!((file.dim(), file.path()), (2, Path::new(&member(&path, "b"))));
    refuses(Path::new(&member(&path, "c")), &["needed a member c", "members a (F32"])
}

/// Asserts that `VectorFile` refuses `path`, or reading it, with a message that names it and holds all `texts`.
fn refuses(path: &Path, texts: &[&str]) -> Result<()> {
    let outcome = VectorFile::open(path).and_then(|file| file.read_all());
    let Err(error) = outcome else { anyhow::bail!("{} was read", path.display()) };
    let message = error.to_string();
    let name = path.file_name().context("a name")?.to_string_lossy();
    let name = name.split(':').next().unwrap_or_default();
    for text in [&name].into_iter().chain(texts) {
        ensure!(message.contains(text), "'{text}' is missing in '{message}'");
    }
    ensure!(message.len() < 500, "a long message: {message}");
    Ok(())
}

#[test]
fn damaged_files_say_what_was_needed() -> Result<()> {
    let directory = TempDir::new()?;
    let float = |shape: &str, data: usize| npy("<f4", "False", shape, &vec![0; data]);
    let ragged = [with_row_headers(2, 2, &small(6)), with_row_headers(1, 1, &[9]), vec![0]].concat();
    let deep = format!("{{'shape': {}1{}}}", "(".repeat(3000), ")".repeat(3000));
    let cases: Vec<(&str, Vec<u8>, &[&str])> = vec![
        ("a.npy", float("(2, 3)", 23), &["needed 94 bytes ([2, 3] numbers of 4 bytes", "found 93 bytes"]),
        ("b.npy", float("(2, 3)", 25), &["needed 94 bytes", "found 95 bytes"]),
        ("c.npy", float("(6,)", 24), &["an array of 2 dimensions", "found 1 (shape [6])"]),
        ("d.npy", float("()", 4), &["an array of 2 dimensions", "found 0"]),
        ("e.npy", float("(3, 0)", 0), &["rows of dim 1 or more", "3 rows of dim 0"]),
        (
            "f.npy",
            float("(2305843009213693952, 3)", 0),
            &["found [2305843009213693952, 3]", "below 2^64 bytes"],
        ),
        ("g.npy", float("(4294967296, 4294967296)", 0), &["below 2^64 bytes"]),
        ("h.npy", float("(1099511627776, 1024)", 8), &["needed 4503599627370", "bytes"]),
        ("i.npy", float("(-1, 3)", 0), &["an npy header", "found {'descr': '<f4'", "(-1, 3)"]),
        ("j.npy", npy("|b1", "False", "(1, 1)", &[0; 1]), &["floats or integers", "found dtype |b1"]),
        ("k.npy", npy("<c8", "False", "(1, 1)", &[0; 8]), &["floats or integers", "found dtype <c8"]),
        ("l.npy", npy("<f16", "False", "(1, 1)", &[0; 16]), &["at most 8 bytes", "found dtype <f16"]),
        ("m.npy", npy_text(&deep, b""), &["an npy header", "found {'shape': (((("]),
        (
            "n.npy",
            npy_text("{'descr': '<f4'}", b""),
            &["an npy header with descr, fortran_order and shape", "{'descr': '<f4'}"],
        ),
        ("o.npy", b"hello".to_vec(), &["an npy array", "5 bytes that start with 'hello'"]),
        ("p.npy", b"\x93NUMPY\x01\x00\xff\x00{''".to_vec(), &["header of 265 bytes", "found 13 bytes"]),
        ("q.npy", b"\x93NUMPY\x09\x00\xff\x00{''".to_vec(), &["npy version 1, 2 or 3", "version 9"]),
        ("r.npy", Vec::new(), &["an npy array", "found 0 bytes"]),
        ("a.fbin", with_header(u32::MAX, u32::MAX, &[]), &["4294967295", "below 2^64 bytes"]),
        (
            "b.fbin",
            with_header(1 << 20, 1 << 20, &[0; 64]),
            &["needed 4398046511112 bytes", "found 72 bytes"],
        ),
        ("c.fbin", vec![1, 0, 0, 0, 1, 0, 0], &["a header of 8 bytes", "found 7 bytes"]),
        ("d.u8bin", with_header(1, 0, &[]), &["rows of dim 1 or more"]),
        ("e.f16bin", with_header(2, 2, &[0; 9]), &["needed 16 bytes", "found 17 bytes"]),
        ("a.bvecs", ragged, &["rows of dim 2, as the first", "found row 3 of dim 1"]),
        ("b.fvecs", with_row_headers(2, 7, &[0; 7]), &["a multiple of 12 bytes", "found 11 bytes"]),
        ("c.fvecs", vec![0; 8], &["rows of dim 1 or more"]),
        ("d.fvecs", Vec::new(), &["found 0 bytes"]),
        ("e.fvecs", vec![255; 16], &["a multiple of 17179869184 bytes", "found 16 bytes"]),
        ("a.npz", b"PK".to_vec(), &["an npz (zip) archive"]),
        ("b.npz", npz(STORED, &[])?, &["one member", "found no arrays"]),
        ("c.npz", npz(DEFLATED, &[("x", b"short")])?, &["one member", "members x (unreadable)"]),
        ("a.safetensors", vec![1], &["a file of safetensors", "found 1 bytes"]),
        ("b.safetensors", vec![255; 16], &["a file of safetensors", "18446744073709551615 bytes"]),
        (
            "c.safetensors",
            [&2u64.to_le_bytes(), &b"{]"[..]].concat(),
            &["a file of safetensors", "a header with"],
        ),
        (
            "d.safetensors",
            [&safetensors(&[("x", "F32", [1, 1], &[0; 4])]), &[0][..]].concat(),
            &["bytes, found"],
        ),
        (
            "e.safetensors",
            safetensors(&[("x", "BOOL", [1, 1], &[0])]),
            &["one member that", "x (BOOL [1, 1])"],
        ),
        ("a.txt", Vec::new(), &["a name that ends in .npy, .npz, .safetensors", "found .txt"]),
        ("plain", Vec::new(), &["a name that ends in .npy", "found none"]),
    ];
    for (name, bytes, texts) in cases {
        refuses(&write(directory.path(), name, &bytes)?, texts)?;
    }
    refuses(&directory.path().join("absent.npy"), &[])?;
    fs::create_dir(directory.path().join("directory.npy"))?;
    refuses(&directory.path().join("directory.npy"), &["not a regular file"])?;
    #[cfg(unix)]
    {
        let pipe = directory.path().join("pipe.npy");
        ensure!(std::process::Command::new("mkfifo").arg(&pipe).status()?.success());
        refuses(&pipe, &["not a regular file"])?;
    }
    let too_large = npy("<u8", "False", "(2, 1)", &[[1; 8], [255; 8]].concat());
    let message = read_ids(write(directory.path(), "x.npy", &too_large)?).map_err(|error| error.to_string());
    ensure!(
        message
            .is_err_and(|text| text.ends_with("needed ids below 2^63, found 18446744073709551615 in row 1"))
    );
    Ok(())
}

#[test]
fn damaged_archives_are_errors() -> Result<()> {
    let directory = TempDir::new()?;
    let array = npy("<f4", "False", "(50, 40)", &small(8000));
    let long = npy("<f4", "False", "(50, 40)", &small(8004));
    let path = write(directory.path(), "long.npz", &npz(DEFLATED, &[("x", &long)])?)?;
    refuses(Path::new(&member(&path, "x")), &["long.npz:x: needed 8", "found 8"])?;
    let central = |zip: &[u8]| zip.windows(4).position(|bytes| bytes == b"PK\x01\x02").context("a directory");
    let patched = |name: &str, method, patch: &dyn Fn(&mut Vec<u8>, usize)| -> Result<PathBuf> {
        let mut zip = npz(method, &[("x", &array)])?;
        let directory_start = central(&zip)?;
        patch(&mut zip, directory_start);
        let path = write(directory.path(), name, &zip)?;
        Ok(member(&path, "x").into())
    };
    let encrypted = patched("encrypted.npz", STORED, &|zip, start| zip[start + 8] |= 1)?;
    refuses(&encrypted, &["a member that is not encrypted"])?;
    let method = patched("method.npz", STORED, &|zip, start| zip[start + 10] = 12)?;
    refuses(&method, &["a stored or deflated member"])?;
    let length = patched("length.npz", STORED, &|zip, start| zip[start + 24] ^= 1)?;
    refuses(&length, &["a member that fits its recorded length"])?;
    let bomb = patched("bomb.npz", DEFLATED, &|zip, start| zip[start + 24..][..4].fill(0xfe))?;
    refuses(&bomb, &["a member that fits its recorded length"])?;
    let outside = patched("outside.npz", STORED, &|zip, start| zip[start + 20..][..8].fill(0xf0))?;
    refuses(&outside, &["of this member from byte", "an archive of"])?;
    let checksum = patched("checksum.npz", DEFLATED, &|zip, start| zip[start + 16] ^= 1)?;
    refuses(&checksum, &["checksum"])?;
    let shorter = patched("shorter.npz", DEFLATED, &|zip, start| zip[start + 24] -= 1)?;
    refuses(&shorter, &["needed 80"])?;
    // A field of encryption in a member that is not encrypted means nothing.
    let stray = patched("stray.npz", DEFLATED, &|zip, start| {
        let field = [0x01, 0x99, 7, 0, 1, 0, 0x41, 0x45, 3, 8, 0];
        zip[start + 30] += field.len() as u8;
        zip.splice(start + 46 + 5..start + 46 + 5, field);
        let end = zip.len() - 22;
        zip[end + 12] += field.len() as u8;
    })?;
    assert_eq!(VectorFile::open(&stray)?.rows(), 50);
    Ok(())
}

/// An archive whose end points to a record that is not there, in a large file.
#[test]
fn a_damaged_archive_is_refused_without_reading_all_of_it() -> Result<()> {
    let directory = TempDir::new()?;
    let path = directory.path().join("x.npz");
    let mut file = fs::File::create(&path)?;
    let length = 1u64 << 30;
    file.set_len(length)?;
    file.seek(SeekFrom::End(0))?;
    file.write_all(b"PK\x06\x07")?;
    file.write_all(&[[0; 4].as_slice(), &0u64.to_le_bytes(), &1u32.to_le_bytes()].concat())?;
    file.write_all(b"PK\x05\x06\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0")?;
    let start = Instant::now();
    refuses(&path, &["an npz (zip) archive"])?;
    ensure!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    Ok(())
}

/// Every name of the directory leads to the same bytes, so that the file is small.
#[test]
fn choosing_among_many_members_decodes_no_more_than_their_headers() -> Result<()> {
    let directory = TempDir::new()?;
    let large = npy("<f4", "False", "(16777216,)", &vec![0; 64 << 20]);
    let one = npz(DEFLATED, &[("1000", &large)])?;
    let start = one.windows(4).rposition(|bytes| bytes == b"PK\x01\x02").context("a directory")?;
    let (members, end) = one[start..].split_at(one.len() - 22 - start);
    let members: Vec<u8> = (0..1000)
        .flat_map(|number| {
            let mut member = members.to_vec();
            member[46..50].copy_from_slice(format!("{:04}", 1000 + number).as_bytes());
            member
        })
        .collect();
    let mut end = end.to_vec();
    end[8..10].copy_from_slice(&1000u16.to_le_bytes());
    end[10..12].copy_from_slice(&1000u16.to_le_bytes());
    end[12..16].copy_from_slice(&u32::try_from(members.len())?.to_le_bytes());
    let path = write(directory.path(), "x.npz", &[&one[..start], &members, &end].concat())?;
    let start = Instant::now();
    refuses(&path, &["one member that is 2-D", "members 1000 (<f4 [16777216])", "984 more"])?;
    ensure!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert_eq!(read_values(member(&path, "1999"))?.len(), 1 << 24);
    Ok(())
}

/// Parts that headers are made of, to get past the first checks.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![0u64..5, any::<u64>()];
    let text = prop_oneof![
        ("[<>|][fiu][1248]", number.clone(), number).prop_map(|(dtype, rows, dim)| {
            format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({rows}, {dim}), }}")
        }),
        "[{}(\\[)\\],:'\"0-9a-z<+. -]{0,60}",
        "\\{'descr': \\[('[a-z]', '<f4'(, \\([0-9]{1,9},\\))?),\\], 'fortran_order': False, 'shape': \\(2,\\)\\}",
    ];
    let array =
        (text, prop::collection::vec(any::<u8>(), 0..80)).prop_map(|(text, data)| npy_text(&text, &data));
    let tensor =
        ("[BFIU][F0-9][0-9]{0,2}", any::<[u8; 2]>(), 0usize..9).prop_map(|(dtype, [rows, dim], bytes)| {
            safetensors(&[("x", &dtype, [rows, dim].map(|length| u32::from(length) % 4), &[0; 9][..bytes])])
        });
    let lines = "[0-9,;\\[\\]{}\":. \r\n\teEinf+-]{0,120}".prop_map(String::into_bytes);
    prop_oneof![array, tensor, lines]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_panic(bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..200), plausible()]) {
        let directory = TempDir::new()?;
        for ending in VECTOR_ENDINGS.iter().chain(&WITH_IDS).chain(&["txt"]) {
            read_with_everything(&directory.path().join(format!("x.{ending}")), &bytes)?;
        }
        for method in [STORED, DEFLATED] {
            let archive = npz(method, &[("ids", &bytes), ("distances", &bytes)]);
            let archive = archive.map_err(|error| TestCaseError::fail(error.to_string()))?;
            read_with_everything(&directory.path().join("y.npz"), &archive)?;
        }
    }

    #[test]
    fn no_damage_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let directory = TempDir::new()?;
        let files = every_format(directory.path(), 3, 4);
        for path in files.map_err(|error| TestCaseError::fail(error.to_string()))? {
            let mut bytes = fs::read(&path)?;
            for (place, value) in &changes {
                let place = place.index(bytes.len());
                bytes[place] = *value;
            }
            if cut {
                bytes.truncate(length.index(bytes.len()));
            }
            read_with_everything(&path, &bytes)?;
        }
    }
}

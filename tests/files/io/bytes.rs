//! The bytes of files of every format.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use half::f16;
use nearfield::io::VectorFile;
use rawzip::{CompressionMethod, ZipArchiveWriter};

pub(crate) const STORED: CompressionMethod = CompressionMethod::STORE;
pub(crate) const DEFLATED: CompressionMethod = CompressionMethod::DEFLATE;

/// An npy array with the given header fields.
pub(crate) fn npy(dtype: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    npy_text(&format!("{{'descr': '{dtype}', 'fortran_order': {fortran}, 'shape': {shape}, }}"), data)
}

pub(crate) fn npy_text(text: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(text.len() + 1).unwrap_or(u16::MAX).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.push(b'\n');
    bytes.extend(data);
    bytes
}

pub(crate) fn npz(method: CompressionMethod, members: &[(&str, &[u8])]) -> Result<Vec<u8>> {
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
pub(crate) fn safetensors(tensors: &[(&str, &str, [u32; 2], &[u8])]) -> Vec<u8> {
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
pub(crate) fn swapped(bytes: &[u8], size: usize) -> Vec<u8> {
    bytes.chunks_exact(size).flat_map(|bytes| bytes.iter().rev().copied()).collect()
}

/// Rows of `dim` elements of `size` bytes, column after column.
pub(crate) fn turned(bytes: &[u8], dim: usize, size: usize) -> Vec<u8> {
    let column =
        |column| bytes.chunks_exact(dim * size).flat_map(move |row| row[column * size..][..size].to_vec());
    (0..dim).flat_map(column).collect()
}

/// A text of one row a line.
pub(crate) fn lines(bytes: &[u8], dim: usize, line: impl Fn(Vec<String>) -> String) -> Vec<u8> {
    let row = |row: &[u8]| line(row.iter().map(u8::to_string).collect()) + "\n";
    bytes.chunks(dim).map(row).collect::<String>().into_bytes()
}

pub(crate) fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The fbin family: a header, then the data.
pub(crate) fn with_header(rows: u32, dim: u32, data: &[u8]) -> Vec<u8> {
    [&rows.to_le_bytes(), &dim.to_le_bytes(), data].concat()
}

/// The fvecs family: every row after its dim.
pub(crate) fn with_row_headers(dim: u32, row_bytes: usize, data: &[u8]) -> Vec<u8> {
    data.chunks(row_bytes).flat_map(|row| [&dim.to_le_bytes(), row].concat()).collect()
}

/// Small whole numbers, which every element type holds.
pub(crate) fn small(count: usize) -> Vec<u8> {
    (0..count).map(|index| (index * 7 % 100) as u8).collect()
}

/// `[rows, dim]` of the same numbers as a file of every vector format.
pub(crate) fn every_format(directory: &Path, rows: usize, dim: usize) -> Result<Vec<PathBuf>> {
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

pub(crate) fn write(directory: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf> {
    let path = directory.join(name);
    fs::write(&path, bytes)?;
    Ok(path)
}

/// `path:member`.
pub(crate) fn member(path: &Path, name: &str) -> String {
    format!("{}:{name}", path.display())
}

/// Asserts that `VectorFile` refuses `path`, or reading it, with a message that names it and holds all `texts`.
pub(crate) fn refuses(path: &Path, texts: &[&str]) -> Result<()> {
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

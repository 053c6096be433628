//! Damaged files are errors that say what was needed, and nothing panics.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nearfield::io::{VectorFile, read_distances, read_ids, read_values};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::common::assert_soon;

use super::bytes::{
    DEFLATED, STORED, every_format, member, npy, npy_text, npz, refuses, safetensors, small, with_header,
    with_row_headers, write,
};
use super::hdf5::shipped;

/// Every reader on the bytes of a file, or a member of one; the outcomes do not matter.
fn read_with_everything(directory: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    if let Ok(file) = VectorFile::from_bytes(name, bytes.to_vec()) {
        file.read_all().ok();
        file.pieces(1 << 12).take(1 << 10).for_each(drop);
    }
    let path = directory.join(name.split(':').next().unwrap_or_default());
    fs::write(&path, bytes)?;
    read_ids(&path).ok();
    read_distances(&path).ok();
    read_values(&path).ok();
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
        (
            "j.npy",
            npy("|b1", "False", "(1, 1)", &[0; 1]),
            &["needed numbers, or --bits", "found bool in row 0"],
        ),
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
            &["needed numbers, or --bits", "found bool in row 0"],
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
        refuses(&pipe, &["- as the path and the pipe as standard input", "found a pipe"])?;
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
    assert_soon(start.elapsed(), Duration::from_secs(2), "a refusal");
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
    assert_soon(start.elapsed(), Duration::from_secs(4), "a refusal");
    assert_eq!(read_values(member(&path, "1999"))?.len(), 1 << 24);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The targets of `fuzz/src/vector_files.rs` read any bytes.
    #[test]
    fn no_damage_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let directory = TempDir::new()?;
        let paths = every_format(directory.path(), 3, 4);
        let paths = paths.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let names = paths.iter().map(|path| path.file_name().expect("a name").to_string_lossy().into_owned());
        let members = ["ann.hdf5:train", "layouts.h5:gzip", "layouts.h5:grown", "layouts.h5", "one.h5"];
        let shipped = members.map(|name| (shipped(name.split(':').next().unwrap_or_default()), name.to_owned()));
        for (path, name) in paths.iter().cloned().zip(names).chain(shipped) {
            let mut bytes = fs::read(path)?;
            for (place, value) in &changes {
                let place = place.index(bytes.len());
                bytes[place] = *value;
            }
            if cut {
                bytes.truncate(length.index(bytes.len()));
            }
            read_with_everything(directory.path(), &name, &bytes)?;
        }
    }
}

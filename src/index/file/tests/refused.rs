//! Proves that damaged and foreign files are refused.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use safetensors::tensor::TensorView;
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::index::file::header::{LONGEST, PREFIX};
use crate::index::file::tests::{load, saved};
use crate::index::file::{Dtype, Reader};

/// Opens `path` and returns the message of its error, which must be an `Error::File` that names the file.
fn refusal(path: &Path) -> Result<String> {
    let error = Reader::open(path).map(|_| ()).err().context("an error")?;
    ensure!(matches!(&error, Error::File { path: named, .. } if named == path), "{error:?}");
    Ok(error.to_string())
}

/// Makes a file with `text` as its header. A header checksum of zeros in the text is replaced by the right one.
fn forge(text: &str, data: &[u8]) -> Vec<u8> {
    let text = text.to_owned() + &" ".repeat(text.len().next_multiple_of(PREFIX) - text.len());
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    let own = format!("\"xxh3.header\":\"{:016x}\"", xxh3_64(&bytes));
    let text = text.replace("\"xxh3.header\":\"0000000000000000\"", &own);
    bytes.splice(PREFIX.., text.into_bytes());
    bytes.extend(data);
    bytes
}

#[test]
fn a_file_that_was_cut_is_refused() -> Result<()> {
    let (_directory, path) = saved(5, 1)?;
    let whole = fs::read(&path)?;
    let file = fs::OpenOptions::new().write(true).open(&path)?;
    for length in (0..whole.len()).rev() {
        file.set_len(length as u64)?;
        let message = refusal(&path)?;
        ensure!(message.contains(&format!("found {length} bytes")), "{message}");
    }
    fs::write(&path, [&whole[..], b"\0"].concat())?;
    let message = refusal(&path)?;
    ensure!(
        message.contains(&format!("needed {} bytes, found {}", whole.len(), whole.len() + 1)),
        "{message}"
    );
    // A file that shrinks while it is open.
    fs::write(&path, &whole)?;
    let reader = Reader::open(&path)?;
    file.set_len(whole.len() as u64 - 1)?;
    let mut pieces = reader.tensor("rows", Dtype::F32, &[5, 2], 40)?;
    ensure!(matches!(pieces.next_piece(), Err(Error::Io { .. })));
    Ok(())
}

#[test]
fn every_flipped_bit_is_found() -> Result<()> {
    let (_directory, path) = saved(5, 1)?;
    let bytes = fs::read(&path)?;
    // Changes the file in place, because creating files is a hundred times slower on some systems.
    let mut file = fs::OpenOptions::new().write(true).open(&path)?;
    let mut put = |place: usize, byte: u8| {
        file.seek(SeekFrom::Start(place as u64))?;
        file.write_all(&[byte])
    };
    for (place, &byte) in bytes.iter().enumerate() {
        for bit in 0..8 {
            put(place, byte ^ (1 << bit))?;
            let error =
                load(&path).map(|_| ()).err().with_context(|| format!("bit {bit} of byte {place}"))?;
            ensure!(matches!(error, Error::File { .. }), "bit {bit} of byte {place}: {error:?}");
        }
        put(place, byte)?;
    }
    load(&path)?;
    Ok(())
}

#[test]
fn a_damaged_tensor_never_ends() -> Result<()> {
    let (_directory, path) = saved(5, 1)?;
    let mut bytes = fs::read(&path)?;
    let place = bytes.len() - 40;
    bytes[place] ^= 1;
    fs::write(&path, &bytes)?;
    let reader = Reader::open(&path)?;
    assert_eq!(reader.u64s("ids", &[5])?.len(), 5);
    let mut pieces = reader.tensor("rows", Dtype::F32, &[5, 2], 16)?;
    ensure!(pieces.next_piece()?.is_some() && pieces.next_piece()?.is_some());
    for _ in 0..2 {
        let message = pieces.next_piece().map(|_| ()).err().context("an error")?.to_string();
        ensure!(message.contains("needed tensor rows of checksum"), "{message}");
    }
    Ok(())
}

#[test]
fn other_files_are_refused() -> Result<()> {
    let (directory, path) = saved(5, 1)?;
    let mut newer = fs::read(&path)?;
    let version = newer.windows(11).position(|text| text == b"\"version\":\"").context("a version")? + 11;
    newer[version] = b'2';
    let values = [0; 8];
    let view = || TensorView::new(Dtype::F32, vec![2], &values);
    let with = |key: &str, value: &str| {
        let metadata = [(key.to_owned(), value.to_owned())].into_iter().collect();
        safetensors::serialize([("rows", view()?)], Some(metadata))
    };
    let long = |length: u64| [&length.to_le_bytes()[..], b"{}"].concat();
    let model = with("format", "pt")?;
    let cases: [(&str, &[u8], &str); 11] = [
        (
            "newer",
            &newer,
            "needed an index of version 1, which this release of nearfield reads, found version 2",
        ),
        ("empty", b"", "needed an index of nearfield, found 0 bytes"),
        ("text", b"ids,rows\n1,2\n", "whose header has at most 1048576 bytes"),
        ("array", b"\x93NUMPY\x01\x00v\x00{'descr'", "whose header has at most 1048576 bytes"),
        ("longest", &long(u64::MAX), "found 18446744073709551615 bytes"),
        ("longer", &long(LONGEST as u64 + 1), "found 1048577 bytes"),
        ("long", &long(LONGEST as u64), "needed a header of 1048576 bytes, found 10 bytes"),
        ("no header", &[0; 64], "needed a file of safetensors"),
        ("no format", &with("who", "me")?, "found safetensors without metadata `format`"),
        ("model", &model, "needed an index of nearfield, found safetensors of format \"pt\""),
        ("no version", &with("format", "nearfield")?, "needed metadata `version`, found none"),
    ];
    for (what, bytes, expected) in cases {
        fs::write(&path, bytes)?;
        let message = refusal(&path)?;
        ensure!(message.contains(expected), "{what}: {message}");
    }
    // A header of the largest length, but without text: reading allocates no more than that length.
    let file = fs::File::create(&path)?;
    file.set_len(3 << 30)?;
    fs::write(directory.path().join("b.nf"), long(LONGEST as u64))?;
    ensure!(refusal(&path)?.contains("needed a file of safetensors"));
    for path in [directory.path(), &directory.path().join("missing")] {
        let error = Reader::open(path).map(|_| ()).err().context("an error")?;
        ensure!(matches!(&error, Error::Io { path: named, .. } if named == path), "{error:?}");
    }
    Ok(())
}

#[test]
fn headers_with_a_right_checksum_are_checked_too() -> Result<()> {
    let directory = TempDir::new()?;
    let path = directory.path().join("a.nf");
    let own = r#""version":"1","xxh3.header":"0000000000000000""#;
    let head = |tensors: &str| {
        format!(r#"{{"__metadata__":{{"format":"nearfield",{own},"xxh3.t":"0000000000000000"}}{tensors}}}"#)
    };
    let tensor = |name: &str, shape: &str, start: u64, end: u64| {
        format!(r#","{name}":{{"dtype":"U8","shape":{shape},"data_offsets":[{start},{end}]}}"#)
    };
    let t = tensor("t", "[4]", 0, 4);
    fs::write(&path, forge(&head(&t), b"1234"))?;
    let reader = Reader::open(&path).context("the forger's own skill")?;
    let message =
        reader.tensor("t", Dtype::U8, &[4], 9)?.next_piece().map(|_| ()).err().context("an error")?;
    ensure!(message.to_string().contains("of checksum"), "{message}");

    let as_written = "needed a header as nearfield writes it";
    let of_shape = "of the bytes of its shape";
    let cases = [
        ("a gap", head(&(t.clone() + &tensor("b", "[4]", 5, 9))), 9, of_shape),
        ("an overlap", head(&(t.clone() + &tensor("b", "[4]", 3, 7))), 7, of_shape),
        ("a name twice", head(&(t.clone() + &t)), 4, as_written),
        ("another twice", head(&(t.clone() + &tensor("t", "[0]", 4, 4))), 4, of_shape),
        ("a key twice", head(&t).replace(own, &format!(r#""k":"1","k":"1",{own}"#)), 4, as_written),
        (
            "metadata twice",
            head(&t).replace(r#","t":"#, r#","__metadata__":{},"t":"#),
            4,
            "without metadata `format`",
        ),
        ("an order", head(&(tensor("b", "[4]", 4, 8) + &t)), 8, as_written),
        ("spaces", head(&t).replace(",", ", "), 4, as_written),
        ("a lone checksum", head(&t).replace(r#""xxh3.header":"0"#, r#""xxh3.header":"1"#), 4, "of checksum"),
        ("no checksum", head(&t).replace(r#""xxh3.header":"0000000000000000","#, ""), 4, "of checksum"),
        ("many elements", head(&tensor("t", "[4294967296,4294967296]", 0, 4)), 4, of_shape),
        ("many bytes", head(&tensor("t", "[18446744073709551615]", 0, u64::MAX)), 4, ""),
        ("another shape", head(&tensor("t", "[5]", 0, 4)), 4, of_shape),
        ("backwards", head(&tensor("t", "[4]", 4, 0)), 4, of_shape),
        ("a half", head(&tensor("t", "[0.5]", 0, 4)), 4, "0.5"),
        ("another type", head(&t).replace("U8", "Q8"), 4, "Q8"),
        ("an array", "[1]".into(), 4, "needed a file of safetensors"),
        ("a number as metadata", head(&t).replace("\"1\"", "1"), 4, "needed a file of safetensors"),
        ("depth", "{\"a\":".to_owned() + &"[".repeat(100_000), 4, "needed a file of safetensors"),
    ];
    for (what, text, bytes, expected) in cases {
        fs::write(&path, forge(&text, &vec![7; bytes]))?;
        let message = refusal(&path)?;
        ensure!(message.contains(expected), "{what}: {message}");
    }
    Ok(())
}

//! Numbers of every type are converted exactly, rounded, or refused.

use anyhow::{Context, Result, ensure};
use half::f16;
use nearfield::io::{Ids, VectorFile, read_distances, read_ids};
use nearfield::{ElementKind, Matrix};
use tempfile::TempDir;

use super::bytes::{
    DEFLATED, STORED, f32_bytes, member, npy, npz, refuses, safetensors, with_header, with_row_headers, write,
};

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
    assert_eq!(read("|u1", &[0, 255])?, (Matrix::U8(vec![0, 255], 1), None));
    assert_eq!(read("|i1", &[127, 128])?, (Matrix::I8(vec![127, -128], 1), None));
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
        (Matrix::F32(vec![1.0, -2.0], 2).to_kind(ElementKind::BF16), None)
    );
    // In Fortran order, the row of a misfit is that of the array.
    let bytes = [1, 2, 3, 1 << 24, 5, (1 << 24) + 1].map(i32::to_le_bytes).concat();
    let turned = npy("<i4", "True", "(3, 2)", &bytes);
    let file = VectorFile::open(write(directory.path(), "x.npy", &turned)?)?;
    assert_eq!(file.converted(), note("int32 to float32, from Fortran order"));
    assert_eq!(file.read(0..2)?, Matrix::F32(vec![1.0, 16_777_216.0, 2.0, 5.0], 2));
    refuses(&directory.path().join("x.npy"), &["16777217 in row 2"])
}

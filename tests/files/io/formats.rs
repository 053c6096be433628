//! Every format is read as the same vectors, whole and in parts.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use nearfield::io::{VectorFile, read_values};
use nearfield::{ElementKind, Matrix};
use tempfile::TempDir;

use super::bytes::{
    DEFLATED, STORED, every_format, member, npy, npz, refuses, safetensors, small, with_header, write,
};

#[test]
fn every_format_reads_the_same_vectors() -> Result<()> {
    let directory = TempDir::new()?;
    let expected: Vec<f32> = small(35 * 11).iter().map(|byte| f32::from(*byte)).collect();
    for path in every_format(directory.path(), 35, 11)? {
        let file = VectorFile::open(&path).with_context(|| path.display().to_string())?;
        assert_eq!((file.rows(), file.dim()), (35, 11), "{file:?}");
        let name = path.display().to_string();
        let kinds = [
            ("f16", ElementKind::F16),
            ("deflated", ElementKind::F16),
            ("big", ElementKind::F16),
            ("bvecs", ElementKind::U8),
            ("u8bin", ElementKind::U8),
            ("i8bin", ElementKind::I8),
        ];
        let kind = kinds.iter().find(|(part, _)| name.contains(part));
        assert_eq!(file.kind(), kind.map_or(ElementKind::F32, |(_, kind)| *kind), "{name}");
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
    // As pandas writes a frame: its first column, without a name, numbers the rows.
    for text in [",0,1\n0,5,6\n1,7,8\n", ",x,y\na,5,6\nb,7,8\n", "\"\",x,y\n0,5,6\n1,7,8\n"] {
        assert_eq!(read("x.csv", text)?.0, [5.0, 6.0, 7.0, 8.0], "{text}");
    }
    assert!(read("x.csv", "nan,-inf\n")?.0.iter().all(|value| !value.is_finite()));
    assert_eq!(read("x.jsonl", "[1, -2.5]\n [3e-2,4]\n")?, plain);
    assert_eq!(read("x.jsonl", "{\"v\": [1, -2.5]}\n{\"v\": [0.03, 4], \"id\": \"b\"}\n")?, plain);
    let two = "{\"a\": [9], \"v\": [1, -2.5]}\n{\"v\": [0.03, 4], \"a\": []}\n";
    assert_eq!(read("x.jsonl:v", two)?, plain);
    for (name, text, parts) in [
        ("x.csv", "", &["an empty file"][..]),
        ("x.csv", "a,b\n", &["a header alone"]),
        ("x.csv", "id,x,y\n7,1,2\n", &["columns of numbers alone", "a column \"id\""]),
        ("x.csv", "x,y,\"Index\"\n1,2,7\n", &["a column \"index\""]),
        ("x.csv", "name,x\nred,1\n", &["\"red\" in line 2"]),
        ("x.csv", "1,2\n3,4\n5\n", &["2 numbers in each line", "found 1 in line 3"]),
        ("x.csv", "1,2\n3,four\n", &["a row of numbers in each line", "\"four\" in line 2"]),
        ("x.csv", "1,b\n3,4\n", &["\"b\" in line 1"]),
        ("x.csv", "1,2\n3,\n", &["\"\" in line 2"]),
        ("x.tsv", "1\t2\n3\t\n", &["\"\" in line 2"]),
        ("x.csv", "1,2\n\n3,4\n", &["a row in each line", "found none in line 2"]),
        ("x.csv", "1,2\n3,1e39\n", &["\"1e39\" in line 2"]),
        ("x.jsonl", "[1, 2]\n[1, null]\n", &["null", "in line 2"]),
        ("x.jsonl", "[1, 1e39]\n", &["too large for float32", "in line 1"]),
        ("x.jsonl", "[1, 2\n", &["text that is no JSON at column 5", "in line 1"]),
        ("x.jsonl", "[1, 1e400]\n", &["a number too large for float32", "in line 1"]),
        ("x.jsonl", "3\n", &["neither an array nor an object", "in line 1"]),
        ("x.jsonl", "[[1, 2]]\n", &["found [1,2] in line 1"]),
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

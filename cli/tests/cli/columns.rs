//! Columns of Parquet and Arrow files as vectors.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use arrow::array::types::{Float16Type, Float32Type, Float64Type, Int64Type};
use arrow::array::{
    ArrayRef, FixedSizeListArray, Float16Array, Int32Array, LargeListArray, ListArray, RecordBatch,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use nearfield::Matrix;
use nearfield::io::{VectorFile, read_ids};
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;

use crate::PROGRAM;

fn data() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}

/// Writes batches of named columns in the format of the file's ending; `.stream.arrow` is without a footer.
fn write(path: &Path, batches: &[RecordBatch]) -> Result<()> {
    let (file, schema) = (File::create(path)?, batches[0].schema());
    let name = path.display().to_string();
    if name.ends_with(".parquet") {
        let mut writer = ArrowWriter::try_new(file, schema, None)?;
        batches.iter().try_for_each(|batch| writer.write(batch))?;
        writer.close()?;
    } else if name.ends_with(".stream.arrow") {
        let mut writer = StreamWriter::try_new(file, &schema)?;
        batches.iter().try_for_each(|batch| writer.write(batch))?;
        writer.finish()?;
    } else {
        let mut writer = FileWriter::try_new(file, &schema)?;
        batches.iter().try_for_each(|batch| writer.write(batch))?;
        writer.finish()?;
    }
    Ok(())
}

fn columns(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    Ok(RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )?)
}

/// Lists of f64 of any lengths, with NULLs in any place.
fn lists(rows: Vec<Option<Vec<Option<f64>>>>) -> ArrayRef {
    Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(rows))
}

fn some(values: &[f64]) -> Option<Vec<Option<f64>>> {
    Some(values.iter().copied().map(Some).collect())
}

/// A file of the shipped vectors as lists of fixed size.
fn shipped(name: &str, rows: std::ops::Range<usize>) -> Result<RecordBatch> {
    let Matrix::F16(values, dim) = VectorFile::open(data().join(name))?.read(rows.clone())? else {
        anyhow::bail!("needed f16");
    };
    let numbers = Int32Array::from_iter_values(rows.map(|row| row as i32));
    let field = Field::new_list_field(DataType::Float16, true).into();
    let vectors = FixedSizeListArray::try_new(field, dim as i32, Arc::new(Float16Array::from(values)), None)?;
    columns(vec![("number", Arc::new(numbers)), ("embedding", Arc::new(vectors))])
}

#[test]
fn columns_of_every_format_are_searched_as_numpy_arrays_are() -> Result<()> {
    let directory = TempDir::new()?;
    let at = directory.path();
    let [rows, queries] =
        ["base.f16.npy", "query.f16.npy"].map(|name| data().join(name).display().to_string());
    let batches = [shipped("base.f16.npy", 0..2500)?, shipped("base.f16.npy", 2500..4000)?];
    let query_batches = [shipped("query.f16.npy", 0..200)?];
    PROGRAM.succeed(
        at,
        &format!("search --device host --rows {rows} --queries {queries} -k 5 --ids wanted.npy"),
    )?;
    let wanted = read_ids(at.join("wanted.npy"))?;
    for ending in ["parquet", "arrow", "stream.arrow", "feather", "ipc"] {
        write(&at.join(format!("base.{ending}")), &batches)?;
        write(&at.join(format!("q.{ending}")), &query_batches)?;
        let found = PROGRAM.record(
            at,
            &format!(
                "search --device host --rows base.{ending} --queries q.{ending}:embedding -k 5 --ids {ending}.npy"
            ),
        )?;
        assert_eq!(
            (&found["elements"], &found["rows"], &found["converted"]),
            (&"f16".into(), &4000.into(), &().into())
        );
        assert!(read_ids(at.join(format!("{ending}.npy")))? == wanted, "{ending}: other ids");
    }
    PROGRAM.succeed(at, "build --device host --rows base.parquet --out base.nf")?;
    PROGRAM
        .succeed(at, "search --device host --index-file base.nf --queries q.parquet -k 5 --ids built.npy")?;
    assert!(read_ids(at.join("built.npy"))? == wanted, "other ids of the saved index");
    PROGRAM.succeed(
        at,
        "search --device host --rows base.parquet --queries q.parquet -k 5 --keep-rows mapped --ids mapped.npy",
    )?;
    assert!(read_ids(at.join("mapped.npy"))? == wanted, "other ids of mapped rows");
    let printed = PROGRAM
        .succeed(at, "kmeans --device host --rows base.parquet --clusters 3 --centroids centroids.npy")?;
    assert!(printed.contains("base.parquet:embedding"), "{printed}");
    PROGRAM.fail(
        at,
        "search --device host --rows base.parquet --queries q.npy:embedding --out q.npy",
        &["--out", "q.npy"],
    )
}

#[test]
fn a_column_is_taken_by_its_name_or_because_it_is_the_only_one_of_floats() -> Result<()> {
    let directory = TempDir::new()?;
    let at = directory.path();
    let integers = ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some([Some(1), Some(2)]),
        Some([Some(3), Some(-4)]),
    ]);
    let integers: ArrayRef = Arc::new(integers);
    let floats =
        LargeListArray::from_iter_primitive::<Float32Type, _, _>([Some([Some(1.0)]), Some([Some(2.0)])]);
    let floats: ArrayRef = Arc::new(floats);
    let halves: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float16Type, _, _>([
        Some([Some(half::f16::ONE)]),
        Some([Some(half::f16::ZERO)]),
    ]));
    let names: ArrayRef = Arc::new(Int32Array::from(vec![7, 8]));
    let write = |name: &str, given: &[(&str, &ArrayRef)]| {
        write(
            &at.join(name),
            &[columns(given.iter().map(|(name, column)| (*name, (*column).clone())).collect())?],
        )
    };
    let reduce =
        |rows: &str| PROGRAM.record(at, &format!("reduce --device host --operation sum --rows {rows}"));
    write("one.parquet", &[("name", &names), ("tags", &integers), ("a:b", &floats)])?;
    let of_floats = reduce("one.parquet")?;
    assert_eq!((&of_floats["dim"], &of_floats["results"]), (&1.into(), &serde_json::json!([1.0, 2.0])));
    assert_eq!(reduce("one.parquet:a:b")?["results"], of_floats["results"]);
    assert_eq!(reduce("one.parquet:tags")?["results"], serde_json::json!([3.0, -1.0]));
    write("integers.arrow", &[("tags", &integers)])?;
    let found = PROGRAM.record(at, "search --device host --rows integers.arrow --queries integers.arrow")?;
    assert_eq!(found["converted"], "int64 to float32");
    write("two.parquet", &[("first", &floats), ("second", &halves)])?;
    let run = "reduce --device host --operation sum --rows";
    PROGRAM.fail(
        at,
        &format!("{run} two.parquet"),
        &["--rows: two.parquet: needed one column", "FILE:COLUMN", "first (", "second ("],
    )?;
    PROGRAM.fail(
        at,
        &format!("{run} two.parquet:third"),
        &["two.parquet: needed a column third", "first ("],
    )?;
    PROGRAM.fail(
        at,
        &format!("{run} one.parquet:name"),
        &["one.parquet", "name: needed a column of lists of numbers", "Int32"],
    )?;
    write("none.parquet", &[("name", &names)])?;
    PROGRAM.fail(at, &format!("{run} none.parquet"), &["none.parquet", "name (Int32)"])
}

#[test]
fn vectors_that_are_none_are_named_by_file_column_and_row() -> Result<()> {
    let directory = TempDir::new()?;
    let at = directory.path();
    let whole = some(&[1.0, 2.0]);
    let fixed = |nulls: Option<NullBuffer>| -> Result<ArrayRef> {
        let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), Some(16_777_217), None]));
        let field = Field::new_list_field(DataType::Int32, true).into();
        Ok(Arc::new(FixedSizeListArray::try_new(field, 2, values, nulls)?))
    };
    let (nothing, short) = (lists(vec![whole.clone(), None]), lists(vec![whole.clone(), some(&[1.0])]));
    let hole = lists(vec![whole.clone(), Some(vec![Some(1.0), None])]);
    let (large, not_finite) =
        (lists(vec![whole.clone(), some(&[1e300, 1.0])]), lists(vec![whole, some(&[f64::NAN, 1.0])]));
    for (column, complaint) in [
        (nothing, "row 1 is NULL"),
        (short, "needed 2 elements in each row, as row 0 has, found 1 in row 1"),
        (hole, "element 1 of row 1 is NULL"),
        (large, "row 1: needed float64 numbers that do not exceed the largest float32, found 1e300"),
        (not_finite, "row 1"),
        (lists(vec![some(&[])]), "needed vectors of at least 1 element"),
        (fixed(None)?, "element 1 of row 1 is NULL"),
        (fixed(None)?.slice(0, 1), ""),
        (fixed(Some(vec![false, true].into()))?, "row 0 is NULL"),
    ] {
        for file in ["v.parquet", "v.arrow"] {
            write(&at.join(file), &[columns(vec![("vec", column.clone())])?])?;
            let command = format!("search --device host --rows {file} --queries {file}");
            match complaint {
                "" => drop(PROGRAM.succeed(at, &command)?),
                _ => PROGRAM.fail(at, &command, &["--", &format!("{file}:vec: "), complaint])?,
            }
        }
    }
    let long = vec![Some(vec![Some(1i64)]), Some(vec![Some(16_777_217)])];
    let long: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(long));
    write(&at.join("v.parquet"), &[columns(vec![("vec", long)])?])?;
    let exact = "row 1: needed integers that float32 holds exactly, found 16777217";
    PROGRAM.fail(
        at,
        "search --device host --rows v.parquet --queries v.parquet",
        &["v.parquet:vec: ", exact],
    )?;
    let empty = RecordBatch::new_empty(
        Schema::new(vec![Field::new("vec", DataType::new_list(DataType::Float32, true), true)]).into(),
    );
    write(&at.join("v.parquet"), &[empty])?;
    PROGRAM.fail(
        at,
        "search --device host --rows v.parquet --queries v.parquet",
        &["v.parquet:vec: ", "no rows"],
    )?;
    for name in ["broken.parquet", "broken.arrow", "broken.feather"] {
        fs::write(at.join(name), "ARROW1 and no more than this text")?;
        PROGRAM.fail(at, &format!("search --rows {name} --queries {name}"), &["--rows", name])?;
        PROGRAM.fail(
            at,
            &format!("search --rows none.{name} --queries {name}"),
            &["--rows", &format!("none.{name}"), "No such file"],
        )?;
    }
    Ok(())
}

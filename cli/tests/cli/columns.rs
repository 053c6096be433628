//! Columns of Parquet and Arrow files as vectors.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use arrow::array::types::{Float16Type, Float32Type, Float64Type, Int64Type, UInt8Type, UInt64Type};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, FixedSizeListArray, Float16Array, Int32Array, LargeListArray,
    ListArray, RecordBatch,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use arrow::ipc::writer::{FileWriter, StreamWriter};
use nearfield::Matrix;
use nearfield::io::{VectorFile, write_npy};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::json;

use crate::Here;

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
    let here = Here::new()?;
    let [rows, queries] =
        ["base.f16.npy", "query.f16.npy"].map(|name| data().join(name).display().to_string());
    let batches = [shipped("base.f16.npy", 0..2500)?, shipped("base.f16.npy", 2500..4000)?];
    let query_batches = [shipped("query.f16.npy", 0..200)?];
    let search = "search --device host -k 5 --force --ids ids.npy";
    here.run(&format!("{search} --rows {rows} --queries {queries}"))?;
    let wanted = here.ids("ids.npy")?;
    for ending in ["parquet", "arrow", "stream.arrow", "feather", "ipc"] {
        write(&here.at(&format!("base.{ending}")), &batches)?;
        write(&here.at(&format!("q.{ending}")), &query_batches)?;
        let found = here.record(&format!("{search} --rows base.{ending} --queries q.{ending}:embedding"))?;
        assert_eq!((&found["elements"], &found["rows"]), (&"f16".into(), &4000.into()));
        assert!(found["converted"].is_null() && here.ids("ids.npy")? == wanted, "{ending}: other ids");
    }
    here.run("build --device host --rows base.parquet --out base.nf")?;
    for rows in ["--index-file base.nf", "--rows base.parquet --residency mapped"] {
        here.run(&format!("{search} {rows} --queries q.parquet"))?;
        assert!(here.ids("ids.npy")? == wanted, "{rows}: other ids");
    }
    let printed =
        here.run("kmeans --device host --rows base.parquet --clusters 3 --centroids centroids.npy")?;
    assert!(printed.contains("base.parquet:embedding"), "{printed}");
    here.fail(
        "search --device host --rows base.parquet",
        &[("--queries q.npy:embedding --out q.npy", &["--out", "q.npy"])],
    )
}

#[test]
fn a_column_is_taken_by_its_name_or_because_it_is_the_only_one_of_floats() -> Result<()> {
    let here = Here::new()?;
    let integers: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some([Some(1), Some(2)]),
        Some([Some(3), Some(-4)]),
    ]));
    let floats =
        LargeListArray::from_iter_primitive::<Float32Type, _, _>([Some([Some(1.0)]), Some([Some(2.0)])]);
    let floats: ArrayRef = Arc::new(floats);
    let halves: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float16Type, _, _>([
        Some([Some(half::f16::ONE)]),
        Some([Some(half::f16::ZERO)]),
    ]));
    let names: ArrayRef = Arc::new(Int32Array::from(vec![7, 8]));
    for (file, given) in [
        ("one.parquet", vec![("name", &names), ("tags", &integers), ("a:b", &floats)]),
        ("integers.arrow", vec![("tags", &integers)]),
        ("two.parquet", vec![("first", &floats), ("second", &halves)]),
        ("none.parquet", vec![("name", &names)]),
    ] {
        let given = given.into_iter().map(|(name, column)| (name, column.clone())).collect();
        write(&here.at(file), &[columns(given)?])?;
    }
    let sum = "reduce --device host --operation sum --rows";
    for (rows, wanted) in [
        ("one.parquet", json!([1.0, 2.0])),
        ("one.parquet:a:b", json!([1.0, 2.0])),
        ("one.parquet:tags", json!([3.0, -1.0])),
    ] {
        assert_eq!(here.record(&format!("{sum} {rows}"))?["results"], wanted, "{rows}");
    }
    assert_eq!(here.record(&format!("{sum} one.parquet"))?["dim"], 1);
    let found = here.record("search --device host --rows integers.arrow --queries integers.arrow")?;
    assert_eq!(found["converted"], "int64 to float32");
    let one = "--rows: two.parquet: needed one column";
    here.fail(
        sum,
        &[
            ("two.parquet", &[one, "FILE:COLUMN", "first (", "second ("]),
            ("two.parquet:third", &["two.parquet: needed a column third", "first ("]),
            ("one.parquet:name", &["one.parquet", "name: needed a column of lists of numbers", "Int32"]),
            ("none.parquet", &["none.parquet", "name (Int32)"]),
        ],
    )
}

#[test]
fn vectors_that_are_none_are_named_by_file_column_and_row() -> Result<()> {
    let here = Here::new()?;
    let whole = some(&[1.0, 2.0]);
    let fixed = |nulls: Option<NullBuffer>| -> Result<ArrayRef> {
        let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), Some(16_777_217), None]));
        let field = Field::new_list_field(DataType::Int32, true).into();
        Ok(Arc::new(FixedSizeListArray::try_new(field, 2, values, nulls)?))
    };
    let second = |vector: Option<Vec<Option<f64>>>| lists(vec![whole.clone(), vector]);
    let long = vec![Some(vec![Some(1i64)]), Some(vec![Some(16_777_217)])];
    let long: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(long));
    for (column, complaint) in [
        (second(None), "row 1 is NULL"),
        (second(some(&[1.0])), "needed 2 elements in each row, as row 0 has, found 1 in row 1"),
        (second(Some(vec![Some(1.0), None])), "element 1 of row 1 is NULL"),
        (
            second(some(&[1e300, 1.0])),
            "row 1: needed float64 numbers that do not exceed the largest float32, found 1e300",
        ),
        (second(some(&[f64::NAN, 1.0])), "row 1"),
        (lists(vec![some(&[])]), "needed vectors of at least 1 element"),
        (long, "row 1: needed integers that float32 holds exactly, found 16777217"),
        (fixed(None)?, "element 1 of row 1 is NULL"),
        (fixed(None)?.slice(0, 1), ""),
        (fixed(Some(vec![false, true].into()))?, "row 0 is NULL"),
        (lists(vec![]), "no rows"),
    ] {
        for file in ["v.parquet", "v.arrow"] {
            write(&here.at(file), &[columns(vec![("vec", column.clone())])?])?;
            let command = format!("search --device host --rows {file} --queries {file}");
            match complaint {
                "" => drop(here.run(&command)?),
                _ => here.fail(&command, &[("", &["--", &format!("{file}:vec: "), complaint])])?,
            }
        }
    }
    for name in ["broken.parquet", "broken.arrow", "broken.feather"] {
        fs::write(here.at(name), "ARROW1 and no more than this text")?;
        let absent = format!("none.{name}");
        here.fail(
            &format!("search --queries {name} --rows"),
            &[(name, &["--rows", name]), (&absent, &["--rows", &absent, "No such file"])],
        )?;
    }
    Ok(())
}

#[test]
fn columns_of_bytes_are_bits_where_the_caller_says_so() -> Result<()> {
    let here = Here::new()?;
    let bytes: Vec<u8> = (0..300u32 * 3).map(|at| (at * at % 253) as u8).collect();
    write_npy(here.at("b.npy"), [300, 3], &bytes)?;
    let search = "search --device host -k 5 --force --ids ids.npy --bits";
    here.run(&format!("{search} --rows b.npy --queries b.npy"))?;
    let wanted = here.ids("ids.npy")?;
    let binary: ArrayRef = Arc::new(BinaryArray::from_iter_values(bytes.chunks(3)));
    let rows = bytes.chunks(3).map(|row| Some(row.iter().copied().map(Some).collect::<Vec<_>>()));
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<UInt8Type, _, _>(rows));
    let floats = lists_of_one(300);
    for (kind, ending) in [
        (DataType::FixedSizeBinary(3), "parquet"),
        (DataType::Binary, "parquet"),
        (DataType::LargeBinary, "arrow"),
        (DataType::BinaryView, "stream.arrow"),
        (DataType::List(Field::new_list_field(DataType::UInt8, true).into()), "parquet"),
    ] {
        let bits = if kind.is_nested() { lists.clone() } else { cast(&binary, &kind)? };
        let [first, last] = [(0, 100), (100, 200)].map(|(start, count)| {
            columns(vec![("vec", floats.slice(start, count)), ("bits", bits.slice(start, count))])
        });
        let file = format!("b.{ending}");
        write(&here.at(&file), &[first?, last?])?;
        // The only column that can be bits, and the only one of floats.
        let found = here.record(&format!("{search} --rows {file} --queries {file}:bits"))?;
        assert_eq!((&found["elements"], &found["metric"]), (&"bits".into(), &"hamming".into()), "{kind}");
        assert!(found["converted"].is_null() && here.ids("ids.npy")? == wanted, "{kind}: other ids");
        here.run(&format!("build --device host --rows {file} --bits --out b.nf --force"))?;
        let found = "search --device host -k 5 --force --ids ids.npy --index-file b.nf --queries";
        here.run(&format!("{found} {file}"))?;
        assert!(here.ids("ids.npy")? == wanted, "{kind}: other ids");
        assert_eq!(here.record(&format!("reduce --device host --operation sum --rows {file}"))?["dim"], 1);
        here.fail(
            "search --device host",
            &[(
                &*format!("--bits --rows {file}:vec --queries {file}"),
                &["--rows", "vec: needed a column of binary values or lists of uint8, found List(Float64)"][..],
            )],
        )?;
        if !kind.is_nested() {
            let needed =
                format!("{file}:bits: needed lists of numbers, or --bits, which `search` and `build` have");
            for command in [
                "search --queries b.npy",
                "build --out c.nf",
                "kmeans --clusters 2",
                "reduce --operation sum",
            ] {
                let rows = format!("--rows {file}:bits");
                here.fail(&format!("{command} --device host"), &[(&*rows, &["--rows", &needed][..])])?;
            }
        }
    }
    let short: ArrayRef = Arc::new(BinaryArray::from_iter_values([&b"abc"[..], b"ab"]));
    let null: ArrayRef = Arc::new(BinaryArray::from(vec![Some(&b"abc"[..]), None]));
    for (column, complaint) in [
        (short.clone(), "needed 3 elements in each row, as row 0 has, found 2 in row 1"),
        (null, "row 1 is NULL"),
        (short.slice(0, 0), "found no rows that tell it"),
        (lists_of_one(3), "needed one column of binary values or lists of uint8"),
    ] {
        write(&here.at("v.parquet"), &[columns(vec![("vec", column)])?])?;
        here.fail(&format!("{search} --queries b.npy"), &[("--rows v.parquet", &["--rows", complaint])])?;
    }
    // Texts of other programs are no vectors where there are lists.
    write(&here.at("v.parquet"), &[columns(vec![("text", short), ("vec", lists_of_one(2))])?])?;
    assert_eq!(here.record("reduce --device host --operation sum --rows v.parquet")?["dim"], 1);
    Ok(())
}

/// Vectors of one element.
fn lists_of_one(rows: usize) -> ArrayRef {
    lists(vec![some(&[1.0]); rows])
}

#[test]
fn graphs_and_pairs_are_written_as_columns() -> Result<()> {
    let here = Here::new()?;
    here.write("rows.npy", [4, 1], &[0.0, 1.0, 3.0, 3.5])?;
    for (command, columns) in [
        ("graph -k 2", &["row", "rank", "id"][..]),
        ("graph -k 2 --stream", &["row", "rank", "id"]),
        ("pairs --radius 2.1", &["a", "b"]),
        ("dedup --threshold 2.1", &["id", "near"]),
    ] {
        let command = format!("{command} --device host --metric l2 --rows rows.npy --force");
        here.run(&format!("{command} --out found.parquet"))?;
        here.run(&format!("{command} --out found.csv"))?;
        let mut lines = vec![[columns, &["distance"]].concat().join(",")];
        let file = File::open(here.at("found.parquet"))?;
        for batch in ParquetRecordBatchReaderBuilder::try_new(file)?.build()? {
            let batch = batch?;
            let distances = batch.column(columns.len()).as_primitive::<Float32Type>();
            for row in 0..batch.num_rows() {
                let ids = (0..columns.len()).map(|place| batch.column(place).as_primitive::<UInt64Type>());
                let mut fields: Vec<String> = ids.map(|ids| ids.value(row).to_string()).collect();
                fields.push(distances.value(row).to_string());
                lines.push(fields.join(","));
            }
        }
        assert_eq!(lines.join("\n") + "\n", here.text("found.csv")?, "{command}");
        assert!(lines.len() > 3, "{command}: {lines:?}");
    }
    Ok(())
}

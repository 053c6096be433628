//! `nf.knn`, `nf.distances`, and the reductions that `nearfield.reduce` offers.

use std::ops::Range;

use nearfield::{
    DeviceMatrix, DistanceOptions, ElementKind, Error, HostVectors, Matrix, Metric, Precision, Quantization,
    Reduced, Reduction, Result, SearchOptions, Summation, ValueRows,
};
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::answers::Out;
use crate::given::{Given, refused};
use crate::ids::RowFilter;
use crate::kinds::{kind_of, named};
use crate::vectors::Vectors;
use crate::{answers, call, device, errors};

/// The k nearest rows of each query, without an index: `Neighbors(distances, ids)`, both `[queries, min(k, rows allowed)]`, nearest first,
/// ties by the smaller id. Ids are the numbers of rows.
///
/// For several searches of the same rows an index is quicker: it sends them to the device once.
#[pyfunction]
#[pyo3(signature = (rows, queries, k=Given::from(10), *, metric=Given::from("l2sq"), filter=None, device=None), text_signature = "(rows, queries, k=10, *, metric='l2sq', filter=None, device=None)")]
pub(crate) fn knn<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    queries: &Bound<'py, PyAny>,
    k: Given<i64>,
    metric: Given<&str>,
    filter: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _running = call::check(py)?;
    let (k, metric): (usize, Metric) = (k.count("k")?, named(py, metric.word("metric")?)?);
    let rows = Vectors::of(rows, "rows", None)?;
    let elements = metric.default_elements();
    let rows = rows.view_of(py, "rows", elements)?;
    let queries = Vectors::of(queries, "queries", Some(rows.dim()))?;
    let queries = queries.view_of(py, "queries", elements)?;
    let count = rows.rows() as u64;
    let all = || answers::collected(rows.rows(), 0..count).map_err(|error| errors::exception(py, error));
    let largest = || Ok(count.checked_sub(1));
    let filter = filter.map(|filter| RowFilter::of(filter, largest, all)).transpose()?;
    let device = device::chosen(py, device)?;
    let asked = answers::Asked::of(queries);
    let found = call::run(py, |_| {
        let queries = asked.view()?;
        // Bits are in an index alone.
        if filter.is_none() && elements != ElementKind::Bits {
            match device.nearest(queries, rows, metric, k) {
                // More rows than the adapter can bind at once: an index has them in segments.
                Err(Error::Unsupported { .. }) => {}
                found => return found,
            }
        }
        // An index without an 8-bit copy, which one search would not pay for.
        let builder = nearfield::Flat::builder(&device, metric, rows.dim()).elements(rows.kind());
        let mut index = builder.quantization(Quantization::None).capacity(rows.rows()).build()?;
        index.add(rows)?;
        let mut options = SearchOptions::new(k);
        options.filter = filter.as_ref().map(RowFilter::as_filter);
        Ok(index.search_with(queries, &options)?.neighbors)
    })?;
    Out::of_shape(py, None, [queries.rows(), answers::width(&found)?])?.filled(&found)
}

/// Copies of rows in fewer bits: "int8" scales each row so that its largest magnitude is 127, and rounds; "ubinary" is a bit for each
/// number, 1 above 0, packed as by `np.packbits`: uint8 `[rows, dim / 8]`; "float16" is the nearest numbers.
#[pyfunction]
#[pyo3(signature = (rows, dtype=None), text_signature = "(rows, dtype='int8')")]
pub(crate) fn quantize<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _running = call::check(py)?;
    let kind = dtype.map_or(Ok(ElementKind::I8), |dtype| kind_of(py, "dtype", dtype))?;
    if matches!(kind, ElementKind::F32 | ElementKind::U8) {
        return Err(refused("dtype", "\"int8\", \"float16\" or \"ubinary\"", kind.numpy_name()));
    }
    let rows = Vectors::of(rows, "rows", None)?;
    let view = rows.view(py)?;
    let quantized = call::run(py, |_| view.quantized(kind).map_err(|error| error.for_argument("rows", 0)))?;
    Ok(match quantized {
        Matrix::I8(values, dim) => answers::matrix(py, values, dim)?.into_any(),
        Matrix::F16(values, dim) => answers::matrix(py, values, dim)?.into_any(),
        Matrix::Bits(bytes, dim) => answers::matrix(py, bytemuck::cast_vec::<_, u8>(bytes), dim)?.into_any(),
        other => return Err(refused("dtype", "int8, float16 or ubinary", other.kind())),
    })
}

/// The distances of all pairs, float32 `[queries, rows]`.
///
/// `precision` is "fast", "compensated" (as if in twice the precision, slower) or "half" (products of float16 for cosine and ip).
#[pyfunction]
#[pyo3(signature = (rows, queries, metric=Given::from("l2sq"), *, precision=Given::from("fast"), device=None), text_signature = "(rows, queries, metric='l2sq', *, precision='fast', device=None)")]
pub(crate) fn distances<'py>(
    py: Python<'py>,
    rows: &Bound<'py, PyAny>,
    queries: &Bound<'py, PyAny>,
    metric: Given<&str>,
    precision: Given<&str>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let _running = call::check(py)?;
    let metric: Metric = named(py, metric.word("metric")?)?;
    let precision: Precision = named(py, precision.word("precision")?)?;
    let rows = Vectors::of(rows, "rows", None)?;
    let rows = rows.view(py)?;
    let queries = Vectors::of(queries, "queries", Some(rows.dim()))?;
    let queries = queries.view(py)?;
    let device = device::chosen(py, device)?;
    let shape = [queries.rows(), rows.rows()];
    let all = answers::zeros(py, shape)?;
    if shape.contains(&0) {
        return Ok(all);
    }
    let mut writing = all.readwrite();
    let values = writing.as_slice_mut()?;
    // On a device a vector takes a multiple of four elements.
    let fitting = (PIECE_VALUES / rows.dim().next_multiple_of(4)).max(1);
    let row_piece = fitting.min(rows.rows());
    let query_piece = (PIECE_VALUES / row_piece).clamp(1, fitting);
    let pieces = |count: usize, piece: usize| {
        (0..count).step_by(piece).map(move |first| first..count.min(first + piece))
    };
    call::run(py, |_| {
        let options = DistanceOptions::new(metric).precision(precision);
        for row_range in pieces(rows.rows(), row_piece) {
            let some_rows = upload(&device, rows, row_range.clone(), "rows")?;
            for query_range in pieces(queries.rows(), query_piece) {
                let some = upload(&device, queries, query_range.clone(), "queries")?;
                let found = device.read(&device.distances_with(&some, &some_rows, options)?)?;
                for (query, found) in query_range.zip(found.chunks(row_range.len())) {
                    values[query * rows.rows()..][row_range.clone()].copy_from_slice(found);
                }
            }
        }
        Ok(())
    })?;
    drop(writing);
    Ok(all)
}

/// Elements of rows or queries, and distances, that are on a device at a time: 128 MiB, which every adapter can bind.
const PIECE_VALUES: usize = 1 << 25;

/// Some of the vectors of an argument on a device.
fn upload(
    device: &nearfield::Device,
    vectors: HostVectors<'_>,
    range: Range<usize>,
    argument: &'static str,
) -> Result<DeviceMatrix> {
    let first = range.start as u64;
    device.upload(vectors.slice(range)).map_err(|error| error.for_argument(argument, first))
}

/// Reduces `values`, all of them or each row by itself: see `nearfield/reduce.py`.
#[pyfunction(name = "_reduce")]
#[pyo3(signature = (operation, values, others, each_row, compensated, device))]
pub(crate) fn reduce<'py>(
    py: Python<'py>,
    operation: &str,
    values: &Bound<'py, PyAny>,
    others: Option<&Bound<'py, PyAny>>,
    each_row: bool,
    compensated: Given<bool>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _running = call::check(py)?;
    let compensated = compensated.take("compensated", "True or False")?;
    let values = Vectors::of_values(values, "values", each_row)?;
    let others = others.map(|others| Vectors::of_values(others, "others", each_row)).transpose()?;
    let view = values.view(py)?;
    let other_view = others.as_ref().map(|others| others.view(py)).transpose()?;
    let operation: Reduction = named(py, operation)?;
    if others.is_none() && operation == Reduction::Dot {
        return Err(PyTypeError::new_err("others: needed an array, a tensor or a list, given None"));
    }
    if let (Some(others), Some(other_view)) = (&others, other_view) {
        let traits = |of: &Vectors<'_>, view: HostVectors<'_>| {
            [format!("shape {:?}", of.shape()), view.kind().numpy_name().to_owned()]
        };
        for (needed, given) in traits(&values, view).into_iter().zip(traits(others, other_view)) {
            if needed != given {
                return Err(refused("others", &format!("{needed}, as the values have"), given));
            }
        }
    }
    let device = device::chosen(py, device)?;
    let summation = if compensated { Summation::Compensated } else { Summation::Plain };
    let reduced = call::run(py, |_| {
        let reduce = device.reduce().summation(summation);
        if each_row {
            reduce.run_rows(operation, view, other_view.map(ValueRows::from))
        } else {
            reduce.run(operation, view.elements(), other_view.map(|others| others.elements().into()))
        }
    })?;
    match reduced {
        Reduced::Values(values) if each_row => Ok(PyArray1::from_vec(py, values).into_any()),
        Reduced::Places(places) if each_row => Ok(answers::id_array(py, places.into_iter())?.into_any()),
        Reduced::Values(values) => values[0].into_bound_py_any(py),
        Reduced::Places(places) => places[0].into_bound_py_any(py),
    }
}

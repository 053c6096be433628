//! Vectors of Arrow's: fixed-size lists of float32 or float16 through the PyCapsule interface
//! (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>), without pyarrow.

use std::ffi::CStr;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type};
use arrow_array::{Array, ArrayRef, FixedSizeListArray, PrimitiveArray, StructArray, make_array};
use arrow_schema::DataType;
use nearfield::{HostVectors, MatrixView, Result};
use pyo3::exceptions::{PyImportError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use crate::given::{described, refused};

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// Rows in the memory of an Arrow array, or copied from several chunks; with their dim.
pub(crate) enum ArrowRows {
    F32(PrimitiveArray<Float32Type>, usize),
    F16(PrimitiveArray<Float16Type>, usize),
}

/// Takes the structure out of a capsule. Its consumer releases it from now on, and leaves an empty one.
fn taken<T>(capsule: &Bound<'_, PyAny>, name: &CStr, empty: T) -> PyResult<T> {
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(name))?;
    // SAFETY: the interface promises that a capsule of this name points to such a structure and lives as long as we hold it. We
    // leave a released one, which the capsule's destructor passes over.
    #[expect(unsafe_code, reason = "the interface hands over structures by pointers")]
    Ok(unsafe { pointer.cast::<T>().replace(empty) })
}

/// An array from its two structures.
fn imported(array: FFI_ArrowArray, schema: &FFI_ArrowSchema, argument: &str) -> PyResult<ArrayRef> {
    // SAFETY: a producer promises that both are valid and belong together.
    #[expect(unsafe_code, reason = "the memory is the producer's")]
    let data = unsafe { from_ffi(array, schema) };
    let mut data = data.map_err(|error| refused(argument, "an Arrow array", error))?;
    data.align_buffers();
    Ok(make_array(data))
}

/// All chunks of an object that offers Arrow arrays; none if it does not.
fn chunks(given: &Bound<'_, PyAny>, argument: &str) -> PyResult<Option<Vec<ArrayRef>>> {
    if let Ok(method) = given.getattr("__arrow_c_array__") {
        let given = method.call0()?;
        let broken = |_: PyErr| {
            let needed = "an Arrow array as two capsules, which nobody has taken";
            refused(argument, needed, described(&given))
        };
        let pair = given.cast::<PyTuple>().map_err(|error| broken(error.into()))?;
        let item = |place| pair.get_item(place).map_err(broken);
        let schema = taken(&item(0)?, SCHEMA, FFI_ArrowSchema::empty()).map_err(broken)?;
        let array = taken(&item(1)?, ARRAY, FFI_ArrowArray::empty()).map_err(broken)?;
        if array.is_released() {
            return Err(refused(argument, "an Arrow array", "one that was taken before"));
        }
        return Ok(Some(vec![imported(array, &schema, argument)?]));
    }
    let Ok(method) = given.getattr("__arrow_c_stream__") else { return Ok(None) };
    let given = match method.call0() {
        // pandas has the method without pyarrow, which it needs.
        Err(error) if error.is_instance_of::<PyImportError>(given.py()) => return Ok(None),
        given => given?,
    };
    let stream = taken(&given, STREAM, FFI_ArrowArrayStream::empty());
    let mut stream =
        stream.map_err(|_| refused(argument, "an Arrow stream in a capsule", described(&given)))?;
    let failed = || refused(argument, "an Arrow stream", "one that fails");
    let (Some(get_schema), Some(get_next)) = (stream.get_schema, stream.get_next) else {
        return Err(failed());
    };
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: the stream was not released, and fills the structure or returns an error.
    #[expect(unsafe_code, reason = "the stream's functions are the producer's")]
    if unsafe { get_schema(&raw mut stream, &raw mut schema) } != 0 {
        return Err(failed());
    }
    let mut arrays = vec![];
    loop {
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: as above. At its end the stream leaves a released array.
        #[expect(unsafe_code, reason = "the stream's functions are the producer's")]
        if unsafe { get_next(&raw mut stream, &raw mut array) } != 0 {
            return Err(failed());
        }
        if array.is_released() {
            return Ok(Some(arrays));
        }
        arrays.push(imported(array, &schema, argument)?);
    }
}

/// The vectors of one chunk: of an array of lists, or of the only column of a table.
fn lists(array: &ArrayRef, argument: &str) -> PyResult<FixedSizeListArray> {
    let null = |row| refused(argument, "values", format_args!("a null in row {row}"));
    if let Some(table) = array.as_any().downcast_ref::<StructArray>()
        && let [column] = table.columns()
    {
        return match first_null(table) {
            Some(row) => Err(null(row)),
            None => lists(column, argument),
        };
    }
    let Some(lists) = array.as_any().downcast_ref::<FixedSizeListArray>() else {
        let needed = "a FixedSizeList of float32 or float16, or a table of one such column";
        return Err(PyTypeError::new_err(format!("{argument}: needed {needed}, given {}", kind_of(array))));
    };
    let dim = lists.value_length().max(1) as usize;
    match first_null(lists).or_else(|| first_null(values(lists).as_ref()).map(|place| place / dim)) {
        Some(row) => Err(null(row)),
        None => Ok(lists.clone()),
    }
}

/// Whether it is a table of several columns of numbers, as data frames are.
fn has_number_columns(array: &ArrayRef) -> bool {
    let DataType::Struct(columns) = array.data_type() else { return false };
    columns.len() > 1 && columns.iter().all(|column| column.data_type().is_numeric())
}

fn first_null(array: &dyn Array) -> Option<usize> {
    if array.null_count() == 0 { None } else { (0..array.len()).find(|&place| array.is_null(place)) }
}

/// Describes an array in a few words: the type of a wide table would fill a page.
fn kind_of(array: &ArrayRef) -> String {
    match array.data_type() {
        DataType::Struct(columns) => format!("a table of {} columns", columns.len()),
        other => format!("Arrow's {other}").replace(['\n', '\r'], " "),
    }
}

/// The elements of the lists, without those before and behind them.
fn values(lists: &FixedSizeListArray) -> ArrayRef {
    let dim = lists.value_length() as usize;
    lists.values().slice(lists.value_offset(0) as usize, lists.len() * dim)
}

/// The elements of all chunks, which are of one type, as one array: without a copy where there is one chunk.
fn joined<T: ArrowPrimitiveType>(chunks: &[FixedSizeListArray]) -> Option<PrimitiveArray<T>> {
    let part = |lists| Some(values(lists).as_any().downcast_ref::<PrimitiveArray<T>>()?.clone());
    let mut parts = chunks.iter().map(part).collect::<Option<Vec<_>>>()?;
    if parts.len() == 1 {
        return parts.pop();
    }
    let elements: Vec<T::Native> = parts.iter().flat_map(|part| part.values()).copied().collect();
    Some(PrimitiveArray::new(elements.into(), None))
}

impl ArrowRows {
    /// The rows of an object that offers Arrow arrays; none if it does not.
    pub(crate) fn of(given: &Bound<'_, PyAny>, argument: &str) -> PyResult<Option<Self>> {
        let Some(arrays) = chunks(given, argument)? else { return Ok(None) };
        // numpy reads such a table as one array, a row of it as a vector.
        if arrays.first().is_some_and(has_number_columns) && given.hasattr("__array__")? {
            return Ok(None);
        }
        let chunks = arrays.iter().map(|array| lists(array, argument)).collect::<PyResult<Vec<_>>>()?;
        let Some(first) = chunks.first() else {
            return Err(refused(argument, "rows", "a stream without any"));
        };
        let dim = first.value_length() as usize;
        let given = first.value_type();
        let rows = match given {
            DataType::Float32 => joined(&chunks).map(|elements| Self::F32(elements, dim)),
            DataType::Float16 => joined(&chunks).map(|elements| Self::F16(elements, dim)),
            _ => None,
        };
        let needed = "a FixedSizeList of float32 or float16";
        let refused = || PyTypeError::new_err(format!("{argument}: needed {needed}, given one of {given}"));
        rows.map(Some).ok_or_else(refused)
    }

    /// A view that the library reads.
    pub(crate) fn view(&self) -> Result<HostVectors<'_>> {
        match self {
            Self::F32(values, dim) => MatrixView::new(values.values(), *dim).map(HostVectors::F32),
            Self::F16(values, dim) => MatrixView::new(values.values(), *dim).map(HostVectors::F16),
        }
    }
}

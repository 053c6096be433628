//! Vectors of Arrow's: fixed-size lists of float32, float16, int8 or uint8, and fixed-size binary of bits, through the PyCapsule interface
//! (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>), without pyarrow.

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Int8Type, UInt8Type};
use arrow_array::{Array, PrimitiveArray, UInt8Array, make_array};
use arrow_schema::DataType;
use nearfield::{HostVectors, MatrixView, Result};
use parking_lot::Mutex;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyType};

use crate::given::{described, refused};
use crate::{answers, errors};

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// Rows in the memory of an Arrow array, or copied from several chunks; with their dim.
pub(crate) enum ArrowRows {
    F32(PrimitiveArray<Float32Type>, usize),
    F16(PrimitiveArray<Float16Type>, usize),
    I8(PrimitiveArray<Int8Type>, usize),
    U8(PrimitiveArray<UInt8Type>, usize),
    /// Bytes of eight bits each.
    Bits(PrimitiveArray<UInt8Type>, usize),
}

/// An Arrow array or a stream of them, taken out of its capsule. Its owner releases it.
enum Given {
    Array(FFI_ArrowArray),
    Stream(FFI_ArrowArrayStream),
}

/// Held while a structure is taken: two threads may have the same capsule.
static TAKING: Mutex<()> = Mutex::new(());

/// The structure in a capsule of this name.
fn structure<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> Option<NonNull<T>> {
    Some(capsule.cast::<PyCapsule>().ok()?.pointer_checked(Some(name)).ok()?.cast())
}

/// Takes the structures of an array out of a tuple of two capsules, both or, where one is missing or was taken before, none.
fn taken(pair: &Bound<'_, PyAny>) -> Option<(FFI_ArrowSchema, FFI_ArrowArray)> {
    let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract().ok()?;
    let (schema, array) =
        (structure::<FFI_ArrowSchema>(&schema, SCHEMA)?, structure::<FFI_ArrowArray>(&array, ARRAY)?);
    let _taking = TAKING.lock();
    // SAFETY: the interface promises that capsules of these names point to such structures and live as long as we hold them. We leave
    // released ones, which the capsules' destructors pass over.
    #[expect(unsafe_code, reason = "the interface hands over structures by pointers")]
    unsafe {
        let are_there = schema.as_ref().release.is_some() && array.as_ref().release.is_some();
        are_there.then(|| (schema.replace(FFI_ArrowSchema::empty()), array.replace(FFI_ArrowArray::empty())))
    }
}

impl Given {
    /// Takes an object's array or stream, with the schema. Returns none if the object offers no Arrow arrays, or fails to make them and
    /// numpy may read it.
    fn of(given: &Bound<'_, PyAny>, argument: &str) -> PyResult<Option<(FFI_ArrowSchema, Self)>> {
        let py = given.py();
        let offered = ["__arrow_c_array__", "__arrow_c_stream__"];
        let Some(method) = offered.iter().find_map(|name| given.getattr(*name).ok()) else { return Ok(None) };
        // A class has the methods of its objects.
        if given.is_instance_of::<PyType>() {
            return Err(PyTypeError::new_err(format!("{argument}: needed an array, given a class")));
        }
        let made = match method.call0() {
            // pandas needs pyarrow for it, which refuses some tables that are arrays to numpy.
            Err(error) if error.is_instance_of::<PyException>(py) && given.hasattr("__array__")? => {
                return Ok(None);
            }
            made => made?,
        };
        let needed = "an Arrow array or stream in capsules, which nobody has taken";
        if let Some(stream) = structure::<FFI_ArrowArrayStream>(&made, STREAM) {
            let taking = TAKING.lock();
            // SAFETY: as in `taken`. One that was taken has its functions still, and must not be called.
            #[expect(unsafe_code, reason = "the interface hands over structures by pointers")]
            let stream = unsafe {
                let is_there = stream.as_ref().release.is_some();
                is_there.then(|| stream.replace(FFI_ArrowArrayStream::empty()))
            };
            drop(taking);
            let mut stream = stream.ok_or_else(|| refused(argument, needed, described(&made)))?;
            let mut schema = FFI_ArrowSchema::empty();
            let get_schema = stream.get_schema;
            called(&mut stream, get_schema, &mut schema, argument)?;
            return Ok(Some((schema, Self::Stream(stream))));
        }
        let (schema, array) = taken(&made).ok_or_else(|| refused(argument, needed, described(&made)))?;
        Ok(Some((schema, Self::Array(array))))
    }

    /// All arrays of it.
    fn arrays(self, argument: &str) -> PyResult<Vec<FFI_ArrowArray>> {
        let mut stream = match self {
            Self::Array(array) => return Ok(vec![array]),
            Self::Stream(stream) => stream,
        };
        let mut arrays = vec![];
        loop {
            let mut array = FFI_ArrowArray::empty();
            let get_next = stream.get_next;
            called(&mut stream, get_next, &mut array, argument)?;
            // What the stream leaves at its end.
            if array.is_released() {
                return Ok(arrays);
            }
            arrays.push(array);
        }
    }
}

/// Calls a function of a stream, which fills a structure. The stream is not released.
fn called<T>(
    stream: &mut FFI_ArrowArrayStream,
    function: Option<unsafe extern "C" fn(*mut FFI_ArrowArrayStream, *mut T) -> c_int>,
    filled: &mut T,
    argument: &str,
) -> PyResult<()> {
    let needed = "an Arrow stream";
    let function = function.ok_or_else(|| refused(argument, needed, "one without functions"))?;
    // SAFETY: the caller owns the stream, so it was not released. It fills the structure or returns an error, whose words live until its next call.
    #[expect(unsafe_code, reason = "the stream's functions are the producer's")]
    let words = unsafe {
        if function(stream, filled) == 0 {
            return Ok(());
        }
        let words = stream.get_last_error.map(|get_last_error| get_last_error(stream));
        words
            .filter(|words| !words.is_null())
            .map(|words| CStr::from_ptr(words).to_string_lossy().into_owned())
    };
    // Behind its first line pyarrow has a traceback.
    let words = words.as_deref().and_then(|words| words.lines().next()).unwrap_or("without a reason");
    Err(refused(argument, needed, format_args!("one that fails: {words}")))
}

/// Whether an array has the parts that its type asks for, and at least this many values. Arrow's crate panics where one is missing.
fn is_whole(array: &FFI_ArrowArray, kind: &DataType, least: i64) -> bool {
    let (child, each, buffers) = match kind {
        DataType::Struct(columns) => (columns.first().map(|column| column.data_type()), 1, 1),
        DataType::FixedSizeList(element, dim) => (Some(element.data_type()), i64::from(*dim), 1),
        DataType::FixedSizeBinary(dim) => (None, 8 * i64::from(*dim), 2),
        // No other value has more than 64 bits.
        _ => (None, 64, 2),
    };
    let end = array.offset.checked_add(array.length).and_then(|end| end.checked_mul(each));
    let Some(end) = end.filter(|_| array.offset >= 0 && array.length >= least) else { return false };
    if array.n_buffers != buffers || array.buffers.is_null() {
        return false;
    }
    let Some(kind) = child else { return array.n_children == 0 };
    if array.n_children != 1 || array.children.is_null() {
        return false;
    }
    // SAFETY: the interface promises as many pointers as it tells.
    #[expect(unsafe_code, reason = "the interface hands over structures by pointers")]
    let child = unsafe { array.children.read().as_ref() };
    child.is_some_and(|child| is_whole(child, kind, end))
}

/// The elements and the dim of the vectors that arrays of a type are, or the only column of a table; none of other types.
fn vectors_in(kind: &DataType) -> Option<(&DataType, usize)> {
    match kind {
        DataType::Struct(columns) if columns.len() == 1 => vectors_in(columns[0].data_type()),
        DataType::FixedSizeList(element, dim) => Some((element.data_type(), usize::try_from(*dim).ok()?)),
        DataType::FixedSizeBinary(dim) => Some((kind, usize::try_from(*dim).ok()?)),
        _ => None,
    }
}

/// Whether arrays of a type are numbers, or tables of columns of numbers, as data frames are.
fn is_numbers(kind: &DataType) -> bool {
    match kind {
        DataType::Struct(columns) => columns.iter().all(|column| column.data_type().is_numeric()),
        kind => kind.is_numeric(),
    }
}

/// Describes a type in a few words: that of a wide table would fill a page.
fn kind_of(kind: &DataType) -> String {
    match kind {
        DataType::Struct(columns) if columns.len() == 1 => kind_of(columns[0].data_type()),
        DataType::Struct(columns) => format!("a table of {} columns", columns.len()),
        DataType::FixedSizeList(element, _) => format!("one of {}", kind_of(element.data_type())),
        other => format!("Arrow's {other}").replace(['\n', '\r'], " "),
    }
}

/// The elements of the vectors of an array, whose first row has this number.
fn elements<T: ArrowPrimitiveType>(
    array: FFI_ArrowArray,
    kind: &DataType,
    (argument, first): (&str, usize),
) -> PyResult<PrimitiveArray<T>> {
    let needed = "an Arrow array of the type that its schema tells";
    if !is_whole(&array, kind, 0) {
        return Err(refused(argument, needed, "another"));
    }
    // SAFETY: a producer promises that both are valid and belong together.
    #[expect(unsafe_code, reason = "the memory is the producer's")]
    let data = unsafe { from_ffi_and_data_type(array, kind.clone()) };
    let mut array = make_array(data.map_err(|error| refused(argument, needed, error))?);
    let rows = array.len().max(1);
    loop {
        if array.null_count() > 0
            && let Some(place) = (0..array.len()).find(|&place| array.is_null(place))
        {
            let row = first + place / (array.len() / rows).max(1);
            return Err(refused(argument, "values", format_args!("a null in row {row}")));
        }
        // A table holds its column, lists and binary values hold their elements.
        array = if let Some(table) = array.as_struct_opt() {
            table.column(0).clone()
        } else if let Some(lists) = array.as_fixed_size_list_opt() {
            lists.values().clone()
        } else if let Some(binary) = array.as_fixed_size_binary_opt() {
            Arc::new(UInt8Array::new(binary.values().clone().into(), None))
        } else {
            let elements = array.as_primitive_opt().cloned();
            return elements.ok_or_else(|| refused(argument, needed, "another"));
        };
    }
}

/// The elements of all chunks as one array: without a copy where there is one chunk.
fn joined<T: ArrowPrimitiveType>(
    py: Python<'_>,
    given: Given,
    (kind, dim): (&DataType, usize),
    argument: &str,
) -> PyResult<PrimitiveArray<T>> {
    let (mut parts, mut count) = (vec![], 0);
    for array in given.arrays(argument)? {
        let part = elements::<T>(array, kind, (argument, count / dim))?;
        count += part.len();
        parts.push(part);
    }
    if parts.len() == 1
        && let Some(part) = parts.pop()
    {
        return Ok(part);
    }
    let all = answers::collected(count, std::iter::empty()).map_err(|error| errors::exception(py, error));
    let mut all: Vec<T::Native> = all?;
    parts.iter().for_each(|part| all.extend_from_slice(part.values()));
    Ok(PrimitiveArray::new(all.into(), None))
}

impl ArrowRows {
    /// The rows of an object that offers Arrow arrays; none if it does not, or if numpy reads them.
    pub(crate) fn of(given: &Bound<'_, PyAny>, argument: &str) -> PyResult<Option<Self>> {
        let py = given.py();
        let Some((schema, arrays)) = Given::of(given, argument)? else { return Ok(None) };
        let kind = DataType::try_from(&schema);
        let kind = kind.map_err(|error| refused(argument, "an Arrow array of a known type", error))?;
        if is_numbers(&kind) && given.hasattr("__array__")? {
            return Ok(None);
        }
        match vectors_in(&kind) {
            Some((_, 0)) => Err(refused(argument, "rows of at least one element", "lists of none")),
            Some((DataType::Float32, dim)) => {
                joined(py, arrays, (&kind, dim), argument).map(|elements| Some(Self::F32(elements, dim)))
            }
            Some((DataType::Float16, dim)) => {
                joined(py, arrays, (&kind, dim), argument).map(|elements| Some(Self::F16(elements, dim)))
            }
            Some((DataType::Int8, dim)) => {
                joined(py, arrays, (&kind, dim), argument).map(|elements| Some(Self::I8(elements, dim)))
            }
            Some((DataType::UInt8, dim)) => {
                joined(py, arrays, (&kind, dim), argument).map(|elements| Some(Self::U8(elements, dim)))
            }
            Some((DataType::FixedSizeBinary(_), dim)) => {
                joined(py, arrays, (&kind, dim), argument).map(|elements| Some(Self::Bits(elements, dim)))
            }
            _ => {
                let needed = "a FixedSizeList of float32, float16, int8 or uint8, a FixedSizeBinary of bits, \
                              or a table of one such column";
                let given = kind_of(&kind);
                Err(PyTypeError::new_err(format!("{argument}: needed {needed}, given {given}")))
            }
        }
    }

    /// How many rows there are, and their dim.
    pub(crate) fn shape(&self) -> [usize; 2] {
        match self {
            Self::F32(values, dim) => [values.len() / dim, *dim],
            Self::F16(values, dim) => [values.len() / dim, *dim],
            Self::I8(values, dim) => [values.len() / dim, *dim],
            Self::U8(values, dim) | Self::Bits(values, dim) => [values.len() / dim, *dim],
        }
    }

    /// A view that the library reads.
    pub(crate) fn view(&self) -> Result<HostVectors<'_>> {
        match self {
            Self::F32(values, dim) => MatrixView::new(values.values(), *dim).map(HostVectors::from),
            Self::F16(values, dim) => MatrixView::new(values.values(), *dim).map(HostVectors::from),
            Self::I8(values, dim) => MatrixView::new(values.values(), *dim).map(HostVectors::from),
            Self::U8(values, dim) => MatrixView::new(values.values(), *dim).map(HostVectors::from),
            Self::Bits(values, dim) => HostVectors::from(MatrixView::new(values.values(), *dim)?).of_bits(),
        }
    }
}

//! Vectors in Arrow arrays: lists of floating-point numbers or of integers of 8 bits, and binary values, whose bytes are eight bits each.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, UInt8Type,
};
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, AsArray, LargeListArray, ListLikeArray, UInt8Array,
};
use datafusion::arrow::buffer::{NullBuffer, ScalarBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, exec_err, plan_err};
use half::f16;
use nearfield::Metric;

/// A number that every distance converts to f64 first. That changes no value.
pub(crate) trait Number: ArrowNativeTypeOp + Send + Sync {
    fn to_f64(self) -> f64;
    /// The nearest f32.
    fn to_f32(self) -> f32;
}

macro_rules! number {
    ($type:ty, $to_f64:expr, $to_f32:expr) => {
        impl Number for $type {
            #[inline(always)]
            fn to_f64(self) -> f64 {
                $to_f64(self)
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                $to_f32(self)
            }
        }
    };
}
number!(f16, f16::to_f64, f16::to_f32);
number!(f32, f64::from, std::convert::identity);
number!(i8, f64::from, f32::from);
number!(u8, f64::from, f32::from);
number!(f64, std::convert::identity, |x: f64| x as f32);

/// The elements of all vectors, one after the other, where they lie.
pub(crate) enum Elements {
    F16(ScalarBuffer<f16>),
    F32(ScalarBuffer<f32>),
    F64(ScalarBuffer<f64>),
    I8(ScalarBuffer<i8>),
    U8(ScalarBuffer<u8>),
}

/// Runs the same expression for whichever type the elements have.
macro_rules! with_elements {
    ($elements:expr, |$values:ident| $body:expr) => {
        match &$elements {
            $crate::vectors::Elements::F16($values) => $body,
            $crate::vectors::Elements::F32($values) => $body,
            $crate::vectors::Elements::F64($values) => $body,
            $crate::vectors::Elements::I8($values) => $body,
            $crate::vectors::Elements::U8($values) => $body,
        }
    };
}
pub(crate) use with_elements;

/// The vectors of a column.
pub(crate) struct Vectors {
    pub(crate) elements: Elements,
    lists: Box<dyn ListLikeArray>,
    /// The elements that are NULL.
    null_elements: Option<NullBuffer>,
}

/// Whether a column of this type holds vectors that need no conversion.
pub(crate) fn holds_vectors(data_type: &DataType) -> bool {
    use DataType::{Float16, Float32, Float64, Int8, UInt8};
    let is_read = |element: &DataType| matches!(element, Float16 | Float32 | Float64 | Int8 | UInt8);
    holds_bits(data_type) || element_type(data_type).is_some_and(is_read)
}

/// Whether a column of this type holds documents, lists of token vectors, that need no conversion.
pub(crate) fn holds_documents(data_type: &DataType) -> bool {
    element_type(data_type).is_some_and(|tokens| holds_vectors(tokens) && !holds_bits(tokens))
}

/// Whether values of this type are bits, eight a byte.
pub(crate) fn holds_bits(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    matches!(data_type, Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

/// Refuses vectors of bits where a metric compares numbers.
pub(crate) fn check_bits(name: &str, are_bits: bool, metric: Metric) -> Result<()> {
    match are_bits && !Metric::OF_BITS.contains(&metric) {
        true => plan_err!(
            "{name}: needed lists of numbers for {metric}, given Binary, which holds bits: hamming and jaccard compare those"
        ),
        false => Ok(()),
    }
}

/// The type of the elements of a list.
pub(crate) fn element_type(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::FixedSizeList(field, _) | DataType::List(field) | DataType::LargeList(field) => {
            Some(field.data_type())
        }
        _ => None,
    }
}

/// The type that vectors of a function are converted to: their own, or one with f64 elements.
pub(crate) fn coerced(function: &str, data_type: &DataType) -> Result<DataType> {
    let is_number = |kind: &DataType| kind.is_numeric() || kind.is_null();
    match data_type {
        _ if holds_vectors(data_type) => Ok(data_type.clone()),
        _ if data_type.is_null() || element_type(data_type).is_some_and(is_number) => {
            Ok(list_of(DataType::Float64, data_type))
        }
        _ => plan_err!("{function}: needed two lists of numbers, given {data_type}"),
    }
}

/// The type that documents of a function are converted to: their own, or one with f64 elements.
pub(crate) fn coerced_documents(function: &str, data_type: &DataType) -> Result<DataType> {
    let tokens = match data_type {
        _ if holds_documents(data_type) => return Ok(data_type.clone()),
        DataType::Null => Some(data_type),
        _ => element_type(data_type).filter(|tokens| !holds_bits(tokens)),
    };
    match tokens.map(|tokens| coerced(function, tokens)) {
        Some(Ok(tokens)) => Ok(list_of(tokens, data_type)),
        _ => plan_err!("{function}: needed lists of vectors, the tokens of a document, given {data_type}"),
    }
}

/// A list of these elements, of the same kind as another.
fn list_of(element: DataType, list: &DataType) -> DataType {
    let field = Arc::new(Field::new_list_field(element, true));
    match list {
        DataType::LargeList(_) => DataType::LargeList(field),
        DataType::FixedSizeList(_, count) => DataType::FixedSizeList(field, *count),
        _ => DataType::List(field),
    }
}

/// The lists of a column.
pub(crate) fn lists(column: &ArrayRef) -> Result<Box<dyn ListLikeArray>> {
    match column.data_type() {
        DataType::FixedSizeList(..) => Ok(Box::new(column.as_fixed_size_list().clone())),
        DataType::List(_) => Ok(Box::new(column.as_list::<i32>().clone())),
        DataType::LargeList(_) => Ok(Box::new(column.as_list::<i64>().clone())),
        kind if holds_bits(kind) => Ok(Box::new(lists_of_bytes(column)?)),
        other => exec_err!("vectors: needed lists of numbers or binary values, given {other}"),
    }
}

impl Vectors {
    /// Reads a column of lists with f16, f32, f64, i8 or u8 elements, or of binary values.
    pub(crate) fn new(column: &ArrayRef) -> Result<Self> {
        let lists = lists(column)?;
        let values = lists.values();
        let elements = match values.data_type() {
            DataType::Float16 => Elements::F16(elements::<Float16Type>(values)),
            DataType::Float32 => Elements::F32(elements::<Float32Type>(values)),
            DataType::Float64 => Elements::F64(elements::<Float64Type>(values)),
            DataType::Int8 => Elements::I8(elements::<Int8Type>(values)),
            DataType::UInt8 => Elements::U8(elements::<UInt8Type>(values)),
            other => return exec_err!("vectors: needed elements of f16, f32, f64, i8 or u8, given {other}"),
        };
        let null_elements = values.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        Ok(Self { elements, lists, null_elements })
    }

    pub(crate) fn len(&self) -> usize {
        self.lists.len()
    }

    /// The elements of a vector, or none where it or one of its elements is NULL.
    pub(crate) fn range(&self, row: usize) -> Option<Range<usize>> {
        if self.lists.is_null(row) {
            return None;
        }
        let range = self.lists.element_range(row);
        match &self.null_elements {
            Some(nulls) if range.clone().any(|element| nulls.is_null(element)) => None,
            _ => Some(range),
        }
    }
}

fn elements<T: ArrowPrimitiveType>(values: &ArrayRef) -> ScalarBuffer<T::Native> {
    values.as_primitive::<T>().values().clone()
}

/// Binary values as lists of their bytes. Those of views and of a fixed size are copied, because no offsets name them in one buffer.
fn lists_of_bytes(column: &ArrayRef) -> Result<LargeListArray> {
    let binary = cast(column, &DataType::LargeBinary)?;
    let (offsets, bytes, nulls) = binary.as_binary::<i64>().clone().into_parts();
    let bytes = Arc::new(UInt8Array::new(bytes.into(), None));
    let field = Arc::new(Field::new_list_field(DataType::UInt8, false));
    Ok(LargeListArray::try_new(field, offsets, bytes, nulls)?)
}

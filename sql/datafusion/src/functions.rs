//! The scalar functions, under the names that users of DataFusion know. They take the place of DataFusion's own, which convert every
//! vector to a list of f64 first.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Float64Builder};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::utils::take_function_args;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;
use nearfield::Metric;

use crate::error::external;
use crate::metric::{distance, dot};
use crate::options::NearfieldOptions;
use crate::search::documents;
use crate::vectors::{Vectors, check_bits, coerced, coerced_documents, holds_bits, with_elements};

/// A distance of two vectors.
///
/// | function | value |
/// |---|---|
/// | `array_distance`, `list_distance`, `l2_distance` | the root of the sum of squared differences |
/// | `cosine_distance`, `list_cosine_distance` | one minus the cosine of the angle |
/// | `inner_product`, `list_inner_product`, `dot_product` | the sum of products: larger is nearer |
/// | `hamming_distance` | how many bits differ, of binary values or lists of bytes |
/// | `jaccard_distance` | the part of these bits of those that either vector has |
///
/// The result is a double, computed in f64. It is NULL where a vector or one of its elements is NULL, and for the cosine of a zero vector, and for
/// the bits of numbers that are no bytes.
/// Vectors of different lengths are an error.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Distance {
    name: &'static str,
    aliases: Vec<String>,
    metric: Metric,
    signature: Signature,
}

impl Distance {
    fn new(name: &'static str, aliases: &[&str], metric: Metric) -> Self {
        let aliases = aliases.iter().map(|alias| (*alias).to_owned()).collect();
        Self { name, aliases, metric, signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// The metric of the function. `inner_product` is its negative.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// The distances of as many rows. An array of one vector stands for as many of it as the other has.
    fn of_rows(&self, [a, b]: [&ArrayRef; 2], rows: usize) -> Result<Float64Array> {
        let (a, b) = (Vectors::new(a)?, Vectors::new(b)?);
        let mut distances = Float64Builder::with_capacity(rows);
        let place = |vectors: &Vectors, row| if vectors.len() == 1 { 0 } else { row };
        with_elements!(a.elements, |a_values| with_elements!(b.elements, |b_values| {
            for row in 0..rows {
                let ranges = a.range(place(&a, row)).zip(b.range(place(&b, row)));
                let Some((a, b)) = ranges.map(|(a, b)| (&a_values[a], &b_values[b])) else {
                    distances.append_null();
                    continue;
                };
                if a.len() != b.len() {
                    return exec_err!(
                        "{}: needed vectors of the same length, given {} and {} elements",
                        self.name,
                        a.len(),
                        b.len()
                    );
                }
                distances.append_option(match self.metric {
                    Metric::InnerProduct => Some(dot(a, b)),
                    metric => distance(metric, a, b),
                });
            }
        }));
        Ok(distances.finish())
    }
}

impl ScalarUDFImpl for Distance {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let both: [&DataType; 2] = take_function_args(self.name, types)?;
        check_bits(self.name, both.into_iter().any(holds_bits), self.metric)?;
        both.into_iter().map(|data_type| coerced(self.name, data_type)).collect()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        compared(self.name, args, |both, rows| Ok(Arc::new(self.of_rows(both, rows)?)))
    }
}

/// The value of a function of two columns, which `of_rows` computes for as many rows. A literal is an array of one.
fn compared(
    function: &str,
    args: ScalarFunctionArgs,
    of_rows: impl FnOnce([&ArrayRef; 2], usize) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let both: [ColumnarValue; 2] = take_function_args(function, args.args)?;
    let is_scalar = both.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
    let [a, b] = both.map(|value| match value {
        ColumnarValue::Array(array) => Ok(array),
        ColumnarValue::Scalar(scalar) => scalar.to_array(),
    });
    let values = of_rows([&a?, &b?], if is_scalar { 1 } else { args.number_rows })?;
    if is_scalar {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?));
    }
    Ok(ColumnarValue::Array(values))
}

/// `maxsim(query, document)`: the sum, over the tokens of a query, of the largest inner product with a token of the document. Larger is
/// nearer.
///
/// Both are lists of token vectors. The result is a float, as the session's device computes it. It is NULL where either is NULL, has a NULL in
/// it or has no token. Tokens of different lengths are an error, and so are elements that are not finite in f32.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct MaxSim(Signature);

impl ScalarUDFImpl for MaxSim {
    fn name(&self) -> &str {
        "maxsim"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float32)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let both: [&DataType; 2] = take_function_args(self.name(), types)?;
        both.into_iter().map(|data_type| coerced_documents(self.name(), data_type)).collect()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let device = NearfieldOptions::of(&args.config_options).open().map_err(external)?;
        compared(self.name(), args, |both, rows| Ok(Arc::new(documents::scores(&device, both, rows)?)))
    }
}

/// The functions that every process of a cluster registers.
pub fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    let maxsim = MaxSim(Signature::user_defined(Volatility::Immutable));
    let distances = [
        Distance::new("array_distance", &["list_distance"], Metric::L2),
        Distance::new("l2_distance", &[], Metric::L2),
        Distance::new("cosine_distance", &["list_cosine_distance"], Metric::Cosine),
        Distance::new("inner_product", &["list_inner_product", "dot_product"], Metric::InnerProduct),
        Distance::new("hamming_distance", &[], Metric::Hamming),
        Distance::new("jaccard_distance", &[], Metric::Jaccard),
    ]
    .map(ScalarUDF::from);
    distances.into_iter().chain([ScalarUDF::from(maxsim)]).map(Arc::new).collect()
}

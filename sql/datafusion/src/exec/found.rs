//! The rows that a search has found so far, apart from the batches in which they came.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{Result, internal_datafusion_err};

use crate::search::hits::Hits;

/// The rows that a search has found so far.
pub(crate) struct Found {
    /// In ascending order.
    numbers: Vec<u64>,
    /// One for each number, with the columns of the answer.
    rows: RecordBatch,
}

impl Found {
    pub(crate) fn new(schema: SchemaRef) -> Self {
        Self { numbers: vec![], rows: RecordBatch::new_empty(schema) }
    }

    /// Keeps the rows that hits name: those of before, and those of a block whose first row has this number.
    pub(crate) fn take(self, hits: &Hits, block: &[RecordBatch], first: u64) -> Result<Self> {
        let named: BTreeSet<u64> = hits.iter().flatten().map(|hit| hit.row).collect();
        let numbers: Vec<u64> = named.into_iter().collect();
        let starts: Vec<u64> = block
            .iter()
            .scan(first, |end, batch| Some(std::mem::replace(end, *end + batch.num_rows() as u64)))
            .collect();
        let place = |number: u64| match number < first {
            true => Ok((0, self.place(number)?)),
            false => {
                let batch = starts.partition_point(|&start| start <= number);
                Ok((batch, (number - starts[batch - 1]) as usize))
            }
        };
        let places = numbers.iter().map(|&number| place(number)).collect::<Result<Vec<_>>>()?;
        let batches: Vec<&RecordBatch> = std::iter::once(&self.rows).chain(block).collect();
        Ok(Self { rows: gather(&batches, &places)?, numbers })
    }

    /// The place of a row in [`Found::rows`].
    pub(crate) fn place(&self, number: u64) -> Result<usize> {
        self.numbers.binary_search(&number).map_err(|_| internal_datafusion_err!("row {number} was not kept"))
    }

    pub(crate) fn rows(&self) -> &RecordBatch {
        &self.rows
    }

    pub(crate) fn bytes(&self) -> usize {
        self.rows.get_array_memory_size() + self.numbers.len() * size_of::<u64>()
    }
}

/// The columns of these names.
pub(crate) fn columns_of(batch: &RecordBatch, names: &[String]) -> Result<RecordBatch> {
    let places = names.iter().map(|name| batch.schema().index_of(name)).collect::<Result<Vec<_>, _>>()?;
    Ok(batch.project(&places)?)
}

/// Rows of several batches with the same columns, as (batch, row). There may be no columns.
pub(crate) fn gather(batches: &[&RecordBatch], places: &[(usize, usize)]) -> Result<RecordBatch> {
    let schema = batches[0].schema();
    let column = |number: usize| {
        let arrays: Vec<_> = batches.iter().map(|batch| batch.column(number).as_ref()).collect();
        interleave(&arrays, places)
    };
    let columns = (0..schema.fields().len()).map(column).collect::<Result<Vec<_>, _>>()?;
    // Texts of views would keep the buffers of all batches.
    let compact = |array: ArrayRef| -> ArrayRef {
        match array.data_type() {
            DataType::Utf8View => Arc::new(array.as_string_view().gc()),
            DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
            _ => array,
        }
    };
    let columns = columns.into_iter().map(compact).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

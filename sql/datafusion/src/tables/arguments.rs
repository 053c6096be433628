//! Reads the arguments of table functions.

use std::slice::from_ref;
use std::sync::Arc;

use datafusion::arrow::array::types::Float64Type;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::catalog::{Session, TableFunctionArgs, TableProvider};
use datafusion::common::{DFSchema, Result, TableReference, plan_datafusion_err, plan_err};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::scalar::ScalarValue;
use futures::FutureExt;
use nearfield::Metric;

use crate::search::queries::Queries;
use crate::tables::index_table::metric_of;
use crate::vectors::{coerced, coerced_documents, element_type, holds_bits};

/// The metric of a search whose call names none, in a table without indexes.
const METRIC: Metric = Metric::Cosine;

/// The characters of an argument that an error shows.
const LONGEST: usize = 200;

/// The arguments of one call.
pub(crate) struct Arguments<'a> {
    function: &'static str,
    /// How to call it, for errors.
    usage: &'static str,
    exprs: &'a [Expr],
    session: &'a dyn Session,
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(
        function: &'static str,
        usage: &'static str,
        counts: std::ops::RangeInclusive<usize>,
        args: &TableFunctionArgs<'a, 'a>,
    ) -> Result<Self> {
        let exprs = args.exprs();
        if !counts.contains(&exprs.len()) {
            return plan_err!("{function}: needed {usage}, given {} arguments", exprs.len());
        }
        Ok(Self { function, usage, exprs, session: args.session() })
    }

    fn wrong<T>(&self, place: usize, name: &str, needed: &str) -> Result<T> {
        let Self { function, usage, .. } = self;
        let mut given = self.exprs[place].to_string();
        if given.len() > LONGEST {
            given = given.chars().take(LONGEST).chain("...".chars()).collect();
        }
        plan_err!("{function}: {name}: needed {needed}, given {given}; the call is {usage}")
    }

    /// A text, or the name of a table or column.
    pub(crate) fn name(&self, place: usize, name: &str) -> Result<String> {
        match &self.exprs[place] {
            Expr::Literal(value, _) => match value.try_as_str() {
                Some(Some(text)) => Ok(text.to_owned()),
                _ => self.wrong(place, name, "a name"),
            },
            Expr::Column(column) => Ok(column.flat_name()),
            // In a subquery, a name that the outer query has a column of.
            Expr::OuterReferenceColumn(_, column) => Ok(column.name.clone()),
            _ => self.wrong(place, name, "a name"),
        }
    }

    /// All rows of a table of this session.
    pub(crate) fn table(&self, place: usize, name: &str) -> Result<LogicalPlan> {
        let text = self.name(place, name)?;
        let catalog = &self.session.config_options().catalog;
        // An identifier was parsed already, with its quotes.
        let reference = match &self.exprs[place] {
            Expr::Column(column) => TableReference::parse_str(&column.quoted_flat_name()),
            Expr::OuterReferenceColumn(_, column) => TableReference::bare(column.name.as_str()),
            _ => TableReference::parse_str(&text),
        };
        let reference = reference.resolve(&catalog.default_catalog, &catalog.default_schema);
        let found = (self.session.catalog_list().catalog(&reference.catalog))
            .and_then(|catalog| catalog.schema(&reference.schema));
        // A table function is not async.
        let table: Option<Arc<dyn TableProvider>> = match &found {
            Some(schema) => match schema.table(&reference.table).now_or_never() {
                Some(table) => table?,
                None => return self.wrong(place, name, "a table of a catalog that answers at once"),
            },
            None => None,
        };
        match table {
            Some(table) => {
                let name = TableReference::bare(reference.table.clone());
                LogicalPlanBuilder::scan(name, provider_as_source(table), None)?.build()
            }
            None => plan_err!(
                "{}: {name}: needed a table or view of the catalog, there is no {text:?}",
                self.function
            ),
        }
    }

    /// A column of a table, by its name.
    pub(crate) fn column(&self, place: usize, name: &str, table: &LogicalPlan) -> Result<String> {
        let column = self.name(place, name)?;
        match table.schema().fields().iter().any(|field| *field.name() == column) {
            true => Ok(column),
            false => {
                let columns: Vec<&str> =
                    table.schema().fields().iter().map(|field| field.name().as_str()).collect();
                plan_err!(
                    "{}: {name}: needed a column of the table, one of {}, given {column:?}",
                    self.function,
                    columns.join(", ")
                )
            }
        }
    }

    pub(crate) fn k(&self, place: usize) -> Result<usize> {
        let k = match &self.exprs[place] {
            Expr::Literal(k, _) if k.data_type().is_integer() => match k.cast_to(&DataType::UInt64) {
                Ok(ScalarValue::UInt64(Some(k))) => usize::try_from(k).ok(),
                _ => None,
            },
            _ => None,
        };
        match k {
            Some(k) if k > 0 => Ok(k),
            _ => self.wrong(place, "k", "a whole number from 1"),
        }
    }

    /// A metric. A call that names none means that of the table's indexes, if it has any.
    pub(crate) fn metric(&self, place: usize, table: &LogicalPlan) -> Result<Metric> {
        if place >= self.exprs.len() || self.is_null(place) {
            return Ok(metric_of(table).unwrap_or(METRIC));
        }
        let named: nearfield::Result<Metric> = self.name(place, "metric")?.parse();
        named.map_err(|error| plan_datafusion_err!("{error}"))
    }

    fn is_null(&self, place: usize) -> bool {
        matches!(&self.exprs[place], Expr::Literal(value, _) if value.is_null())
    }

    /// Keeps the rows of a table for which a condition, which is a text, holds.
    pub(crate) fn filtered(&self, place: usize, table: LogicalPlan) -> Result<LogicalPlan> {
        if place >= self.exprs.len() || self.is_null(place) {
            return Ok(table);
        }
        let text = self.name(place, "filter")?;
        let Some(state) = self.session.as_any().downcast_ref::<datafusion::execution::SessionState>() else {
            return plan_err!("{}: filter: needed a session that parses SQL", self.function);
        };
        let condition = state.create_logical_expr(&text, table.schema())?;
        LogicalPlanBuilder::from(table).filter(condition)?.build()
    }

    /// A distance: any finite number.
    pub(crate) fn distance(&self, place: usize, name: &str) -> Result<f64> {
        let value = self.value(place)?;
        let number = match value.data_type().is_numeric() {
            true => cast(&value, &DataType::Float64)?.as_primitive::<Float64Type>().iter().next().flatten(),
            false => None,
        };
        match number.filter(|number| number.is_finite()) {
            Some(number) => Ok(number),
            None => self.wrong(place, name, "a finite number"),
        }
    }

    /// The value of an argument, which names no column: an array of one.
    fn value(&self, place: usize) -> Result<ArrayRef> {
        let schema = DFSchema::empty();
        let expr = self.session.create_physical_expr(self.exprs[place].clone(), &schema)?;
        let one_row = RecordBatchOptions::new().with_row_count(Some(1));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &one_row)?;
        match expr.evaluate(&batch)? {
            ColumnarValue::Array(array) => Ok(array),
            ColumnarValue::Scalar(scalar) => scalar.to_array(),
        }
    }

    /// One vector, or a list of them. A vector is a list of numbers, or a binary value.
    pub(crate) fn queries(&self, place: usize) -> Result<Arc<Queries>> {
        let needed =
            ["a list of numbers, bits as X'0f', or a list of such", "vectors", "elements that are not NULL"];
        let is_one = |kind: &DataType| element_type(kind).is_some() || holds_bits(kind);
        self.given(place, needed, is_one, coerced, Queries::of_column)
    }

    /// One document, or a list of them. A document is a list of token vectors, which are lists of numbers.
    pub(crate) fn documents(&self, place: usize) -> Result<Arc<Queries>> {
        let needed = [
            "a list of token vectors, which are lists of numbers, or a list of such",
            "lists of token vectors",
            "a token or more, and none that is NULL or has a NULL",
        ];
        let is_one = |kind: &DataType| element_type(kind).and_then(element_type).is_some();
        let read = |column: &ArrayRef, argument: &str| Queries::of_documents(from_ref(column), argument, 0);
        self.given(place, needed, is_one, coerced_documents, read)
    }

    /// One query, or a list of them. What is needed, in words: all, several, and the parts of each.
    fn given(
        &self,
        place: usize,
        [all, several, parts]: [&str; 3],
        is_one: impl FnOnce(&DataType) -> bool,
        coerced: fn(&str, &DataType) -> Result<DataType>,
        read: impl FnOnce(&ArrayRef, &str) -> Result<Queries>,
    ) -> Result<Arc<Queries>> {
        let value = self.value(place)?;
        let are_several = element_type(value.data_type()).is_some_and(is_one);
        let given = if are_several { list_elements(&value) } else { value };
        if given.null_count() > 0 {
            return self.wrong(place, "query", &format!("{several} that are not NULL"));
        }
        let Ok(data_type) = coerced(self.function, given.data_type()) else {
            return self.wrong(place, "query", all);
        };
        let queries = read(&cast(&given, &data_type)?, "query")?;
        if queries.count() < given.len() {
            return self.wrong(place, "query", parts);
        }
        match queries.count() {
            0 => self.wrong(place, "query", &format!("{several}, at least one")),
            _ => Ok(Arc::new(queries)),
        }
    }
}

/// The elements of the only list of an array.
fn list_elements(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::FixedSizeList(..) => array.as_fixed_size_list().value(0),
        DataType::LargeList(_) => array.as_list::<i64>().value(0),
        _ => array.as_list::<i32>().value(0),
    }
}

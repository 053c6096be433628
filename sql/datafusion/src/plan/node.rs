//! The logical operator of a search: `knn` and `knn_join` become it.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{DFSchema, DFSchemaRef, Result, internal_err, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use nearfield::Metric;
use serde::{Deserialize, Serialize};

use crate::metric::Measure;
use crate::search::queries::Queries;
use crate::vectors::{check_bits, holds_bits};

/// The number of a query, from 0, in the order in which they were given.
pub(crate) const QUERY_INDEX: &str = "query_index";
/// The place of a row among the neighbours of its query, from 0.
pub(crate) const RANK: &str = "rank";
/// Comes before the names of columns of the queries.
pub(crate) const QUERY_PREFIX: &str = "query_";

/// Where queries come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Asked {
    /// From the text of the statement.
    Given(Arc<Queries>),
    /// From the column of this name of a table.
    Table { plan: Arc<LogicalPlan>, column: String },
}

/// What to look for, in every stage of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Wanted {
    /// The column of vectors.
    pub(crate) column: String,
    pub(crate) k: usize,
    pub(crate) measure: Measure,
    /// The columns of the rows that the answer has.
    pub(crate) kept: Vec<String>,
    /// The columns of the queries that it has.
    pub(crate) kept_of_queries: Vec<String>,
}

/// The k nearest rows of a table to each query.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Knn {
    pub(crate) rows: Arc<LogicalPlan>,
    pub(crate) asked: Asked,
    pub(crate) wanted: Wanted,
    schema: DFSchemaRef,
}

/// The name of a query's column in the answer.
pub(crate) fn name_of_query(column: &str) -> String {
    format!("{QUERY_PREFIX}{column}")
}

/// The columns that every answer has, the last by its measure.
pub(crate) fn own_fields(measured: (&str, DataType)) -> [FieldRef; 3] {
    [(QUERY_INDEX, DataType::UInt64), (RANK, DataType::UInt64), measured]
        .map(|(name, data_type)| Arc::new(Field::new(name, data_type, false)))
}

impl Knn {
    /// A search that answers with all columns.
    pub(crate) fn all_columns(
        rows: LogicalPlan,
        asked: Asked,
        column: String,
        k: usize,
        measure: Measure,
    ) -> Result<Self> {
        let names =
            |plan: &LogicalPlan| plan.schema().fields().iter().map(|field| field.name().clone()).collect();
        let kept_of_queries = match &asked {
            Asked::Given(_) => vec![],
            Asked::Table { plan, .. } => names(plan),
        };
        let wanted = Wanted { column, k, measure, kept: names(&rows), kept_of_queries };
        Self::new(Arc::new(rows), asked, wanted)
    }

    pub(crate) fn new(rows: Arc<LogicalPlan>, asked: Asked, wanted: Wanted) -> Result<Self> {
        if let Measure::Distance(metric) = wanted.measure {
            check_column(&rows, &wanted.column, "", metric)?;
            match &asked {
                Asked::Given(queries) => check_bits("query", queries.are_bits(), metric)?,
                Asked::Table { plan, column } => check_column(plan, column, " of the queries", metric)?,
            }
        }
        let mut fields = named_fields(rows.schema().as_arrow(), &wanted.kept, str::to_owned)?;
        if let Asked::Table { plan, .. } = &asked {
            fields.extend(named_fields(plan.schema().as_arrow(), &wanted.kept_of_queries, name_of_query)?);
        }
        fields.extend(own_fields(wanted.measure.column()));
        distinct(&fields)?;
        let schema = DFSchema::from_unqualified_fields(fields.into(), Default::default())?;
        Ok(Self { rows, asked, wanted, schema: Arc::new(schema) })
    }

    /// The same search with some of its columns.
    pub(crate) fn narrowed(&self, is_needed: impl Fn(&str) -> bool) -> Result<Self> {
        let mut wanted = self.wanted.clone();
        wanted.kept.retain(|name| is_needed(name));
        wanted.kept_of_queries.retain(|name| is_needed(&name_of_query(name)));
        Self::new(self.rows.clone(), self.asked.clone(), wanted)
    }
}

/// The columns of these names, under others.
pub(crate) fn named_fields(
    schema: &Schema,
    names: &[String],
    named: impl Fn(&str) -> String,
) -> Result<Vec<FieldRef>> {
    let field = |name: &String| Ok(Arc::new(schema.field_with_name(name)?.clone().with_name(named(name))));
    names.iter().map(field).collect()
}

/// Refuses an answer with two columns of one name.
pub(crate) fn distinct(fields: &[FieldRef]) -> Result<()> {
    let mut names = HashSet::new();
    match fields.iter().find(|field| !names.insert(field.name())) {
        Some(twice) => plan_err!(
            "the answer would have two columns {:?}: rename that of the table, or of the queries, in a view",
            twice.name()
        ),
        None => Ok(()),
    }
}

/// Checks that the metric compares what a column has, in as far as it tells.
pub(crate) fn check_column(plan: &LogicalPlan, column: &str, of: &str, metric: Metric) -> Result<()> {
    let field = plan.schema().field_with_unqualified_name(column)?;
    check_bits(&format!("column {column:?}{of}"), holds_bits(field.data_type()), metric)
}

/// The columns of an input that a search needs: its vectors, and those of the answer that are asked for.
pub(crate) fn needed(plan: &LogicalPlan, column: &str, keeps: impl Fn(&String) -> bool) -> Vec<usize> {
    let is_needed = |name: &String| name == column || keeps(name);
    let fields = plan.schema().fields().iter().enumerate();
    fields.filter(|(_, field)| is_needed(field.name())).map(|(place, _)| place).collect()
}

impl UserDefinedLogicalNodeCore for Knn {
    fn name(&self) -> &str {
        "Knn"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        match &self.asked {
            Asked::Given(_) => vec![&self.rows],
            Asked::Table { plan, .. } => vec![&self.rows, plan],
        }
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wanted { column, k, measure, .. } = &self.wanted;
        write!(f, "Knn: column={column}, k={k}, metric={measure}, ")?;
        match &self.asked {
            Asked::Given(queries) => write!(f, "queries={}", queries.count()),
            Asked::Table { column, .. } => write!(f, "queries={column}"),
        }
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut inputs = inputs.into_iter().map(Arc::new);
        match (inputs.next(), inputs.next(), &self.asked) {
            (Some(rows), None, Asked::Given(_)) => Self::new(rows, self.asked.clone(), self.wanted.clone()),
            (Some(rows), Some(plan), Asked::Table { column, .. }) => {
                Self::new(rows, Asked::Table { plan, column: column.clone() }, self.wanted.clone())
            }
            _ => internal_err!("Knn: needed an input for rows, and one for queries of a table"),
        }
    }

    fn necessary_children_exprs(&self, _: &[usize]) -> Option<Vec<Vec<usize>>> {
        let rows = needed(&self.rows, &self.wanted.column, |name| self.wanted.kept.contains(name));
        match &self.asked {
            Asked::Given(_) => Some(vec![rows]),
            Asked::Table { plan, column } => {
                let keeps = |name: &String| self.wanted.kept_of_queries.contains(name);
                Some(vec![rows, needed(plan, column, keeps)])
            }
        }
    }
}

/// Searches have no order, which logical operators need.
impl PartialOrd for Knn {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

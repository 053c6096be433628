//! The logical operator of every row of a table against every other: `knn_graph` and `similar_pairs` become it.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{DFSchema, DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use nearfield::Metric;
use serde::{Deserialize, Serialize};

use crate::metric::{DISTANCE, by_name};
use crate::plan::node::{QUERY_PREFIX, check_column, distinct, named_fields, needed, own_fields};

/// A finite distance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Radius(pub(crate) f64);

impl Eq for Radius {}

impl Hash for Radius {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // 0.0 and -0.0 are equal.
        (self.0 + 0.0).to_bits().hash(state);
    }
}

/// Which rows belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Sought {
    /// The k nearest others of each row.
    Nearest { k: usize },
    /// The pairs of rows that are nearer than a radius.
    Within { radius: Radius },
}

/// Which of two rows columns of the answer come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Side {
    /// The row whose neighbours are found, or the earlier one of a pair.
    Row,
    Other,
}

impl Sought {
    /// The rows that columns come from, in their order, with what comes before the names of columns. The answer of a graph is that of
    /// `knn_join` of the table with itself.
    pub(crate) fn sides(self) -> [(Side, &'static str); 2] {
        match self {
            Self::Nearest { .. } => [(Side::Other, ""), (Side::Row, QUERY_PREFIX)],
            Self::Within { .. } => [(Side::Row, "a_"), (Side::Other, "b_")],
        }
    }

    /// The columns that every answer has.
    pub(crate) fn own_fields(self) -> [FieldRef; 3] {
        match self {
            Self::Nearest { .. } => own_fields(DISTANCE),
            Self::Within { .. } => [("a_index", DataType::UInt64), ("b_index", DataType::UInt64), DISTANCE]
                .map(|(name, data_type)| Arc::new(Field::new(name, data_type, false))),
        }
    }
}

impl fmt::Display for Sought {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nearest { k } => write!(f, "k={k}"),
            Self::Within { radius } => write!(f, "radius={}", radius.0),
        }
    }
}

/// What to look for among the rows of a table, in every stage of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Compared {
    /// The column of vectors.
    pub(crate) column: String,
    pub(crate) sought: Sought,
    #[serde(with = "by_name")]
    pub(crate) metric: Metric,
    /// The columns of both rows that the answer has, in the order of [`Sought::sides`].
    pub(crate) kept: [Vec<String>; 2],
}

impl Compared {
    /// The columns of the answer over a table.
    pub(crate) fn fields(&self, table: &Schema) -> Result<Vec<FieldRef>> {
        let mut fields: Vec<FieldRef> = vec![];
        for (names, (_, prefix)) in self.kept.iter().zip(self.sought.sides()) {
            fields.extend(named_fields(table, names, |name| format!("{prefix}{name}"))?);
        }
        fields.extend(self.sought.own_fields());
        distinct(&fields)?;
        Ok(fields)
    }

    /// Whether the answer has a column of the table for either row.
    pub(crate) fn keeps(&self, name: &String) -> bool {
        self.kept.iter().any(|names| names.contains(name))
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column={}, {}, metric={}", self.column, self.sought, self.metric)
    }
}

/// Every row of a table against every other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pairwise {
    pub(crate) rows: Arc<LogicalPlan>,
    pub(crate) compared: Compared,
    schema: DFSchemaRef,
}

impl Pairwise {
    /// One that answers with all columns of both rows.
    pub(crate) fn all_columns(
        rows: LogicalPlan,
        column: String,
        sought: Sought,
        metric: Metric,
    ) -> Result<Self> {
        let names: Vec<String> = rows.schema().fields().iter().map(|field| field.name().clone()).collect();
        Self::new(Arc::new(rows), Compared { column, sought, metric, kept: [names.clone(), names] })
    }

    pub(crate) fn new(rows: Arc<LogicalPlan>, compared: Compared) -> Result<Self> {
        check_column(&rows, &compared.column, "", compared.metric)?;
        let fields = compared.fields(rows.schema().as_arrow())?;
        let schema = DFSchema::from_unqualified_fields(fields.into(), Default::default())?;
        Ok(Self { rows, compared, schema: Arc::new(schema) })
    }

    /// The same with some of its columns.
    pub(crate) fn narrowed(&self, is_needed: impl Fn(&str) -> bool) -> Result<Self> {
        let mut compared = self.compared.clone();
        for (names, (_, prefix)) in compared.kept.iter_mut().zip(compared.sought.sides()) {
            names.retain(|name| is_needed(&format!("{prefix}{name}")));
        }
        Self::new(self.rows.clone(), compared)
    }
}

impl UserDefinedLogicalNodeCore for Pairwise {
    fn name(&self) -> &str {
        "Pairwise"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.rows]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pairwise: {}", self.compared)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        match <[_; 1]>::try_from(inputs) {
            Ok([rows]) => Self::new(Arc::new(rows), self.compared.clone()),
            Err(inputs) => internal_err!("Pairwise: needed one input, given {}", inputs.len()),
        }
    }

    fn necessary_children_exprs(&self, _: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![needed(&self.rows, &self.compared.column, |name| self.compared.keeps(name))])
    }
}

/// Comparisons have no order, which logical operators need.
impl PartialOrd for Pairwise {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

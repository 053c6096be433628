//! The messages of searches of saved indexes, and of tables of such.

use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::physical_plan::ExecutionPlan;
use prost::Message;

use crate::codec::parts::{QueriesMessage, number, parts, source};
use crate::exec::index::{IndexSearch, KnnIndexExec};
use crate::exec::index_scan::IndexScanExec;
use crate::exec::indexed::Indexed;
use crate::metric::named;
use crate::search::near::{Near, Probes};
use crate::tables::knn_index::{self, KnnIndexTable};

/// A search of saved indexes: the operator, whose files its input names, or the table with its files.
#[derive(Clone, PartialEq, Message)]
pub(super) struct IndexMessage {
    /// Queries of the statement; without them, those of a table.
    #[prost(message, optional, tag = "1")]
    pub(super) given: Option<QueriesMessage>,
    #[prost(uint64, tag = "2")]
    pub(super) k: u64,
    /// 0 stands for all lists.
    #[prost(uint64, optional, tag = "3")]
    pub(super) probes: Option<u64>,
    #[prost(string, repeated, tag = "4")]
    pub(super) files: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub(super) kept: Vec<String>,
    #[prost(string, repeated, tag = "6")]
    pub(super) kept_of_queries: Vec<String>,
    #[prost(bool, tag = "7")]
    pub(super) is_rooted: bool,
    /// The table that the indexes are of.
    #[prost(message, optional, tag = "8")]
    pub(super) indexed: Option<ScanMessage>,
    #[prost(string, tag = "9")]
    pub(super) query_column: String,
    #[prost(bool, tag = "10")]
    pub(super) has_places: bool,
}

/// A table of saved indexes, with its files, or the operator that reads it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ScanMessage {
    #[prost(string, repeated, tag = "1")]
    pub(super) files: Vec<String>,
    #[prost(string, tag = "2")]
    pub(super) metric: String,
    #[prost(uint64, tag = "3")]
    pub(super) dim: u64,
    #[prost(uint64, tag = "4")]
    pub(super) rows: u64,
    #[prost(uint64, repeated, tag = "5")]
    pub(super) projection: Vec<u64>,
    #[prost(message, optional, tag = "6")]
    pub(super) near: Option<NearMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NearMessage {
    #[prost(message, optional, tag = "1")]
    pub(super) query: Option<QueriesMessage>,
    #[prost(string, tag = "2")]
    pub(super) metric: String,
    #[prost(uint64, tag = "3")]
    pub(super) k: u64,
    #[prost(bool, tag = "4")]
    pub(super) is_distinct: bool,
}

impl IndexMessage {
    pub(super) fn new(index: &KnnIndexExec) -> Self {
        let (given, column, has_places) = parts(index.source());
        let IndexSearch { k, probes, kept, kept_of_queries, is_rooted, indexed } = index.wanted().clone();
        Self {
            given: given.map(QueriesMessage::new),
            k: k as u64,
            probes: probes_number(probes),
            files: vec![],
            kept,
            kept_of_queries,
            is_rooted,
            indexed: indexed.as_ref().map(ScanMessage::new),
            query_column: column.cloned().unwrap_or_default(),
            has_places,
        }
    }

    pub(super) fn of_table(table: &KnnIndexTable) -> Self {
        Self {
            given: Some(QueriesMessage::new(&table.queries)),
            k: table.k as u64,
            probes: probes_number(table.probes),
            files: table.files.clone(),
            ..Self::default()
        }
    }

    pub(super) fn wanted_probes(&self) -> Result<Probes> {
        Ok(match self.probes {
            None => Probes::Default,
            Some(0) => Probes::All,
            Some(lists) => Probes::Lists(number(lists)?),
        })
    }

    pub(super) fn operator(self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<KnnIndexExec> {
        let [paths, others @ ..] = inputs else { return internal_err!("a search has no input") };
        let (k, probes) = (number(self.k)?, self.wanted_probes()?);
        let indexed = self.indexed.as_ref().map(ScanMessage::indexed).transpose()?;
        let Self { kept, kept_of_queries, is_rooted, .. } = self;
        let source = source(self.given, others, self.query_column, self.has_places)?;
        KnnIndexExec::new(
            paths.clone(),
            source,
            IndexSearch { k, probes, kept, kept_of_queries, is_rooted, indexed },
        )
    }

    pub(super) fn table(self) -> Result<KnnIndexTable> {
        let (k, probes) = (number(self.k)?, self.wanted_probes()?);
        let queries = self.given.unwrap_or_default().queries()?;
        Ok(KnnIndexTable { files: self.files, queries, k, probes, schema: knn_index::schema() })
    }
}

pub(super) fn probes_number(probes: Probes) -> Option<u64> {
    match probes {
        Probes::Default => None,
        Probes::All => Some(0),
        Probes::Lists(lists) => Some(lists as u64),
    }
}

impl ScanMessage {
    pub(super) fn new(indexed: &Indexed) -> Self {
        Self {
            metric: indexed.metric.to_string(),
            dim: indexed.dim as u64,
            rows: indexed.rows as u64,
            ..Self::default()
        }
    }

    pub(super) fn indexed(&self) -> Result<Indexed> {
        Ok(Indexed { metric: named(&self.metric)?, dim: number(self.dim)?, rows: number(self.rows)? })
    }

    pub(super) fn operator(self, input: Arc<dyn ExecutionPlan>) -> Result<IndexScanExec> {
        let near = |near: NearMessage| -> Result<Near> {
            Ok(Near {
                query: near.query.unwrap_or_default().queries()?,
                metric: named(&near.metric)?,
                k: number(near.k)?,
                is_distinct: near.is_distinct,
            })
        };
        let projection = self.projection.iter().map(|&place| number(place)).collect::<Result<Vec<_>>>()?;
        IndexScanExec::new(input, self.indexed()?, projection, self.near.map(near).transpose()?)
    }
}

impl From<&Near> for NearMessage {
    fn from(near: &Near) -> Self {
        Self {
            query: Some(QueriesMessage::new(&near.query)),
            metric: near.metric.to_string(),
            k: near.k as u64,
            is_distinct: near.is_distinct,
        }
    }
}

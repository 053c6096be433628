//! The messages: JSON, behind a word that tells them from those of other codecs.

use std::sync::Arc;

use datafusion::common::{Result, internal_datafusion_err};
use serde::{Deserialize, Serialize};

use crate::exec::index::IndexSearch;
use crate::exec::indexed::Indexed;
use crate::plan::node::Wanted;
use crate::plan::pairwise::Compared;
use crate::search::near::Near;
use crate::search::queries::Queries;
use crate::tables::knn_index::KnnIndexTable;

const MAGIC: &[u8] = b"nearfield ";

/// An operator or a table without its inputs, as other machines get it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum Message {
    /// A search of rows. The logical operator has no files.
    Rows {
        wanted: Wanted,
        origin: Origin,
        files: Vec<String>,
    },
    Final {
        k: usize,
    },
    /// Every row against every other.
    Pairwise {
        compared: Compared,
        has_places: bool,
    },
    Places {
        files: Vec<String>,
    },
    /// A search of the saved indexes that its input names.
    Index {
        wanted: IndexSearch,
        origin: Origin,
    },
    /// A scan of the saved indexes that its input names.
    Scan {
        indexed: Indexed,
        projection: Vec<usize>,
        near: Option<Near>,
    },
    /// A table of saved indexes.
    IndexTable {
        files: Vec<String>,
        indexed: Indexed,
    },
    /// A call of `knn_index`.
    KnnIndexTable(KnnIndexTable),
}

/// Where queries come from: the statement, or the column of an input.
#[derive(Serialize, Deserialize)]
pub(super) enum Origin {
    Given(Arc<Queries>),
    Input { column: String, has_places: bool },
}

pub(super) fn encode(message: &Message, buffer: &mut Vec<u8>) -> Result<()> {
    buffer.extend_from_slice(MAGIC);
    serde_json::to_writer(buffer, message)
        .map_err(|error| internal_datafusion_err!("a search was not encoded: {error}"))
}

/// The message of a buffer, or none if another codec wrote it.
pub(super) fn decode(buffer: &[u8]) -> Option<Result<Message>> {
    let message = serde_json::from_slice(buffer.strip_prefix(MAGIC)?);
    Some(message.map_err(|error| {
        internal_datafusion_err!("a search of this or another version of nearfield was not decoded: {error}")
    }))
}

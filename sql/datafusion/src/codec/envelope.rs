//! The frame of every message. It tells our messages from those of other codecs.

use datafusion::common::{Result, internal_datafusion_err, internal_err};
use prost::Message;

use crate::codec::indexes::{IndexMessage, ScanMessage};
use crate::codec::rows::{KnnMessage, NearestMessage, PlacesMessage};

/// Comes before every message, and tells it from those of other codecs.
pub(super) const MAGIC: &[u8] = b"nearfield";
/// Follows it.
pub(super) const VERSION: u8 = 1;

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Kind {
    #[prost(message, tag = "1")]
    Knn(KnnMessage),
    #[prost(uint64, tag = "2")]
    FinalK(u64),
    #[prost(message, tag = "3")]
    Index(IndexMessage),
    #[prost(message, tag = "4")]
    Places(PlacesMessage),
    #[prost(message, tag = "5")]
    Nearest(NearestMessage),
    #[prost(message, tag = "6")]
    Scan(ScanMessage),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NodeMessage {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6")]
    pub(super) kind: Option<Kind>,
}

pub(super) fn encode(kind: Kind, buffer: &mut Vec<u8>) -> Result<()> {
    buffer.extend_from_slice(MAGIC);
    buffer.push(VERSION);
    let message = NodeMessage { kind: Some(kind) };
    message.encode(buffer).map_err(|error| internal_datafusion_err!("a search was not encoded: {error}"))
}

/// The message of a buffer, or none if another codec wrote it.
pub(super) fn decode(buffer: &[u8]) -> Option<Result<Kind>> {
    let (&version, message) = buffer.strip_prefix(MAGIC)?.split_first()?;
    if version != VERSION {
        return Some(internal_err!(
            "a search of version {version} of nearfield-datafusion's messages cannot be read here"
        ));
    }
    Some(match NodeMessage::decode(message) {
        Ok(NodeMessage { kind: Some(kind) }) => Ok(kind),
        Ok(_) => internal_err!("a search of a later version of nearfield-datafusion cannot be read"),
        Err(error) => internal_err!("a search was not decoded: {error}"),
    })
}

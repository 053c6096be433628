//! How the rows of an index lie on several devices.

use std::fmt;

use crate::error::{Error, Result};

/// How the rows of an index lie on several devices. An index on one device has no use for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Placement {
    /// Each row lies on one device. Every query is searched on all of them, and the answers are merged: for more rows than fit one device,
    /// and for single queries.
    #[default]
    Shards,
    /// Every device has all rows, and queries are divided among them: for many queries. Where a device is lost, the others go on.
    Replicas,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Shards => "shards",
            Self::Replicas => "replicas",
        })
    }
}

impl std::str::FromStr for Placement {
    type Err = Error;

    /// Reads `shards` or `replicas`.
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "shards" => Ok(Self::Shards),
            "replicas" => Ok(Self::Replicas),
            _ => Err(Error::argument("placement", "shards or replicas", text)),
        }
    }
}

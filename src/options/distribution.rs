//! How the rows of an index lie on several devices.

use std::fmt;

use crate::error::{Error, Result};

/// How the rows of an index lie on several devices. An index on one device has no use for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Distribution {
    /// Each row lies on one device. Every query is searched on all of them, and the answers are merged: for more rows than fit one device,
    /// and for single queries.
    #[default]
    Sharded,
    /// Every device has all rows, and queries are divided among them: for many queries. Where a device is lost, the others go on.
    Replicated,
}

impl Distribution {
    /// The word for the parts of an index on several devices.
    pub(crate) fn parts(self) -> &'static str {
        match self {
            Self::Sharded => "shards",
            Self::Replicated => "replicas",
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sharded => "sharded",
            Self::Replicated => "replicated",
        })
    }
}

impl std::str::FromStr for Distribution {
    type Err = Error;

    /// Reads `sharded` or `replicated`.
    fn from_str(text: &str) -> Result<Self> {
        match text {
            "sharded" => Ok(Self::Sharded),
            "replicated" => Ok(Self::Replicated),
            _ => Err(Error::argument("distribution", "sharded or replicated", text)),
        }
    }
}

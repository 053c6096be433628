//! How much memory an index takes.

use std::fmt;

/// Where memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MemoryPlace {
    /// On the device of the index.
    #[default]
    Device,
    /// In the host's memory: all of an index on the host engine, and the tables and copies of one on a GPU.
    Host,
    /// In a file that is mapped ([`RowPlace::Mapped`](crate::RowPlace::Mapped)). The system holds as much of it in memory as there is room.
    File,
}

impl MemoryPlace {
    /// Where it is, in a sentence.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Device => "on the device",
            Self::Host => "in the host's memory",
            Self::File => "in a file",
        }
    }
}

impl fmt::Display for MemoryPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Device => "device",
            Self::Host => "host",
            Self::File => "file",
        })
    }
}

/// The memory of one part of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryPart {
    /// What it holds: `rows`, `norms`, `ids`, `integers` (the 8-bit copy of the rows), `tombstones` (which slots have a row), `centroids`,
    /// `lists`, `host copy`.
    pub name: &'static str,
    /// Where it is.
    pub place: MemoryPlace,
    /// Bytes taken, with room for rows to come.
    pub bytes: u64,
}

/// The memory that an index takes, by part and place; without the scratch memory of searches. See
/// [`Index::memory`](crate::Index::memory).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    parts: Vec<MemoryPart>,
}

impl Memory {
    /// The parts, each name once a place, none empty.
    pub fn parts(&self) -> &[MemoryPart] {
        &self.parts
    }

    /// Bytes at a place.
    pub fn at(&self, place: MemoryPlace) -> u64 {
        self.parts.iter().filter(|part| part.place == place).map(|part| part.bytes).sum()
    }

    /// Bytes in all, without those in files.
    pub fn total(&self) -> u64 {
        self.at(MemoryPlace::Device) + self.at(MemoryPlace::Host)
    }

    pub(crate) fn add(&mut self, name: &'static str, place: MemoryPlace, bytes: u64) {
        if bytes == 0 {
            return;
        }
        match self.parts.iter_mut().find(|part| (part.name, part.place) == (name, place)) {
            Some(part) => part.bytes += bytes,
            None => self.parts.push(MemoryPart { name, place, bytes }),
        }
    }

    /// Adds the memory of a vector on the host, with the room in it.
    pub(crate) fn add_vec<T>(&mut self, name: &'static str, values: &Vec<T>) {
        self.add(name, MemoryPlace::Host, (values.capacity() * size_of::<T>()) as u64);
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, part) in self.parts.iter().enumerate() {
            let place = part.place;
            let comma = if number > 0 { ", " } else { "" };
            // As the same number with `{:.1}`, which takes 2 KB of the WebAssembly.
            let tenths = (part.bytes as f64 / f64::from(1 << 20) * 10.0).round_ties_even() as u64;
            write!(f, "{comma}{} {}.{} MiB ({place})", part.name, tenths / 10, tenths % 10)?;
        }
        Ok(())
    }
}

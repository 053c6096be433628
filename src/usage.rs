//! How much memory an index takes.

use std::fmt;

use crate::options::residency::Residency;

/// The memory of one part of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryPart {
    /// What it holds: `rows`, `norms`, `ids`, `integers` (the 8-bit copy of the rows, or only its terms where rows are their own copy), `tombstones`
    /// (which slots have a row), `centroids`, `lists`, `host copy`.
    pub name: &'static str,
    /// Where it is: `Device`, `Host` or `Mapped`.
    pub residency: Residency,
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

    /// Bytes on the device, in the host's memory, or in a mapped file.
    pub fn at(&self, residency: Residency) -> u64 {
        self.parts.iter().filter(|part| part.residency == residency).map(|part| part.bytes).sum()
    }

    /// Bytes in all, without those in files.
    pub fn total(&self) -> u64 {
        self.at(Residency::Device) + self.at(Residency::Host)
    }

    pub(crate) fn add(&mut self, name: &'static str, residency: Residency, bytes: u64) {
        if bytes == 0 {
            return;
        }
        match self.parts.iter_mut().find(|part| (part.name, part.residency) == (name, residency)) {
            Some(part) => part.bytes += bytes,
            None => self.parts.push(MemoryPart { name, residency, bytes }),
        }
    }

    /// Adds the memory of a vector on the host, with the room in it.
    pub(crate) fn add_vec<T>(&mut self, name: &'static str, values: &Vec<T>) {
        self.add(name, Residency::Host, (values.capacity() * size_of::<T>()) as u64);
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, part) in self.parts.iter().enumerate() {
            let residency = part.residency;
            let comma = if number > 0 { ", " } else { "" };
            // As the same number with `{:.1}`, which takes 2 KB of the WebAssembly.
            let tenths = (part.bytes as f64 / f64::from(1 << 20) * 10.0).round_ties_even() as u64;
            write!(f, "{comma}{} {}.{} MiB ({residency})", part.name, tenths / 10, tenths % 10)?;
        }
        Ok(())
    }
}

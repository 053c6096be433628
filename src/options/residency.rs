//! Where an index keeps its rows.

use std::fmt;

use crate::error::{Error, Result};

/// Where an index keeps its rows ([`FlatBuilder::residency`](crate::FlatBuilder::residency)), and where rows and other parts of an index
/// are ([`Index::residency`](crate::Index::residency), [`MemoryPart`](crate::MemoryPart)): `Device`, `Host` or `Mapped`, streamed or not.
///
/// Wherever they are, a search finds the same rows and orders them the same way. Distances of rows on the host are those of
/// [`Device::host`](crate::Device::host), bit for bit: computed in f64 and rounded once.
///
/// ```no_run
/// use nearfield::{Device, Flat, Metric, Residency};
/// let device = Device::best()?;
/// let index = Flat::builder(&device, Metric::Cosine, 768).residency(Residency::Host).build()?;
/// let mapped = Flat::builder(&device, Metric::Cosine, 768).mapped("base.npy").build()?; // has the rows of the file
/// println!("{} rows: {}", index.len(), index.memory());
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Residency {
    /// On the device as long as there is room for them, then in the host's memory. An index starts as with [`Residency::Device`]. Where a
    /// change needs more memory than the device has, or than [`DeviceOptions::memory_bytes`](crate::DeviceOptions::memory_bytes) lets
    /// indexes hold, its rows go to the host before the change is made, and the index is from then on as with [`Residency::Host`]: the
    /// 8-bit copy stays on the device. When that has no room either, a [`Flat`](crate::Flat) is searched as with [`Residency::Streamed`]. Where more rows are expected than there is room for (a builder's `capacity`, or an index that is
    /// loaded), they are on the host from the start. Rows never go back; save and load the index for that.
    ///
    /// **Reported distances change in the last bits** when rows go to the host, and rows at nearly the same distance may change places.
    /// `residency` of an index, [`Plan::rows`](crate::Plan::rows) and [`Statistics::rows`](crate::Statistics::rows) tell where rows are. All
    /// devices of an index change together, as soon as one of them has too little memory.
    ///
    /// An error leaves the index as it was. The one exception: where the driver, and not `memory_bytes`, refuses memory for the 8-bit copy
    /// even when the rows are gone, they stay on the host. Rows stay on the device, and too little memory is an error, if there is no 8-bit
    /// copy by the index's [`Quantization`](crate::Quantization) and dim. The copy is never given up to save memory, as it may be with
    /// [`Residency::Device`].
    Auto,
    /// On the device, beside their 8-bit copy. Too little memory is an error.
    #[default]
    Device,
    /// In the host's memory. A GPU has the 8-bit copy alone, which takes about a quarter of the memory of f32 rows, and reads back which
    /// rows its screen cannot exclude; the host computes their distances. Replicas have their rows in the host's memory each.
    Host,
    /// In the host's memory, and nothing of them on the device but room for some at a time: for an index whose 8-bit copy does not fit
    /// the device either. A search sends the 8-bit copy window by window; the device searches one window while the next is on its way, and
    /// what it found tells which rows of the next it may leave out. Answers are those of [`Residency::Host`], bit for bit.
    ///
    /// Every search sends all rows that it may find. That takes long for one query, and little for each of 10,000. The first search after
    /// a change quantises the rows. What it quantised stays in the host's memory, a quarter of the rows, where that has room for twice as much
    /// as a window takes; otherwise searches quantise again. The
    /// windows are two, of up to 512 MiB each; they take what [`DeviceOptions::memory_bytes`](crate::DeviceOptions::memory_bytes) leaves,
    /// and no more than the rows need. Less than a block of 128 rows is [`Error::MemoryLimit`](crate::Error::MemoryLimit). Searches of an
    /// index wait for one another's windows. [`Plan::windows`](crate::Plan::windows) and
    /// [`Statistics::windows`](crate::Statistics::windows) count windows; progress
    /// counts the part of the windows that are done as that part of the queries.
    ///
    /// [`Residency::Auto`] and [`Residency::Mapped`] come here by themselves when the device has no memory for the 8-bit copy. An
    /// [`Ivf`](crate::Ivf) cannot: its lists need the copy, and this place is an error.
    Streamed,
    /// In a file, which is mapped into the address space ([`FlatBuilder::mapped`](crate::FlatBuilder::mapped)): the system reads what is used, and drops what it needs the memory for. The
    /// index has all rows of the file from the start, and searches them as those of [`Residency::Host`]. Building it reads the file
    /// through once, to check and to quantise the rows (an [`Ivf`](crate::Ivf) twice), whatever the number of devices, and takes some MiB of the
    /// host's memory and about 40 bytes a row.
    ///
    /// **Files.** npy (2-d, C order, little-endian f32, f16, i8 or u8), `.fbin`, `.f16bin`, `.bf16bin`, `.i8bin` and `.u8bin`, and saved indexes of the same metric, `Flat` or `Ivf`, whose rows keep
    /// their ids and whose checksum is verified. Other rows are numbered. The index stores the file's element type. Elements that do not
    /// lie at a multiple of their size in the file are copied, a row at a time, whenever they are read; files that numpy and this library
    /// write are aligned.
    ///
    /// **Changes.** The file is not written to: rows can be removed, but `add`, `update`, `merge` and `compact` are
    /// [`Error::Unsupported`](crate::Error::Unsupported). Save the index and load it to have the rows in memory.
    ///
    /// **The file must stay as it is** while the index lives. Its length and its time of modification are compared before each call that reads rows, and
    /// a difference is [`Error::File`](crate::Error::File). What changes during a call, or without a trace in either, is not seen: bytes that another program writes meanwhile give
    /// wrong distances, and where the file is cut short meanwhile, or the disk fails, the system ends the process (SIGBUS on Unix). A new file under the same name
    /// does no harm on Unix, because the mapped one lives on.
    Mapped,
}

impl Residency {
    /// Where it is, in a sentence.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Auto | Self::Device => "on the device",
            Self::Host | Self::Streamed => "in the host's memory",
            Self::Mapped => "in a file",
        }
    }
}

impl fmt::Display for Residency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Auto => "auto",
            Self::Device => "device",
            Self::Host => "host",
            Self::Streamed => "streamed",
            Self::Mapped => "mapped",
        })
    }
}

impl std::str::FromStr for Residency {
    type Err = Error;

    /// Reads the word that [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Self> {
        let all = [Self::Auto, Self::Device, Self::Host, Self::Streamed, Self::Mapped];
        all.into_iter()
            .find(|one| one.to_string() == text)
            .ok_or_else(|| Error::argument("residency", "auto, device, host, streamed or mapped", text))
    }
}

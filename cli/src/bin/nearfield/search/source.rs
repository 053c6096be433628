//! The rows to search: those of a file, or of a saved index.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nearfield::{Device, Distribution, ElementKind, Flat, FlatBuilder, Index, Residency, SavedIndex};

use super::args::Args;
use super::labels::Labels;
use nearfield_cli::given::files::{self, Filled};
use nearfield_cli::given::places::Places;
use nearfield_cli::given::vectors::Vectors;
use nearfield_cli::terminal::interrupt;

/// Where the rows come from.
pub(super) struct Source<'a> {
    pub(super) argument: &'static str,
    pub(super) path: &'a Path,
    pub(super) dim: usize,
    pub(super) kind: ElementKind,
    /// None for a saved index.
    pub(super) rows: Option<Vectors>,
    /// The ids of these rows, if they are not their numbers.
    row_ids: Option<Vec<u64>>,
}

impl<'a> Source<'a> {
    pub(super) fn open(args: &'a Args) -> Result<Self> {
        if let Some(path) = &args.index_file {
            let about = SavedIndex::read(path)
                .map_err(|error| files::no_index(error, path))
                .context("--index-file")?;
            let of_lists = [("--probes", args.probes.is_some()), ("--recall", args.recall.is_some())];
            if let (None, Some((argument, _))) = (about.lists, of_lists.iter().find(|(_, given)| *given)) {
                bail!("{argument}: needed an ivf index, {} is flat", path.display());
            }
            if let (Some(probes), Some(lists)) = (args.probes, about.lists) {
                ensure!(
                    probes <= lists,
                    "--probes: needed 1 to {lists}, the number of lists, given {probes}"
                );
            }
            return Ok(Self {
                argument: "--index-file",
                path,
                dim: about.dim,
                kind: about.elements,
                rows: None,
                row_ids: None,
            });
        }
        let path = args.rows.as_ref().context("--rows: needed a file, or --index-file, given neither")?;
        files::check_bits(args.metric, args.bits)?;
        let rows = files::open_as(path, "--rows", Some(args.bits))?;
        let row_ids = args.row_ids.as_deref().map(|ids| files::row_ids(ids, rows.rows())).transpose()?;
        Ok(Self { argument: "--rows", path, dim: rows.dim(), kind: rows.kind(), rows: Some(rows), row_ids })
    }

    /// The rows in words.
    pub(super) fn describe(&self, index: &Index) -> String {
        match &self.rows {
            Some(rows) => files::describe(rows),
            None => {
                let (rows, dim, kind) = (index.len(), index.dim(), index.elements());
                format!("{rows} x {dim} {kind}, {}", self.path.display())
            }
        }
    }

    /// The names in a file, one for each row.
    pub(super) fn labels(&self, path: &Path) -> Result<Labels> {
        Labels::open(path, self.rows.as_ref().map(|rows| rows.rows()), self.row_ids.as_deref())
    }

    /// Whether rows are searched in their file: neither the device nor the host has memory for them, and the file is of a kind that can be
    /// mapped.
    fn stays_in_its_file(&self, rows: &Vectors, devices: &[Device], distribution: Distribution) -> bool {
        let bytes = (rows.rows() as u64).saturating_mul((rows.dim() * rows.kind().size()) as u64);
        // Of each device, and of the host.
        let share = match distribution {
            Distribution::Sharded => bytes.div_ceil(devices.len().max(1) as u64),
            _ => bytes,
        };
        let has_room =
            |device: &Device, bytes| device.memory_usage().is_none_or(|usage| usage.free_bytes >= bytes);
        let are_roomy = devices.iter().all(|device| has_room(device, share));
        let ending = rows.stored().extension().and_then(|ending| ending.to_str()).map(str::to_lowercase);
        let is_mappable =
            matches!(ending.as_deref(), Some("npy" | "fbin" | "f16bin" | "bf16bin" | "i8bin" | "u8bin"));
        let is_as_stored = self.row_ids.is_none() && rows.converted().is_none();
        is_mappable && is_as_stored && !are_roomy && !has_room(&Device::host(), bytes)
    }

    /// Brings the index to its devices, and returns the time it took.
    pub(super) fn index(&self, args: &Args, devices: &[Device]) -> Result<(Index, Filled)> {
        let Places { distribution, residency, .. } = args.places;
        if let Some(rows) = &self.rows {
            let builder = Flat::builder(devices, args.metric, rows.dim()).elements(rows.kind());
            let builder = builder.distribution(distribution).quantization(args.quantization);
            let mut why = "--residency mapped: --rows";
            let mut file = args.places.mapped(Some(rows.stored()))?;
            if residency == Residency::Auto && self.stays_in_its_file(rows, devices, distribution) {
                why = "--rows: the file is larger than the memory, so it is mapped";
                interrupt::name_unreadable(rows.stored())?;
                file = Some(rows.stored());
            }
            if let Some(file) = file {
                let given = self.row_ids.is_some();
                ensure!(
                    !given,
                    "--residency mapped: needed rows that have their numbers as ids, given --row-ids"
                );
                return mapped(builder.mapped(file)).context(why);
            }
            let mut index = builder.residency(residency).capacity(rows.rows()).build()?.into();
            let filled = files::fill(&mut index, rows, self.row_ids.as_deref())?;
            return Ok((index, filled));
        }
        let start = Instant::now();
        if let Some(file) = args.places.mapped(Some(self.path))? {
            let about = SavedIndex::read(self.path).context("--index-file")?;
            ensure!(
                about.lists.is_none(),
                "--residency mapped: needed a flat index, {} has lists",
                self.path.display()
            );
            let builder =
                Flat::builder(devices, about.metric, about.dim).quantization(about.quantization).mapped(file);
            return mapped(builder.distribution(distribution)).context("--residency mapped: --index-file");
        }
        let loader = Index::loader(devices).distribution(distribution).residency(residency);
        let index = loader.load(self.path).context("--index-file")?;
        Ok((index, Filled { load: start.elapsed(), upload: Duration::ZERO }))
    }
}

/// An index of rows that stay in their file, and the time it took to read them through.
fn mapped(builder: FlatBuilder) -> Result<(Index, Filled)> {
    let start = Instant::now();
    let index = builder.build()?.into();
    Ok((index, Filled { load: start.elapsed(), upload: Duration::ZERO }))
}

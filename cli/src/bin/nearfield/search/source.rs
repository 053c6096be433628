//! The rows to search: those of a file, or of a saved index.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nearfield::{
    Device, Distribution, ElementKind, Flat, FlatBuilder, Index, MultiVector, Residency, SavedIndex,
};

use super::args::Args;
use super::labels::Labels;
use nearfield_cli::given::documents;
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
    /// How many documents of several token vectors there are; none for rows that are compared one by one.
    pub(super) documents: Option<usize>,
    /// None for a saved index.
    pub(super) rows: Option<Vectors>,
    /// Where the tokens of each document of these rows begin.
    offsets: Vec<usize>,
    /// The ids of these rows or documents, if they are not their numbers.
    row_ids: Option<Vec<u64>>,
}

impl<'a> Source<'a> {
    pub(super) fn open(args: &'a Args) -> Result<Self> {
        if let Some(path) = &args.index_file {
            let about = SavedIndex::read(path)
                .map_err(|error| files::no_index(error, path))
                .context("--index-file")?;
            let of_rows = [
                ("--radius", args.radius.is_some()),
                ("--recall", args.recall.is_some()),
                ("--truth", args.truth.is_some()),
            ];
            if let (Some(_), Some((argument, _))) =
                (about.documents, of_rows.iter().find(|(_, given)| *given))
            {
                bail!("{argument}: needed an index of rows, {} has documents", path.display());
            }
            let of_lists = [("--probes", args.probes.is_some()), ("--recall", args.recall.is_some())];
            if let (None, Some((argument, _))) = (about.lists, of_lists.iter().find(|(_, given)| *given)) {
                match about.documents {
                    None => bail!("{argument}: needed an ivf index, {} is flat", path.display()),
                    Some(_) => bail!(
                        "{argument}: needed lists of tokens, which `nearfield build --lists` makes, {} has none",
                        path.display()
                    ),
                }
            }
            if let (Some(probes), Some(lists)) = (args.probes, about.lists) {
                ensure!(
                    probes <= lists,
                    "--probes: needed 1 to {lists}, the number of lists, given {probes}"
                );
            }
            let source = Self {
                argument: "--index-file",
                path,
                dim: about.dim,
                kind: about.elements,
                documents: about.documents,
                rows: None,
                offsets: vec![],
                row_ids: None,
            };
            return source.checked(args);
        }
        let path = args.rows.as_ref().context("--rows: needed a file, or --index-file, given neither")?;
        files::check_bits(args.metric, args.bits)?;
        let rows = files::open_as(path, "--rows", Some(args.bits))?;
        let offsets = args.tokens.as_deref();
        let offsets = offsets
            .map(|path| documents::offsets(path, ("--tokens", "document"), rows.rows()))
            .transpose()?;
        let documents = offsets.as_ref().map(|offsets| offsets.len() - 1);
        let (count, one) = documents.map_or((rows.rows(), "row"), |documents| (documents, "document"));
        let row_ids = args.row_ids.as_deref().map(|ids| files::row_ids(ids, count, one)).transpose()?;
        let source = Self {
            argument: "--rows",
            path,
            dim: rows.dim(),
            kind: rows.kind(),
            documents,
            rows: Some(rows),
            offsets: offsets.unwrap_or_default(),
            row_ids,
        };
        source.checked(args)
    }

    /// Refuses arguments that rows, or documents, have no use for.
    fn checked(self, args: &Args) -> Result<Self> {
        if self.documents.is_none() && args.query_tokens.is_some() {
            let path = self.path.display();
            bail!("--query-tokens: needed documents, by --tokens or in --index-file, {path} has rows");
        }
        Ok(self)
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
        let rows = self.rows.as_ref();
        let count = rows.map(|rows| self.documents.map_or((rows.rows(), "row"), |count| (count, "document")));
        Labels::open(path, count, self.row_ids.as_deref())
    }

    /// Refuses names that a saved index has more ids than, now that the largest is known.
    pub(super) fn check_labels(&self, labels: Option<&Labels>, largest: Option<u64>) -> Result<()> {
        match (labels, largest, &self.rows) {
            (Some(labels), Some(largest), None) => labels.check_until(largest),
            _ => Ok(()),
        }
    }

    /// Brings documents to their devices, and returns the time it took.
    pub(super) fn documents(&self, places: &Places, devices: &[Device]) -> Result<(MultiVector, Filled)> {
        if let Some(tokens) = &self.rows {
            let of = (tokens, self.offsets.as_slice());
            return documents::index((places, devices), of, self.row_ids.as_deref(), tokens.kind());
        }
        if let Some(file) = places.mapped(Some(self.path))? {
            let builder = MultiVector::builder(devices, self.dim).distribution(places.distribution);
            return documents::mapped(builder.mapped(file)).context("--residency mapped: --index-file");
        }
        let start = Instant::now();
        let loader =
            MultiVector::loader(devices).distribution(places.distribution).residency(places.residency);
        let index = loader.load(self.path).context("--index-file")?;
        Ok((index, Filled { load: start.elapsed(), upload: Duration::ZERO }))
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

//! Filters of a search: nested sets of rows, the same for us and for other libraries.

use anyhow::{Result, ensure};
use nearfield::Filter;

use crate::data::View;
use nearfield_cli::given::arguments;
use nearfield_testing::Random;

const SEED: u64 = 0xf117;

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Allowed {
    /// Parts of the rows that a filter allows, from 0 to 1, one case each; without it there is no filter
    #[arg(long = "allowed", value_delimiter = ',', value_name = "PART,…", value_parser = arguments::part)]
    pub(super) parts: Vec<f64>,
    /// The allowed rows are neighbours instead of any
    #[arg(long, requires = "parts")]
    pub(super) contiguous: bool,
}

/// The rows that a filter allows.
pub(super) struct Mask {
    pub(super) part: f64,
    words: Vec<u64>,
}

impl Allowed {
    /// A number from 0 to 1 for each row. A filter allows the rows whose number is below its part.
    pub(super) fn draws(&self, rows: usize) -> Vec<f32> {
        let mut random = Random::new(SEED);
        let draw = |row| if self.contiguous { row as f32 / rows as f32 } else { random.part() };
        (0..rows).map(draw).collect()
    }

    /// The filters for this many rows, or none.
    pub(super) fn masks(&self, rows: usize) -> Result<Vec<Option<Mask>>> {
        if self.parts.is_empty() {
            return Ok(vec![None]);
        }
        let draws = self.draws(rows);
        let mask = |&part: &f64| {
            let word = |draws: &[f32]| {
                let bits =
                    draws.iter().enumerate().map(|(bit, &draw)| u64::from(f64::from(draw) < part) << bit);
                bits.sum()
            };
            let mask = Mask { part, words: draws.chunks(64).map(word).collect() };
            ensure!(mask.count() > 0, "--allowed: needed at least one of {rows} rows, {part} allows none");
            Ok(Some(mask))
        };
        self.parts.iter().map(mask).collect()
    }
}

impl Mask {
    pub(super) fn filter(&self) -> Filter<'_> {
        Filter::bits(&self.words)
    }

    pub(super) fn allows(&self, row: usize) -> bool {
        self.words[row / 64] >> (row % 64) & 1 == 1
    }

    pub(super) fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }
}

/// How many rows of a view a search can find.
pub(super) fn found(mask: Option<&Mask>, rows: View<'_>) -> usize {
    mask.map_or(rows.rows(), Mask::count)
}

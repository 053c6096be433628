//! Selects the queries of a batch and copies them to the GPU.

use crate::elements::ElementKind;
use crate::engine::device::vectors::Vectors;
use crate::error::Result;
use crate::gpu::{Buffer, Commands, RowLayout};
use crate::kernels::norms;

/// Numbers of queries within a call.
#[derive(Debug, Clone)]
pub(crate) enum QueryNumbers {
    Range(std::ops::Range<usize>),
    List(Vec<usize>),
}

impl QueryNumbers {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::List(list) => list.len(),
        }
    }

    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = usize> + '_> {
        match self {
            Self::Range(range) => Box::new(range.clone()),
            Self::List(list) => Box::new(list.iter().copied()),
        }
    }

    /// The same in batches of up to `most`.
    pub(crate) fn batches(&self, most: usize) -> Vec<Self> {
        match self {
            Self::Range(range) => {
                let starts = range.clone().step_by(most.max(1));
                starts.map(|start| Self::Range(start..range.end.min(start + most))).collect()
            }
            Self::List(list) => list.chunks(most.max(1)).map(|part| Self::List(part.to_vec())).collect(),
        }
    }

    /// Runs of neighbouring queries, as (place in the batch, numbers within the call).
    fn runs(&self) -> Vec<(usize, std::ops::Range<usize>)> {
        match self {
            Self::Range(range) => vec![(0, range.clone())],
            Self::List(list) => list.iter().map(|&number| number..number + 1).enumerate().collect(),
        }
    }

    /// The error for queries that the GPU refused, with their numbers within the call.
    pub(crate) fn check(&self, refused: &[u8]) -> Result<()> {
        let number = |place: u64| self.iter().nth(place as usize).map_or(place, |number| number as u64);
        norms::check("queries", refused).map_err(|error| error.with_rows(number))
    }
}

impl Vectors<'_> {
    /// Copies some vectors to a buffer, from row `first` of it on, as f32, before the commands that follow.
    pub(crate) async fn copy_to(
        &self,
        commands: &mut Commands<'_>,
        numbers: &QueryNumbers,
        (buffer, first): (&Buffer, usize),
    ) -> Result<()> {
        let layout = RowLayout::padded(ElementKind::F32, self.dim());
        let row_bytes = layout.row_bytes();
        let place_of = |place: usize| (first + place) as u64 * row_bytes;
        match (self, numbers) {
            (Self::Host(vectors), QueryNumbers::Range(range)) => {
                commands.upload_rows((buffer, place_of(0)), layout, vectors.slice(range.clone())).await?;
            }
            (Self::Host(vectors), QueryNumbers::List(_)) => {
                let gpu = commands.gpu();
                for (place, run) in numbers.runs() {
                    gpu.upload_rows(buffer, place_of(place), layout, vectors.slice(run), &mut |_| ()).await?;
                }
            }
            (Self::Device(matrix), _) => {
                for (place, run) in numbers.runs() {
                    let from = (matrix.buffer()?, run.start as u64 * row_bytes);
                    commands.copy(from, (buffer, place_of(place)), run.len() as u64 * row_bytes);
                }
            }
        }
        Ok(())
    }
}

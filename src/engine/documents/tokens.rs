//! Vectors of tokens, in groups: one group for each document, or for each query.

use std::borrow::Cow;
use std::ops::Range;

use crate::elements::{HostVectors, Matrix};
use crate::engine::device::vectors::{OnHost, Vectors};
use crate::error::{Error, Result};
use crate::memory;

/// The token vectors of documents, or of queries: `[tokens, dim]`, those of one document after those of another. Each has one or more.
///
/// ```
/// use nearfield::TokenVectors;
/// // Two documents, of two tokens and of one.
/// let tokens = [[1.0f32, 0.0], [0.0, 1.0], [0.6, 0.8]];
/// let documents = TokenVectors::new(&tokens, &[0, 2, 3])?;
/// assert_eq!((documents.len(), documents.tokens()), (2, 3));
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct TokenVectors<'a> {
    vectors: Source<'a>,
    /// `[documents + 1]`.
    offsets: Cow<'a, [usize]>,
}

#[derive(Debug, Clone)]
enum Source<'a> {
    Given(Vectors<'a>),
    Copied(Matrix),
}

/// One document, or none where there is no vector.
impl<'a, V: Into<Vectors<'a>>> From<V> for TokenVectors<'a> {
    fn from(vectors: V) -> Self {
        let vectors = vectors.into();
        let offsets = if vectors.rows() == 0 { vec![0] } else { vec![0, vectors.rows()] };
        Self { offsets: offsets.into(), vectors: Source::Given(vectors) }
    }
}

impl<'a> TokenVectors<'a> {
    /// The tokens of all documents, `[tokens, dim]`, and where those of each begin: document `d` has the tokens
    /// `offsets[d]..offsets[d + 1]`.
    ///
    /// # Errors
    /// [`Error::Argument`] for offsets that do not ascend from 0 to the number of tokens, or that leave a document without a token.
    pub fn new(tokens: impl Into<Vectors<'a>>, offsets: &'a [usize]) -> Result<Self> {
        let vectors = tokens.into();
        let rows = vectors.rows();
        check_offsets(offsets, rows)?;
        Ok(Self { vectors: Source::Given(vectors), offsets: offsets.into() })
    }

    /// Documents that lie apart, a matrix `[tokens, dim]` each, which are copied.
    ///
    /// # Errors
    /// [`Error::Argument`] for no documents, one without a token, or documents of different dims or types; [`Error::OutOfMemory`].
    ///
    /// ```
    /// use nearfield::{MatrixView, TokenVectors};
    /// let (one, other) = ([0.0f32, 1.0, 1.0, 0.0], [0.6f32, 0.8]);
    /// let documents = TokenVectors::of_matrices([MatrixView::new(&one, 2)?, MatrixView::new(&other, 2)?])?;
    /// assert_eq!((documents.len(), documents.tokens()), (2, 3));
    /// # Ok::<(), nearfield::Error>(())
    /// ```
    pub fn of_matrices<V: Into<HostVectors<'a>>>(documents: impl IntoIterator<Item = V>) -> Result<Self> {
        let documents: Vec<HostVectors<'a>> = documents.into_iter().map(Into::into).collect();
        let Some(first) = documents.first() else {
            return Err(Error::argument("documents", "at least one", "none"));
        };
        let other = documents.iter().position(|one| (one.dim(), one.kind()) != (first.dim(), first.kind()));
        if let Some(number) = other {
            let of = |one: &HostVectors<'_>| format!("{} tokens of dim {}", one.kind(), one.dim());
            let needed = format!("{}, as the first has", of(first));
            return Err(Error::argument(
                "documents",
                needed,
                format!("{} in document {number}", of(&documents[number])),
            ));
        }
        let mut offsets = memory::with_room(documents.len() + 1)?;
        offsets.push(0);
        let mut all = 0;
        offsets.extend(documents.iter().map(|one| {
            all += one.rows();
            all
        }));
        check(&offsets)?;
        let mut copied = Matrix::with_room(first.kind(), all, first.dim())?;
        documents.iter().try_for_each(|one| copied.extend(*one))?;
        Ok(Self { vectors: Source::Copied(copied), offsets: offsets.into() })
    }

    /// How many documents, or queries.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many tokens they have together.
    pub fn tokens(&self) -> usize {
        self.offsets[self.len()]
    }

    /// Where the tokens of each begin, and the end of the last.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// All tokens.
    pub fn vectors(&self) -> Vectors<'_> {
        match &self.vectors {
            Source::Given(vectors) => *vectors,
            Source::Copied(matrix) => matrix.into(),
        }
    }

    /// Queries from number `first` on that have no more than this many tokens together: at least one.
    pub(crate) fn batch(&self, first: usize, tokens: usize) -> Range<usize> {
        let fits = |&end: &usize| self.offsets[end] - self.offsets[first] <= tokens;
        let more = (first + 2..=self.len()).take_while(fits).count();
        first..first + 1 + more
    }

    /// The same in the host's memory.
    pub(crate) async fn fetched(&self) -> Result<TokenVectors<'_>> {
        let vectors = match self.vectors().fetched().await? {
            OnHost::Borrowed(vectors) => Source::Given(vectors.into()),
            OnHost::Owned(matrix) => Source::Copied(matrix),
        };
        Ok(TokenVectors { vectors, offsets: Cow::Borrowed(&self.offsets) })
    }

    /// Some of the documents, which are in the host's memory.
    pub(crate) fn slice(&self, range: Range<usize>) -> Result<TokenVectors<'_>> {
        let offsets = &self.offsets[range.start..=range.end];
        let (start, end) = (offsets[0], offsets[offsets.len() - 1]);
        let vectors = Source::Given(self.vectors().on_host()?.slice(start..end).into());
        let offsets = memory::collect(offsets.iter().map(|offset| offset - start))?;
        Ok(TokenVectors { vectors, offsets: offsets.into() })
    }
}

/// The first slots of documents with these numbers of tokens that lie side by side, from slot `start` on.
pub(crate) fn side_by_side(start: u32, lengths: &[usize]) -> Result<Vec<u32>> {
    let tokens: u64 = lengths.iter().map(|&length| length as u64).sum();
    Error::check_slots(u64::from(start) + tokens)?;
    let mut next = start;
    memory::collect(lengths.iter().map(|&length| {
        next += length as u32;
        next - length as u32
    }))
}

/// An error for offsets that do not ascend from 0 to this number of tokens, or that leave a document without one.
pub(crate) fn check_offsets(offsets: &[usize], rows: usize) -> Result<()> {
    if offsets.first() != Some(&0) || offsets.last() != Some(&rows) {
        let needed = format!("numbers that ascend from 0 to {rows}, the number of tokens");
        let ends = [offsets.first(), offsets.last()].map(|end| end.map_or("none".into(), usize::to_string));
        return Err(Error::argument("offsets", needed, format!("{} to {}", ends[0], ends[1])));
    }
    check(offsets)
}

fn check(offsets: &[usize]) -> Result<()> {
    match offsets.windows(2).position(|ends| ends[1] <= ends[0]) {
        None => Ok(()),
        Some(number) if offsets[number + 1] < offsets[number] => {
            let given = format!("{} behind {}", offsets[number + 1], offsets[number]);
            Err(Error::argument("offsets", "numbers that ascend", given))
        }
        Some(number) => {
            Err(Error::argument("documents", "at least one token each", format!("none in document {number}")))
        }
    }
}

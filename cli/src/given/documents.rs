//! Documents, and queries, of several token vectors each: a file of all tokens, and one of where those of each begin.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use nearfield::io::read_row_ids;
use nearfield::{AddOptions, Device, ElementKind, MultiVector, MultiVectorBuilder, TokenVectors};

use super::files::{Filled, PIECE_BYTES, blame, stored};
use super::places::Places;
use super::vectors::Vectors;
use crate::terminal::progress::bar;

/// Reads the file of an argument: where the tokens of each document or query begin, `[count + 1]`, from 0 to the number of all tokens.
pub fn offsets(path: &Path, (argument, one): (&str, &str), tokens: usize) -> Result<Vec<usize>> {
    let offsets = read_row_ids(path).with_context(|| argument.to_owned())?;
    let name = format!("{argument} {}", path.display());
    let ends = [offsets.first(), offsets.last()];
    let given = ends.map(|end| end.map_or("none".to_owned(), u64::to_string));
    ensure!(
        ends == [Some(&0), Some(&(tokens as u64))],
        "{name}: needed offsets from 0 to {tokens}, the number of tokens, given {} to {}",
        given[0],
        given[1]
    );
    if let Some(number) = offsets.windows(2).position(|ends| ends[1] <= ends[0]) {
        let (start, end) = (offsets[number], offsets[number + 1]);
        bail!(
            "{name}: needed offsets that give each {one} a token, given {start} and {end} for {one} {number}"
        );
    }
    Ok(offsets.into_iter().map(|offset| offset as usize).collect())
}

/// An index of the documents of a file, and the time it took to fill.
pub fn index(
    (places, devices): (&Places, &[Device]),
    (tokens, offsets): (&Vectors, &[usize]),
    ids: Option<&[u64]>,
    elements: ElementKind,
) -> Result<(MultiVector, Filled)> {
    let builder = MultiVector::builder(devices, tokens.dim()).distribution(places.distribution);
    if let Some(file) = places.mapped(Some(tokens.stored()))? {
        let other = [("--row-ids", ids.is_some()), ("--elements", elements != tokens.kind())];
        if let Some((argument, _)) = other.iter().find(|(_, given)| *given) {
            bail!("--residency mapped: needed documents as the file has them, given {argument}");
        }
        return mapped(builder.mapped(file).offsets(offsets)).context("--residency mapped: --rows");
    }
    let builder = builder.elements(elements).capacity(tokens.rows());
    let mut index = builder.residency(places.residency).build()?;
    let filled = fill(&mut index, tokens, offsets, ids)?;
    Ok((index, filled))
}

/// An index of documents whose tokens stay in their file, and the time it took to read them through.
pub fn mapped(builder: MultiVectorBuilder) -> Result<(MultiVector, Filled)> {
    let start = Instant::now();
    let index = builder.build()?;
    Ok((index, Filled { load: start.elapsed(), ..Filled::default() }))
}

/// Adds all documents of a file, piece after piece, under these ids or their numbers.
fn fill(index: &mut MultiVector, file: &Vectors, offsets: &[usize], ids: Option<&[u64]>) -> Result<Filled> {
    let bar = bar("upload", file.rows());
    let most = PIECE_BYTES / (file.dim() * file.kind().size()).max(1);
    let (mut filled, mut next) = (Filled::default(), 0);
    while next + 1 < offsets.len() {
        let first = offsets[next];
        let more = offsets[next + 2..].iter().take_while(|&&end| end - first <= most).count();
        let documents = next..next + 1 + more;
        next = documents.end;
        let start = Instant::now();
        let tokens = file.read(first..offsets[next]).context("--rows")?;
        let tokens = stored(tokens, index.elements(), first)?;
        let own: Vec<usize> = offsets[documents.start..=next].iter().map(|offset| offset - first).collect();
        filled.load += start.elapsed();
        let start = Instant::now();
        let progress = |done| bar.set_position((first + done) as u64);
        let mut options = AddOptions::new().progress(&progress);
        options.ids = ids.map(|ids| &ids[documents]);
        let added = index.add_with(&TokenVectors::new(&tokens, &own)?, &options);
        added.map_err(|error| blame(error, "--rows", file, first as u64))?;
        filled.upload += start.elapsed();
    }
    Ok(filled)
}

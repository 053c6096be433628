//! Opens formats that do not describe themselves: the fvecs family, the fbin family, and true neighbours in `.bin`.

use std::path::Path;

use crate::error::Result;
use crate::files::{failed, mismatch};
use crate::io::element_type::ElementType;
use crate::io::source::Source;
use crate::io::table::{Layout, Table};

/// Opens a file of the fbin family: u32 rows, u32 dim, then the elements.
pub(in crate::io) fn open_with_header(path: &Path, source: Source, element: ElementType) -> Result<Table> {
    let [rows, dim] = header(path, &source, "a header of 8 bytes (u32 rows, u32 dim)")?;
    Table::new(path, source, Layout::plain(element, rows, dim, 8))
}

/// Opens a file of the fvecs family, where each row starts with its dim as u32.
///
/// The first row gives the dim. Reading checks the others against it.
pub(in crate::io) fn open_with_row_headers(
    path: &Path,
    source: Source,
    element: ElementType,
) -> Result<Table> {
    if source.length() < 4 {
        let found = format!("{} bytes", source.length());
        return Err(mismatch(path, "rows that each start with their dim (u32)", found));
    }
    let dim = u64::from(read_u32(path, &source, 0)?);
    let row = 4 + dim * element.size() as u64;
    if dim > 0 && !source.length().is_multiple_of(row) {
        let needed = format!("a multiple of {row} bytes (rows of dim {dim}, as the first row says)");
        return Err(mismatch(path, needed, format!("{} bytes", source.length())));
    }
    let rows = source.length() / row;
    Table::new(path, source, Layout { row_header: 4, ..Layout::plain(element, rows, dim, 0) })
}

/// Opens one half of a file of true neighbours: u32 queries, u32 width, then all ids as i32, then all distances as f32.
pub(in crate::io) fn open_truth(path: &Path, source: Source, element: ElementType) -> Result<Table> {
    let needed = "a header of 8 bytes (u32 queries, u32 neighbours of each)";
    let [rows, dim] = header(path, &source, needed)?;
    // Up to 2^66, which overflows 64 bits.
    let half = 4 * u128::from(rows) * u128::from(dim);
    if 8 + 2 * half != u128::from(source.length()) {
        let needed = format!("{} bytes (ids and distances of {rows} x {dim} neighbours)", 8 + 2 * half);
        return Err(mismatch(path, needed, format!("{} bytes", source.length())));
    }
    let half = half as u64;
    let (start, length) = if element == ElementType::F32 { (8 + half, 8 + 2 * half) } else { (8, 8 + half) };
    Table::new(path, source.until(length), Layout::plain(element, rows, dim, start))
}

/// The two numbers that a file starts with.
fn header(path: &Path, source: &Source, needed: &str) -> Result<[u64; 2]> {
    if source.length() < 8 {
        return Err(mismatch(path, needed, format!("{} bytes", source.length())));
    }
    Ok([read_u32(path, source, 0)?.into(), read_u32(path, source, 4)?.into()])
}

fn read_u32(path: &Path, source: &Source, offset: u64) -> Result<u32> {
    let mut bytes = [0; 4];
    source.fill(offset, &mut bytes).map_err(failed(path))?;
    Ok(u32::from_le_bytes(bytes))
}

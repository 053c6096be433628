/// Where a word of codes lies: rows are in blocks of BLOCK_ROWS, and a block has one granule of four words of each row after another.
fn word_in_blocks(row: u32, word: u32, granules: u32) -> u32 {
  let granule = ((row >> BLOCK_SHIFT) * granules + (word >> 2u)) * BLOCK_ROWS + (row & (BLOCK_ROWS - 1u));
  return granule * 4u + (word & 3u);
}

// Where the elements of a row lie. Rows of integers may lie as their codes do: in blocks of BLOCK_ROWS, granule by granule.
override BLOCKS: u32 = 0u;

/// Elements 4 i to 4 i + 3 of a row.
fn four_of(row: u32, i: u32) -> vec4<f32> {
  if (BLOCKS == 0u) { return widen(rows[row * params.vectors + i]); }
  let granules = ((params.vectors + 7u) >> 3u) * 2u;
  let first = ((row >> BLOCK_SHIFT) * granules * BLOCK_ROWS + (row & (BLOCK_ROWS - 1u))) * 4u;
  return widen(of_code(rows[first + (i >> 2u) * (4u * BLOCK_ROWS) + (i & 3u)]));
}

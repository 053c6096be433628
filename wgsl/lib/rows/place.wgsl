// Where the elements of a row lie. Rows of integers may lie as their codes do.
override IN_BLOCKS: u32 = 0u;

/// Elements 4 i to 4 i + 3 of a row.
fn four_of(row: u32, i: u32) -> vec4<f32> {
  if (IN_BLOCKS == 0u) { return widen(rows[row * params.vectors + i]); }
  return widen(of_code(rows[word_in_blocks(row, i, ((params.vectors + 7u) >> 3u) * 2u)]));
}

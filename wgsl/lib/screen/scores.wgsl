// Scores lie in blocks of BLOCK_ROWS columns: [blocks, room, BLOCK_ROWS], with room for `room` queries. A tile then writes one
// contiguous piece with a constant pitch: with a pitch unknown to the driver, tiles were up to half as fast.
fn score_place(query: u32, column: u32, room: u32) -> u32 {
  return ((column >> BLOCK_SHIFT) * room + query) * BLOCK_ROWS + (column & (BLOCK_ROWS - 1u));
}

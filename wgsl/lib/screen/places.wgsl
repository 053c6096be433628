// Documents, whose tokens lie in neighbouring slots: a place has one of them, or the slots between two that may be found.
@group(0) @binding(5) var<storage, read> blocks: array<Block>;
@group(0) @binding(6) var<storage, read_write> nearest: array<atomic<u32>>; // [places of the chunk, pitch]: keys of similarities

// A block of rows to score. Its places are known before the products, so that nothing waits for memory after them.
struct Block {
  number: u32, // in the index
  first_place: u32, // the place of its first row
  ends: vec4<u32>, // one bit a row: 1 for the last row of a place
}

const NOWHERE = -1e37; // below every similarity, and far from overflow

// The rows of a block that belong to a place.
struct Part {
  place: u32,
  start: u32,
  end: u32,
}

// The end of the part that begins at a row: behind the first bit from there on.
fn end_of(ends: vec4<u32>, start: u32) -> u32 {
  var end = BLOCK_ROWS;
  // unroll
  for (var i = 0u; i < BLOCK_ROWS / 32u; i++) {
    let word = BLOCK_ROWS / 32u - 1u - i;
    let bits = select(ends[word], ends[word] & (0xffffffffu << (start & 31u)), word == start >> 5u);
    if (bits != 0u && word >= start >> 5u) { end = word * 32u + firstTrailingBit(bits) + 1u; }
  }
  return end;
}

// The part of a row, from this row on.
fn part_of(block: Block, row: u32) -> Part {
  var before = 0u;
  // unroll
  for (var word = 0u; word < BLOCK_ROWS / 32u; word++) {
    let bits = select(block.ends[word], block.ends[word] & ~(0xffffffffu << (row & 31u)), word == row >> 5u);
    if (word <= row >> 5u) { before += countOneBits(bits); }
  }
  return Part(block.first_place + before, row, end_of(block.ends, row));
}

fn next_part(block: Block, part: Part) -> Part { return Part(part.place + 1u, part.end, end_of(block.ends, part.end)); }

// Whether a part is one of this chunk.
fn is_here(part: Part) -> bool { return part.place >= params.first_place && part.place < params.end_place; }

// Notes the largest similarity of a token of a query in a part.
fn note_nearest(part: Part, query: u32, key: u32) {
  if (query < params.queries) { atomicMax(&nearest[(part.place - params.first_place) * params.pitch + query], key); }
}

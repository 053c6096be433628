// Documents, whose tokens lie in neighbouring slots: place `p` has the slots from `ends[p - 1]`, or the first, to `ends[p]`. Slots between the
// documents that may be found are places, too.
@group(0) @binding(5) var<storage, read> ends: array<u32>; // [places]: one past the last slot
@group(0) @binding(6) var<storage, read> blocks: array<vec2<u32>>; // blocks of the index to score, and the place of the first slot of each
@group(0) @binding(7) var<storage, read_write> nearest: array<atomic<u32>>; // [places of the chunk, pitch]: keys of similarities

const NOWHERE = -1e37; // below every similarity, and far from overflow

// The rows of a block that belong to a place.
struct Part {
  place: u32,
  start: u32,
  end: u32,
}

// The place of the first slot of block number `entry` on the list.
fn first_part(entry: u32) -> Part {
  let first = blocks[entry];
  return part_from(first.y, first.x * BLOCK_ROWS, 0u);
}

// The part of a place, of which `start` rows of the block are behind. None is left where it starts at the block's end.
fn part_from(place: u32, first_slot: u32, start: u32) -> Part {
  var end = start;
  if (place < params.places) { end = min(max(ends[place], first_slot + start) - first_slot, BLOCK_ROWS); }
  return Part(place, start, end);
}

fn next_part(part: Part, first_slot: u32) -> Part { return part_from(part.place + 1u, first_slot, part.end); }

fn is_left(part: Part) -> bool { return part.place < params.end_place && part.start < BLOCK_ROWS; }

// Whether the part is one of this chunk.
fn is_here(part: Part) -> bool { return part.place >= params.first_place && part.start < part.end; }

// Notes the largest similarity of a token of a query in a part.
fn note_nearest(part: Part, query: u32, key: u32) {
  if (query < params.queries) { atomicMax(&nearest[(part.place - params.first_place) * params.pitch + query], key); }
}

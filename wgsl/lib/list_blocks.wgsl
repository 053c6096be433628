// Blocks of scores of lists and the queries that probe them, numbered list by list. A block has HEIGHT queries.
@group(0) @binding(1) var<storage, read> queries: array<vec4<u32>>; // narrowed, blocks of BLOCK_ROWS queries
@group(0) @binding(2) var<storage, read> rows: array<vec4<u32>>; // narrowed, blocks of BLOCK_ROWS rows
@group(0) @binding(3) var<storage, read> starts: array<vec2<u32>>; // [lists + 1]: first pair, first block of scores
@group(0) @binding(4) var<storage, read> list_tiles: array<u32>; // [lists + 1]: where the tiles of a list start
@group(0) @binding(5) var<storage, read> tiles: array<vec4<u32>>; // [tiles]: four pages each
@group(0) @binding(6) var<storage, read> grouped: array<u32>; // [queries * probes]: query numbers, list by list

struct Block {
  first_pair: u32, // place of its first query in `grouped`
  queries: u32,
  tile: u32,
}

fn block_of(number: u32) -> Block {
  var list = 0u;
  var high = params.lists;
  while (list + 1u < high) {
    let middle = (list + high) >> 1u;
    if (starts[middle].y <= number) { list = middle; } else { high = middle; }
  }
  let first_tile = list_tiles[list];
  let tiles = max(list_tiles[list + 1u] - first_tile, 1u);
  let rest = number - starts[list].y;
  let first_pair = starts[list].x + rest / tiles * HEIGHT;
  return Block(first_pair, min(starts[list + 1u].x - first_pair, HEIGHT), first_tile + rest % tiles);
}

// Where a query's granules start.
fn query_start(block: Block, place: u32) -> u32 {
  // Scores of places beyond the queries are never read.
  let query = grouped[block.first_pair + min(place, block.queries - 1u)];
  return (query >> BLOCK_SHIFT) * params.granules * BLOCK_ROWS + (query & (BLOCK_ROWS - 1u));
}

// Where a row's granules start. Scores of rows of other segments are never read.
fn row_start(block: Block, place: u32) -> u32 {
  let page = tiles[block.tile][place >> PAGE_SHIFT];
  let row = min(page * PAGE + (place & (PAGE - 1u)) - params.first_slot, params.rows - 1u);
  return (row >> BLOCK_SHIFT) * params.granules * BLOCK_ROWS + (row & (BLOCK_ROWS - 1u));
}

// Blocks of scores of lists and the queries that probe them, numbered list by list. A block has HEIGHT queries.

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

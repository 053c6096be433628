// Scores up to 32 narrowed queries at a time on cooperative matrices and collects the rows that can still be among the nearest:
// `collect_tile_coop` for few queries.
struct Place {
  query: u32, // the strip's first
  row: u32,
}

fn keep(place: Place, query: u32, row: u32, score: f32) {
  keep_row(place.query + query, place.row + row, score);
}

@compute @workgroup_size(WORKGROUP)
fn collect_strip_coop(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let block = block_of(workgroup.y);
  let place = Place(workgroup.x * HEIGHT, block * TILE);
  // Loaded before the products, so that nothing waits for memory after them.
  let own_row_terms = row_terms[place.row + index];
  let own_query = place.query + index % HEIGHT;
  let own_query_terms = query_terms[own_query];
  let own_threshold = thresholds[own_query];
  let first_query = own_query / TILE * params.granules * TILE + own_query % TILE;
  var sums: Sums;
  multiply_strip(first_query, block * params.granules * TILE + index, index, &sums);
  share_row(index, coarse_row(place.row + index, own_row_terms));
  if (index < HEIGHT) { pieces[QUERIES + index] = coarse_query(own_query, own_query_terms, own_threshold); }
  keep_passing(index, place, &sums);
}

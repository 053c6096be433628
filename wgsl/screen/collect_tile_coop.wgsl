// Scores many quantised queries on cooperative matrices and collects the rows that can still be among the nearest, in one
// kernel: no score goes to memory.
struct Place {
  query: u32, // the tile's first
  row: u32,
}

fn query_number(place: Place, query: u32) -> u32 { return place.query + query; }

fn row_number(place: Place, row: u32) -> u32 { return place.row + row; }

@compute @workgroup_size(WORKGROUP)
fn collect_tile_coop(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
  @builtin(subgroup_size) subgroup_size: u32,
) {
  let block = block_of(workgroup.y);
  if (!has_usable(block)) { return; }
  let place = Place(workgroup.x * HEIGHT, block * TILE);
  // Loaded before the products, so that nothing waits for memory after them.
  let own_row = place.row + own_row_of(index);
  let own_query = place.query + own_query_of(index);
  let own_row_terms = row_terms[own_row];
  let own_query_terms = query_terms[own_query];
  let own_threshold = threshold_of(list_of(own_query));
  var of_row = -FAR;
  if (PAIRS == 1u && is_usable(own_row)) { of_row = value_of(threshold_of(params.first_slot + own_row)); }
  var sums: Sums;
  multiply_tile(granules_of(own_query), granules_of(own_row), index, &sums);
  share_terms(index, own_row_terms, own_query_terms, own_threshold);
  share_row(index, coarse_row(own_row, own_row_terms), of_row);
  if (is_first_of_query(index)) {
    shared_terms[QUERIES + own_query_of(index)] = coarse_query(own_query, own_query_terms, select(own_threshold, key_of(0.0), PAIRS == 1u));
  }
  keep_passing(index, subgroup_size, place, &sums);
}

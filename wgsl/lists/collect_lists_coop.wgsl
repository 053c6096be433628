// Scores the rows of lists for the queries that probe them on cooperative matrices, and collects the rows that thresholds do not
// exclude: `collect_lists` for many queries a list. Queries and rows are those of a block. A workgroup takes one block after the
// other.
struct Place {
  entry: u32,
}

fn query_number(place: Place, query: u32) -> u32 { return blocks[place.entry + query]; }

fn row_number(place: Place, row: u32) -> u32 { return row_at(place.entry, row); }

@compute @workgroup_size(WORKGROUP)
fn collect_lists_coop(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
  @builtin(subgroup_size) subgroup_size: u32,
) {
  let end = blocks[0];
  for (var number = workgroup.x; number < end; number += workgroups.x) {
    let place = Place(entry_of(number));
    let count = queries_of(place.entry);
    // Others stand for rows and queries that are not there.
    let own_row = row_at(place.entry, own_row_of(index));
    let some_row = min(own_row, params.rows - 1u);
    let own_place = own_query_of(index);
    let own_query = blocks[place.entry + min(own_place, count - 1u)];
    // Loaded before the products, so that nothing waits for memory after them.
    let own_row_terms = row_terms[some_row];
    let own_query_terms = query_terms_of(own_query);
    let own_threshold = threshold_of(own_query);
    var sums: Sums;
    multiply_tile(granules_of(own_query), granules_of(some_row), index, &sums);
    share_terms(index, own_row_terms, own_query_terms, own_threshold);
    share_row(index, coarse_row(own_row, own_row_terms), 0.0);
    if (is_first_of_query(index)) {
      // No row passes for a query that is not there.
      shared_terms[QUERIES + own_place] = coarse_query(select(params.queries, own_query, own_place < count), own_query_terms, own_threshold);
    }
    keep_passing(index, subgroup_size, place, &sums);
    // Slices of the next block lie where subgroups may still sweep.
    workgroupBarrier();
  }
}

// The first threshold of each query: the k-th smallest upper end among the first rows of its nearest lists. One workgroup per
// query. k rows lie at or below it, so it is valid; the other rows of the lists mostly lie above it. A turn takes the next pages of
// a few lists: the nearest alone may be of another kind than the query. Queries then have no candidates yet.
const TURN_PAGES = WORKGROUP / PAGE;

var<workgroup> uppers: array<u32, UPPERS>;
var<workgroup> seen: atomic<u32>;

@compute @workgroup_size(WORKGROUP)
fn probe_thresholds(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let query = workgroup_number(workgroup, workgroups);
  if (query >= params.queries) { return; }
  if (index == 0u) { atomicStore(&seen, 0u); }
  uppers[index] = ABSENT;
  let side = query_of(query_terms_of(query), 0.0);
  let first_probe = query * params.stride;
  var longest = 0u;
  var pages = 0u;
  for (var probe = 0u; probe < params.probes; probe++) {
    let list = probed[first_probe + probe].x;
    // A query that was refused has no lists.
    if (list < params.lists) {
      let own = (tables[list + 1u] - tables[list]) * PAGES;
      longest = max(longest, own);
      pages += own;
    }
  }
  // Of lists with many rows, more of them could pass a threshold than candidates have room: a share of the rows gives a lower one.
  var wanted = params.wanted;
  if (pages * PAGE > LONG) { wanted = max(wanted, min(pages * PAGE / SHARE, UPPERS)); }
  // Pages of each list in a turn. Without one, turns would go on for ever.
  let each = max(TURN_PAGES / params.probes, 1u);
  let own_list = probed[first_probe + index / PAGE / each].x;
  // A filter may leave few rows of many, so turns are limited. They go on while there are too few rows for a threshold.
  let turns = max(params.turns, wanted / WORKGROUP * 2u);
  var first = 0u;
  var counted = 0u;
  for (var turn = 0u; (turn < turns || counted < params.k) && first < longest; turn++) {
    var row = NO_ROW;
    if (own_list < params.lists) {
      let page = tables[own_list] * PAGES + first + index / PAGE % each;
      if (page < tables[own_list + 1u] * PAGES) { row = row_of(tables[params.tiles + page], index); }
    }
    let score = score_of(query, row, index);
    if (is_usable(row)) {
      let place = atomicAdd(&seen, 1u);
      if (place < UPPERS) { uppers[place] = keys_of(side, score, row_side(row_terms[row])).y; }
    }
    counted = workgroupUniformLoad(&seen);
    first = select(first + each, longest, counted >= wanted);
  }
  let count = min(workgroupUniformLoad(&seen), UPPERS);
  var limit = LARGEST_KEY;
  if (count >= params.k && count <= WORKGROUP) {
    // Few enough to compare all with all. AMD's compiler keeps 192 registers here with `key_of_rank`, and 72 without.
    let own = uppers[index];
    var before = vec4(0u);
    for (var i = 0u; i < WORKGROUP; i += 4u) {
      let others = vec4(uppers[i], uppers[i + 1u], uppers[i + 2u], uppers[i + 3u]);
      let places = vec4(i) + vec4(0u, 1u, 2u, 3u);
      before += vec4<u32>((others < vec4(own)) | ((others == vec4(own)) & (places < vec4(index))));
    }
    if (before.x + before.y + before.z + before.w == params.k - 1u) { atomicStore(&picked[0], own); }
    limit = min(workgroupUniformLoad(&picked[0]), LARGEST_KEY);
  } else if (count >= params.k) {
    // The highest 22 bits, by two digits. The others are set: a threshold that is larger by 2^-13 of itself is still valid.
    var found = vec2(0u, params.k - 1u);
    for (var digit = 0u; digit < 2u; digit++) {
      let shift = 21u - 11u * digit;
      clear_digits(index);
      for (var i = index; i < count; i += WORKGROUP) { count_digit(uppers[i], found.x, shift); }
      found = pick_digit(index, found, shift);
    }
    limit = min(found.x | ROUNDED_BITS, LARGEST_KEY);
  }
  if (index == 0u) {
    // Rows of earlier segments may have given a lower one.
    if (params.is_first == 0u) { limit = min(limit, threshold_of(query)); }
    atomicStore(&states[query], 0u);
    atomicStore(&states[params.room + query], limit);
    atomicStore(&states[2u * params.room + query], 0u);
  }
}

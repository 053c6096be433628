// The first threshold of each query: the k-th smallest upper end among the first rows of its nearest lists. One workgroup per
// query. k rows lie at or below it, so it is valid; the other rows of the lists mostly lie above it. A turn takes the next rows of
// some lists: the nearest alone may be of another kind than the query. The rows at or below the threshold become candidates: their
// distances may lower it before other rows are screened.
@group(0) @binding(8) var<storage, read_write> candidates: array<u32>; // [queries, capacity]: slots

const MOST_TURNS = UPPERS / WORKGROUP;

var<workgroup> uppers: array<vec4<u32>, UPPERS / 4u>; // [MOST_TURNS, WORKGROUP]
var<workgroup> seen: atomic<u32>;
var<workgroup> kept: atomic<u32>;

// The row at a place of a list.
fn row_in_list(list: u32, place: u32) -> u32 {
  if (list >= params.lists) { return NO_ROW; }
  let page = tables[list] * PAGES + place / PAGE;
  if (page >= tables[list + 1u] * PAGES) { return NO_ROW; }
  return row_of(tables[params.tiles + page], place);
}

@compute @workgroup_size(WORKGROUP)
fn probe_thresholds(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let query = workgroup_number(workgroup, workgroups);
  if (query >= params.queries) { return; }
  if (index == 0u) {
    atomicStore(&seen, 0u);
    // Rows of earlier segments may be candidates.
    atomicStore(&kept, select(atomicLoad(&states[query]), 0u, params.is_first == 1u));
  }
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
  let each = WORKGROUP / params.probes; // rows of each list in a turn
  let own_list = probed[first_probe + index / each].x;
  // A filter may leave few rows of many. Turns go on while there are too few rows for a threshold.
  let wanted_turns = max(params.turns, wanted / WORKGROUP * 2u);
  var counted = 0u;
  var turns = 0u;
  while (turns < MOST_TURNS && turns * each < longest * PAGE && counted < wanted && (turns < wanted_turns || counted < params.k)) {
    let row = row_in_list(own_list, turns * each + index % each);
    let score = score_of(query, row, index);
    var upper = ABSENT;
    if (is_usable(row)) {
      atomicAdd(&seen, 1u);
      upper = keys_of(side, score, row_side(row_terms[row])).y;
    }
    let place = turns * WORKGROUP + index;
    uppers[place / 4u][place % 4u] = upper;
    counted = workgroupUniformLoad(&seen);
    turns += 1u;
  }
  var limit = LARGEST_KEY;
  if (counted >= params.k && turns == 1u) {
    // Few enough to compare all with all.
    let own = uppers[index / 4u][index % 4u];
    var before = vec4(0u);
    for (var v = 0u; v < WORKGROUP / 4u; v++) {
      let others = uppers[v];
      let places = vec4(v * 4u) + vec4(0u, 1u, 2u, 3u);
      before += vec4<u32>((others < vec4(own)) | ((others == vec4(own)) & (places < vec4(index))));
    }
    if (before.x + before.y + before.z + before.w == params.k - 1u) { picked = vec2(own, 0u); }
    limit = min(workgroupUniformLoad(&picked).x, LARGEST_KEY);
  } else if (counted >= params.k) {
    // The highest 22 bits, by two digits. The others are set: a threshold that is larger by 2^-13 of itself is still valid.
    var found = vec2(0u, params.k - 1u);
    for (var digit = 0u; digit < 2u; digit++) {
      let shift = 21u - 11u * digit;
      clear_digits(index);
      for (var i = index; i < turns * WORKGROUP; i += WORKGROUP) { count_digit(uppers[i / 4u][i % 4u], found.x, shift); }
      found = pick_digit(index, found, shift);
    }
    limit = min(found.x | ROUNDED_BITS, LARGEST_KEY);
  }
  for (var turn = 0u; turn < turns; turn++) {
    let place = turn * WORKGROUP + index;
    if (uppers[place / 4u][place % 4u] <= limit) {
      let entry = atomicAdd(&kept, 1u);
      let row = row_in_list(own_list, turn * each + index % each);
      if (entry < params.capacity) { candidates[query * params.capacity + entry] = params.first_slot + row; }
    }
  }
  let all = workgroupUniformLoad(&kept);
  if (index == 0u) {
    // Rows of earlier segments may have given a lower one.
    if (params.is_first == 0u) { limit = min(limit, threshold_of(query)); }
    atomicStore(&states[query], min(all, params.capacity));
    atomicStore(&states[params.room + query], limit);
    atomicStore(&states[2u * params.room + query], 0u);
  }
}

// Which rows can still be among the nearest? A score with what is known of its query and its row gives an interval that
// holds the true distance and the one `rescore` will report (docs/certified-search.md); a row is kept unless its lower end
// lies above the query's threshold. An invocation owns four rows, keeps what it needs of them in registers, and loops over
// queries, so that it reads four bytes a score.
@group(0) @binding(1) var<storage, read> scores: array<vec4<f32>>; // [blocks, room, 128]
@group(0) @binding(2) var<storage, read> row_terms: array<vec2<f32>>; // [rows]: squared and inverse norm, or [rows, 2] narrowed terms
@group(0) @binding(3) var<storage, read> query_terms: array<vec2<f32>>; // the same of the queries
@group(0) @binding(4) var<storage, read> thresholds: array<u32>; // [queries]: keys
@group(0) @binding(5) var<storage, read> allowed: array<u32>; // a bit a slot of the index, where HAS_BITSET = 1
@group(0) @binding(6) var<storage, read_write> counts: array<atomic<u32>>; // [queries]
@group(0) @binding(7) var<storage, read_write> lists: array<u32>; // [3, queries, capacity]: slots, lower, upper keys

// 0: squared L2 itself, 1: squared L2 from a dot product, 2: inner product, 3: cosine; 4 to 6: these three, narrowed
override FORM: u32 = 0u;
override HAS_BITSET: u32 = 0u;

const QUERIES = 32u; // queries a workgroup
const AT_ONCE = 4u; // queries whose scores are on their way together

// Of a vector: its scale, a bound of its length, a bound of its residual's length, and its own part of the distance.
fn terms_of(pair: vec4<f32>) -> vec4<f32> {
  switch (FORM) {
    case 1u: { return vec4(1.0, sqrt(pair.x), 0.0, pair.x); }
    case 2u: { return vec4(1.0, sqrt(pair.x), 0.0, 0.0); }
    case 3u: { return vec4(pair.y, 0.0, 0.0, 0.0); }
    default: { return pair; }
  }
}

// Of a query: the lower end of a pair's interval is base + floor_x - along * length - across * residual - factor * scale *
// score, where floor_x is the row's bias without its slack; the upper end lies twice the margin above.
struct Query {
  one: vec4<f32>, // base (without the query's slack), factor, along, across
  two: vec4<f32>, // threshold, the query's slack
}
var<workgroup> query_side: array<Query, QUERIES>;

fn query_of(terms: vec4<f32>, threshold: f32) -> Query {
  let reach = params.margin * (terms.y + params.centre_length);
  var base = 0.0;
  var factor = 1.0;
  var along = 0.0;
  var across = 0.0;
  var slack = params.margin_floor;
  switch (FORM) {
    case 0u: { factor = -(1.0 - params.margin); }
    case 1u: {
      base = terms.w;
      factor = 2.0;
      along = 2.0 * params.margin * terms.y;
      slack += params.margin * terms.w;
    }
    case 2u: { along = reach; }
    case 3u: {
      base = 1.0;
      factor = terms.x;
      slack += params.margin;
    }
    case 4u: {
      base = terms.w;
      factor = 2.0 * terms.x;
      along = 2.0 * terms.z;
      across = 2.0 * (terms.y + terms.z);
      slack += params.margin * terms.y * terms.y;
    }
    default: {
      base = select(0.0, 1.0, FORM == 6u) - (terms.w - params.centre_squared);
      factor = terms.x;
      along = terms.z + reach;
      across = terms.y + terms.z;
      slack += reach * params.centre_length;
    }
  }
  return Query(vec4(base - slack, factor, along, across), vec4(threshold, slack, 0.0, 0.0));
}

// Where the entry of a row goes that stays.
fn keep(query: u32, place: u32, slot: u32, lower: u32, upper: u32) {
  // A count above the capacity tells `tighten` that rows were lost.
  if (place < params.capacity) {
    let entry = query * params.capacity + place;
    lists[entry] = slot;
    lists[params.plane + entry] = lower;
    lists[2u * params.plane + entry] = upper;
  }
}

@compute @workgroup_size(256)
fn collect(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let first = workgroup.y * QUERIES;
  let end = min(first + QUERIES, params.queries);
  if (index < end - first) {
    let query = first + index;
    var pair = vec4(query_terms[query], vec2(0.0));
    if (FORM >= 4u) { pair = vec4(query_terms[2u * query], query_terms[2u * query + 1u]); }
    query_side[index] = query_of(terms_of(pair), value_of(thresholds[query]));
  }
  workgroupBarrier();

  // The last part of a chunk knows how many places a sample has.
  if (params.sampled > 0u && workgroup.x == 0u && index < end - first) { atomicStore(&counts[first + index], params.sampled); }

  // Groups of four rows of this round: every round_step-th of the whole chunk, without those of the rounds before.
  let group = params.round_start + (workgroup.x * 256u + index) * params.round_step;
  if (group >= params.groups) { return; }
  let number = (params.column_first >> 2u) + group;
  if (params.round_skip != 0u && (number & (params.round_skip - 1u)) == 0u) { return; }
  let column = params.column_first + group * 4u;
  let row = (params.block_first + (group >> 5u) * params.block_step) * 128u + (group & 31u) * 4u;

  var usable = vec4(row, row + 1u, row + 2u, row + 3u) < vec4(params.rows);
  var scale: vec4<f32>;
  var length: vec4<f32>;
  var residual: vec4<f32>;
  var bias: vec4<f32>;
  // unroll
  for (var r = 0u; r < 4u; r++) {
    if (FORM != 0u) {
      var pair: vec4<f32>;
      if (FORM >= 4u) {
        pair = vec4(row_terms[2u * (row + r)], row_terms[2u * (row + r) + 1u]);
      } else {
        pair = vec4(row_terms[row + r], vec2(0.0));
      }
      let terms = terms_of(pair);
      scale[r] = terms.x;
      length[r] = terms.y;
      residual[r] = terms.z;
      bias[r] = terms.w;
    }
    if (HAS_BITSET == 1u) {
      let slot = params.first_slot + row + r;
      usable[r] = usable[r] && ((allowed[slot >> 5u] >> (slot & 31u)) & 1u) == 1u;
    }
  }
  // The products with the centre are part of the similarity.
  if (FORM >= 5u) { bias = -bias; }
  var slack = vec4(0.0);
  if (FORM == 1u) { slack = params.margin * bias; }
  if (FORM == 4u) { slack = params.margin * length * length; }
  let floor_x = bias - slack;

  let place = score_place(0u, column, params.room) >> 2u;
  for (var four = first; four < end; four += AT_ONCE) {
    var ahead: array<vec4<f32>, AT_ONCE>;
    // unroll
    for (var q = 0u; q < AT_ONCE; q++) {
      // There is room for a multiple of four queries, whatever lies there.
      ahead[q] = scores[place + (four + q) * 32u];
    }
    // unroll
    for (var q = 0u; q < AT_ONCE; q++) {
      let query = four + q;
      let score = ahead[q];
      let one = query_side[query - first].one;
      let two = query_side[query - first].two;
      var lower = fma(vec4(-one.y), score, vec4(one.x));
      if (FORM != 0u) {
        var end_of_rows = fma(vec4(-one.z), length, floor_x);
        if (FORM >= 4u) { end_of_rows = fma(vec4(-one.w), residual, end_of_rows); }
        lower = fma(-one.y * scale, score, end_of_rows + vec4(one.x));
      }
      // The first look at a chunk keeps everything.
      let near = lower <= vec4(two.x);
      if (query < end && (any(near & usable) || params.is_sample == 1u)) {
        var margin = score * params.margin + two.y;
        if (FORM != 0u) { margin = one.z * length + one.w * residual + (slack + two.y); }
        let upper = lower + 2.0 * margin;
        // unroll
        for (var r = 0u; r < 4u; r++) {
          if (params.is_sample == 1u) {
            // All places are known beforehand: thousands of additions to one counter would wait for each other. What is no
            // row is absent, and `tighten` drops it.
            let sampled = number / params.round_step * 4u + r;
            if (usable[r]) {
              keep(query, sampled, params.first_slot + row + r, key_of(lower[r]), key_of(upper[r]));
            } else {
              keep(query, sampled, 0u, ABSENT, ABSENT);
            }
          } else if (near[r] && usable[r]) {
            keep(query, atomicAdd(&counts[query], 1u), params.first_slot + row + r, key_of(lower[r]), key_of(upper[r]));
          }
        }
      }
    }
  }
}

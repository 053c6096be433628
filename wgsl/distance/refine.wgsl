// The distances that a search reports. Sixteen invocations share a candidate: each sums every sixteenth vector of four
// elements with explicit fma, and a fixed tree sums the sixteen. The order of additions never depends on the batch, the
// other candidates or the adapter's subgroups. On software drivers one invocation adds all in the same order: there, memory that
// invocations share costs more than the sums.
// Sums of integers are exact whatever their order: but for cosine, `INTEGRAL` sums them in i32 and rounds each total once. So are the
// numbers of bits that stand in the places of sums where rows are of bits: different ones for Hamming, and for Jaccard those that differ
// and those that either has.
//
// Candidates are one of three:
// - a CSR list: query q has those from offsets[q] to offsets[q + 1];
// - lists of a fixed pitch, each with its count: list_pitch > 0, one row of workgroups per query;
// - a range for all queries: dense_count > 0, one row of workgroups per query. With list_pitch > 0 it is a range of places in
//   `candidates`, otherwise a range of slots.
// With entries > 0 a candidate is an index into `slots`; otherwise it is a slot. For a range, `slots` then has one bit per slot,
// and slots whose bit is 0 are skipped.
@group(0) @binding(1) var<storage, read> queries: array<vec4<f32>>; // [queries, dim]
@group(0) @binding(2) var<storage, read> rows: array<Row>; // [rows of the segment, dim]
@group(0) @binding(3) var<storage, read> ids: array<vec2<u32>>; // [rows of the segment]: u64, low word first
@group(0) @binding(4) var<storage, read> slots: array<u32>; // [entries]
@group(0) @binding(5) var<storage, read> candidates: array<u32>;
@group(0) @binding(6) var<storage, read> offsets: array<u32>; // [queries + 1], or counts, [queries]
@group(0) @binding(7) var<storage, read_write> keys: array<u32>; // distances, as keys
@group(0) @binding(8) var<storage, read_write> found_ids: array<vec2<u32>>;

override METRIC: u32 = 0u;
override INTEGRAL: u32 = 0u; // 1: elements of queries and rows are integers from -128 to 255

const AHEAD = 6u; // vectors of an invocation that are loaded together

/// The query that candidate number `candidate` belongs to.
fn query_of(candidate: u32) -> u32 {
  var low = 0u;
  var high = params.queries;
  while (low < high) {
    let middle = (low + high) >> 1u;
    if (offsets[middle + 1u] <= candidate) { low = middle + 1u; } else { high = middle; }
  }
  return low;
}

struct Sums { dots: vec4<f32>, query_squares: vec4<f32>, row_squares: vec4<f32>, whole: vec4<i32> }

fn take(sums: Sums, q: vec4<f32>, x: vec4<f32>) -> Sums {
  var next = sums;
  if (COUNTS_BITS == 1u) {
    let a = vec4<u32>(q);
    let b = vec4<u32>(x);
    next.dots += vec4<f32>(countOneBits(a ^ b));
    if (METRIC == METRIC_COSINE) { next.query_squares += vec4<f32>(countOneBits(a | b)); }
    return next;
  }
  if (is_whole()) {
    let whole = vec4<i32>(q);
    let other = vec4<i32>(x);
    if (METRIC == METRIC_L2) { next.whole += (whole - other) * (whole - other); } else { next.whole += whole * other; }
    return next;
  }
  if (METRIC == METRIC_L2) {
    let difference = q - x;
    next.dots = fma(difference, difference, sums.dots);
  } else {
    next.dots = fma(q, x, sums.dots);
  }
  if (METRIC == METRIC_COSINE) {
    next.query_squares = fma(q, q, sums.query_squares);
    next.row_squares = fma(x, x, sums.row_squares);
  }
  return next;
}

/// The f32 nearest to the quotient of two integers, of which the first is not the larger. Adapters divide in different ways, which would
/// order rows of the same distance differently.
fn share_of(part: f32, all: f32) -> f32 {
  if (part <= 0.0 || part >= all) { return select(0.0, 1.0, part > 0.0 || all <= 0.0); }
  let divisor = u32(all);
  var rest = max(u32(part), 1u);
  var step = 1.0;
  while (rest < divisor) {
    rest <<= 1u;
    step *= 0.5;
  }
  var digits = 0u; // 24 of them, the first of which is 1
  for (var i = 0u; i < 24u; i++) {
    let fits = rest >= divisor;
    digits = (digits << 1u) | u32(fits);
    rest = (rest - select(0u, divisor, fits)) << 1u;
  }
  // The next digit rounds. Nothing lies in the middle of two f32.
  digits += u32(rest >= divisor);
  return f32(digits) * (step / 8388608.0);
}

/// Cosine is a quotient of roots, which is not whole.
fn is_whole() -> bool { return INTEGRAL == 1u && METRIC != METRIC_COSINE; }

const SPLIT = 12u; // bits of the low half of a whole sum

/// The sums of one of sixteen invocations, for sixteen to be added up. A whole sum is two halves, of which sixteen add up exactly in f32.
fn floats(sums: Sums) -> vec4<f32> {
  if (is_whole()) {
    let sum = (sums.whole.x + sums.whole.y) + (sums.whole.z + sums.whole.w);
    return vec4(f32(sum >> SPLIT), f32(sum & ((1 << SPLIT) - 1)), 0.0, 0.0);
  }
  return vec4(across(sums.dots), across(sums.query_squares), across(sums.row_squares), 0.0);
}

/// The totals from what was added up. The product with a power of two is exact, so a whole total is rounded once.
fn totals(sums: vec4<f32>) -> vec4<f32> {
  if (is_whole()) { return vec4(sums.x * f32(1u << SPLIT) + sums.y, 0.0, 0.0, 0.0); }
  return sums;
}

fn none() -> Sums { return Sums(vec4(0.0), vec4(0.0), vec4(0.0), vec4(0i)); }

/// What `sixteen_sum` gives sixteen invocations, by one alone. It takes their parts in an order in which at most four wait for the part
/// that the tree adds to them.
fn sums_alone(query: u32, row: u32) -> vec4<f32> {
  var ones = vec4(0.0);
  var twos = vec4(0.0);
  var fours = vec4(0.0);
  var eights = vec4(0.0);
  for (var turn = 0u; turn < WIDTH; turn++) {
    var sums_of = none();
    // 0, 8, 4, 12, 2 and so on: the tree adds places that are 8 apart first.
    for (var i = reverseBits(turn) >> 28u; i < params.vectors; i += WIDTH) {
      sums_of = take(sums_of, queries[query * params.vectors + i], four_of(row, i));
    }
    var part = floats(sums_of);
    if ((turn & 1u) == 0u) { ones = part; continue; }
    part = ones + part;
    if ((turn & 2u) == 0u) { twos = part; continue; }
    part = twos + part;
    if ((turn & 4u) == 0u) { fours = part; continue; }
    part = fours + part;
    if ((turn & 8u) == 0u) { eights = part; continue; }
    return eights + part;
  }
  return eights;
}

@compute @workgroup_size(WORKGROUP)
fn refine(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let vectors = params.vectors;
  let dense = params.dense_count > 0u;
  var total = params.dense_count;
  let listed = !dense && params.list_pitch > 0u;
  // Results end where `keys` ends, so the loop ends too, whatever the offsets say.
  if (!dense && !listed) { total = min(offsets[params.queries], arrayLength(&keys)); }
  if (listed) { total = min(offsets[workgroup.y], params.list_pitch); }
  let at_once = select(AT_ONCE, WORKGROUP, IS_SOFTWARE);
  for (var start = workgroup.x * at_once; start < total; start += workgroups.x * at_once) {
    let candidate = start + select(index / WIDTH, index, IS_SOFTWARE);
    var query = workgroup.y;
    var slot = params.dense_first + candidate;
    var place = query * params.found_pitch + params.found_first + candidate;
    var known = candidate < total;
    if (dense) {
      if (params.list_pitch > 0u) {
        known = known && slot < arrayLength(&candidates);
        slot = candidates[slot];
      }
      if (params.entries > 0u) { known = known && ((slots[slot >> 5u] >> (slot & 31u)) & 1u) == 1u; }
    } else {
      place = candidate;
      if (listed) { place += query * params.list_pitch; } else { query = query_of(candidate); }
      let entry = place;
      known = known && query < params.queries && entry < arrayLength(&candidates);
      slot = candidates[entry];
      if (params.entries > 0u) {
        known = known && slot < params.entries;
        slot = slots[slot];
      }
    }
    let row = slot - params.first_slot;
    let here = known && slot >= params.first_slot && row < params.rows;

    // Loaded with the vectors, not after them.
    var id = vec2(0xffffffffu);
    if (here) { id = ids[row]; }
    var sums = vec4(0.0);
    if (IS_SOFTWARE && here) { sums = totals(sums_alone(query, row)); }
    var sums_of = none();
    if (!IS_SOFTWARE && here) {
      var i = index % WIDTH;
      // Six vectors are loaded together and added one after the other.
      for (; i + (AHEAD - 1u) * WIDTH < vectors; i += AHEAD * WIDTH) {
        var q = array<vec4<f32>, AHEAD>();
        var x = array<vec4<f32>, AHEAD>();
        // unroll
        for (var v = 0u; v < AHEAD; v++) {
          q[v] = queries[query * vectors + i + v * WIDTH];
          x[v] = four_of(row, i + v * WIDTH);
        }
        // unroll
        for (var v = 0u; v < AHEAD; v++) { sums_of = take(sums_of, q[v], x[v]); }
      }
      for (; i < vectors; i += WIDTH) {
        sums_of = take(sums_of, queries[query * vectors + i], four_of(row, i));
      }
    }
    if (!IS_SOFTWARE) {
      sums = totals(sixteen_sum(index, floats(sums_of)));
    }
    if ((IS_SOFTWARE || index % WIDTH == 0u) && candidate < total) {
      if (here) {
        var distance = sums.x;
        if (COUNTS_BITS == 1u) {
          if (METRIC == METRIC_COSINE) { distance = share_of(sums.x, sums.y); }
        } else if (METRIC == METRIC_COSINE) {
          var similarity = 0.0;
          if (sums.y > 0.0 && sums.z > 0.0) {
            similarity = clamp(sums.x / (sqrt(sums.y) * sqrt(sums.z)), -1.0, 1.0);
          }
          distance = 1.0 - similarity;
        }
        if (METRIC == METRIC_INNER_PRODUCT) { distance = -sums.x; }
        keys[place] = key_of(distance);
        found_ids[place] = id;
      } else if (params.mark_absent != 0u) {
        // This segment lacks the row; a later segment may have it.
        keys[place] = ABSENT;
        found_ids[place] = vec2(0xffffffffu);
      }
    }
  }
}

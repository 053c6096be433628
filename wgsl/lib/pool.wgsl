// The elements of a row that passed, in workgroup memory, and from them the k smallest in order: as (key, place).
var<workgroup> pool: array<vec2<u32>, ROOM>;
var<workgroup> taken: atomic<u32>;

// Up to so many are ranked by comparing all with all, which needs no barriers.
const RANKED = 64u;

fn comes_first(a: vec2<u32>, b: vec2<u32>) -> bool { return a.x < b.x || (a.x == b.x && a.y < b.y); }

/// Puts one element at a place; what has no room is only counted.
fn pool_put(at: u32, key: u32, place: u32) {
  if (at < ROOM) { pool[at] = vec2(key, place); }
}

fn pool_keep(keys: vec4<u32>, places: vec4<u32>, passes: vec4<bool>) {
  var at = atomicAdd(&taken, how_many(passes));
  if (passes.x) { pool_put(at, keys.x, places.x); at += 1u; }
  if (passes.y) { pool_put(at, keys.y, places.y); at += 1u; }
  if (passes.z) { pool_put(at, keys.z, places.z); at += 1u; }
  if (passes.w) { pool_put(at, keys.w, places.w); }
}

fn pool_keep_held(keys: Held, places: Held, vectors: u32, limit: Threshold) {
  // unroll
  for (var v = 0u; v < 4u; v++) {
    if (v < vectors) {
      let passes = passing(keys[v], places[v], limit);
      if (any(passes)) { pool_keep(keys[v], places[v], passes); }
    }
  }
}

fn pool_clear(index: u32) {
  workgroupBarrier();
  if (index == 0u) { atomicStore(&taken, 0u); }
  workgroupBarrier();
}

/// Elements that are worth sorting at most: to sort them all takes no longer than to find fewer.
fn sorted_most(k: u32) -> u32 { return max(32u, power_of_two_from(k)); }

/// Cuts the pool's `count` elements down to the smallest, `k` to `sorted_most(k)`; how many there are.
fn pool_cut(count: u32, k: u32, last_place: u32, lanes: Lanes) -> u32 {
  let most = sorted_most(k);
  if (count <= most) { return count; }
  var keys = nothing_held();
  var places = nothing_held();
  // unroll
  for (var v = 0u; v < 4u; v++) {
    // unroll
    for (var i = 0u; i < 4u; i++) {
      let at = lanes.index + (4u * v + i) * WORKGROUP;
      if (at < count && at < ROOM) {
        keys[v][i] = pool[at].x;
        places[v][i] = pool[at].y;
      }
    }
  }
  let vectors = select(select(2u, 1u, count <= 4u * WORKGROUP), 4u, count > 8u * WORKGROUP);
  let limit = threshold_of(keys, places, vectors, k, most, last_place, lanes);
  pool_clear(lanes.index);
  pool_keep_held(keys, places, vectors, limit);
  workgroupBarrier();
  return limit.count;
}

/// Sorts the pool's `count` elements, and writes the first k of them as the results of a row.
fn pool_write(row: u32, count: u32, k: u32, index: u32) {
  let start = row * params.selected_pitch;
  if (count <= RANKED) {
    for (var i = index; i < count; i += WORKGROUP) {
      let own = pool[i];
      var rank = 0u;
      for (var j = 0u; j < count; j += 1u) { rank += select(0u, 1u, comes_first(pool[j], own)); }
      if (rank < k) { write(start + rank, own); }
    }
  } else {
    let padded = power_of_two_from(count);
    for (var i = count + index; i < padded; i += WORKGROUP) { pool[i] = vec2(ABSENT, EVERY_PLACE); }
    pool_sort(padded, index);
    for (var i = index; i < min(count, k); i += WORKGROUP) { write(start + i, pool[i]); }
  }
  // Nothing behind them.
  for (var i = count + index; i < k; i += WORKGROUP) { write_nothing(start + i); }
  if (index == 0u) { selected_counts[row] = min(count, k); }
}

fn write(at: u32, element: vec2<u32>) {
  selected_keys[at] = element.x;
  selected_ids[at] = vec2(element.y, 0u);
}

fn write_nothing(at: u32) {
  selected_keys[at] = ABSENT;
  selected_ids[at] = vec2(0xffffffffu);
}

/// Bitonic sort of a power of two of elements (K. E. Batcher, Sorting networks and their applications, AFIPS 1968).
fn pool_sort(length: u32, index: u32) {
  for (var size = 2u; size <= length; size <<= 1u) {
    for (var distance = size >> 1u; distance > 0u; distance >>= 1u) {
      workgroupBarrier();
      for (var pair = index; pair < length / 2u; pair += WORKGROUP) {
        let low = 2u * pair - (pair & (distance - 1u));
        let high = low + distance;
        let a = pool[low];
        let b = pool[high];
        let rising = (low & size) == 0u;
        if (comes_first(b, a) == rising && any(a != b)) {
          pool[low] = b;
          pool[high] = a;
        }
      }
    }
  }
  workgroupBarrier();
}

fn power_of_two_from(length: u32) -> u32 {
  return select(1u, 1u << (32u - countLeadingZeros(length - 1u)), length > 1u);
}

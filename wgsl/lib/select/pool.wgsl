// Orders held elements in workgroup memory. Elements are (key, place).
var<workgroup> pool: array<vec2<u32>, POOL_ROOM>;
var<workgroup> taken: atomic<u32>;

// Up to this many elements, here or in a bucket, are ranked by comparing all with all.
const RANKED = 48u;

fn comes_first(a: vec2<u32>, b: vec2<u32>) -> bool { return a.x < b.x || (a.x == b.x && a.y < b.y); }

/// Takes elements while there is room, and counts all.
fn pool_keep(keys: vec4<u32>, places: vec4<u32>, passes: vec4<bool>) {
  var at = atomicAdd(&taken, how_many(passes));
  // unroll on hardware
  for (var i = 0u; i < 4u; i++) {
    if (passes[i]) {
      if (at < POOL_ROOM) { pool[at] = vec2(keys[i], places[i]); }
      at += 1u;
    }
  }
}

fn pool_keep_held(keys: Held, places: Held, vectors: u32, limit: Threshold) {
  // unroll on hardware
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

/// Puts the first `wanted` of the `count` held elements, at most POOL_ROOM, in order at the start of the pool. All other held
/// elements are ABSENT. `wanted` and `count` are the same in every invocation, and places are at most `last_place`.
fn order_held(
  all_keys: Held,
  all_places: Held,
  all_vectors: u32,
  count: u32,
  wanted: u32,
  last_place: u32,
  lanes: Lanes,
) {
  var keys = all_keys;
  var places = all_places;
  var vectors = all_vectors;
  if (vectors > 1u && count <= 4u * WORKGROUP) {
    // Few of many: move them together, so that the others are not visited again and again.
    pool_clear(lanes.index);
    pool_keep_held(keys, places, vectors, Threshold(LAST, EVERY_PLACE, count));
    workgroupBarrier();
    // unroll on hardware
    for (var i = 0u; i < 4u; i++) {
      let at = lanes.index + i * WORKGROUP;
      let element = pool[min(at, POOL_ROOM - 1u)];
      keys[0][i] = select(ABSENT, element.x, at < count);
      places[0][i] = element.y;
    }
    vectors = 1u;
  }
  for (var attempt = select(2u, 0u, count > RANKED); attempt < 2u; attempt += 1u) {
    if (spread_held(keys, places, vectors, wanted, attempt, lanes)) { return; }
  }
  // Few, or too many in one place: sort as few as suffice.
  var limit = Threshold(LAST, EVERY_PLACE, count);
  let enough = max(32u, power_of_two_from(wanted));
  if (count > enough) { limit = threshold_of(keys, places, vectors, wanted, enough, last_place, lanes); }
  pool_clear(lanes.index);
  pool_keep_held(keys, places, vectors, limit);
  workgroupBarrier();
  if (limit.count <= min(RANKED, 2u * WORKGROUP)) {
    let first = pool[min(lanes.index, POOL_ROOM - 1u)];
    let second = pool[min(lanes.index + WORKGROUP, POOL_ROOM - 1u)];
    let first_rank = rank_of(first, 0u, limit.count);
    var second_rank = 0u;
    if (WORKGROUP < RANKED) { second_rank = rank_of(second, 0u, limit.count); }
    workgroupBarrier();
    if (lanes.index < limit.count) { pool[first_rank] = first; }
    if (lanes.index + WORKGROUP < limit.count) { pool[second_rank] = second; }
    workgroupBarrier();
    return;
  }
  let padded = power_of_two_from(limit.count);
  for (var i = limit.count + lanes.index; i < padded; i += WORKGROUP) { pool[i] = vec2(ABSENT, EVERY_PLACE); }
  pool_sort(padded, lanes.index);
}

/// Counts the pool's elements from `begin` to `end` that come before an element.
fn rank_of(own: vec2<u32>, begin: u32, end: u32) -> u32 {
  var rank = 0u;
  for (var i = begin; i < end; i += 1u) { rank += select(0u, 1u, comes_first(pool[i], own)); }
  return rank;
}

/// Spreads elements over buckets, so that few are compared within each. Returns false and does nothing if a bucket gets too
/// many. Attempt 0 divides the range of numbers evenly, which suits most data. Attempt 1 is for data in which many elements tie
/// with the threshold, such as infinities, or a few lie far off, so that dividing the range of keys does better.
fn spread_held(
  keys: Held,
  places: Held,
  vectors: u32,
  wanted: u32,
  attempt: u32,
  lanes: Lanes,
) -> bool {
  var range = range_of(keys, vectors, lanes);
  var by_numbers = are_numbers(range);
  if (attempt == 0u && !by_numbers) { return false; }
  var top = ABSENT;
  var spots = vec2(0u);
  if (attempt == 1u) {
    top = range.y;
    var some = nothing_held();
    // unroll on hardware
    for (var v = 0u; v < 4u; v++) {
      if (v < vectors) { some[v] = select(vec4(ABSENT), places[v], keys[v] == vec4(top)); }
    }
    // Only some of the tying elements are here, often from a small part of the row.
    spots = range_of(some, vectors, lanes);
    // The others after these, so that registers hold one of them at a time.
    // unroll on hardware
    for (var v = 0u; v < 4u; v++) {
      if (v < vectors) { some[v] = select(keys[v], vec4(ABSENT), keys[v] == vec4(top)); }
    }
    range = range_of(some, vectors, lanes);
    by_numbers = !by_numbers && are_numbers(range);
  }
  clear_cells(lanes.index);
  // Computed once: a second computation might round differently.
  var ranks = buckets_of(keys, places, vectors, range, by_numbers, top, spots);
  count_in_cells(keys, ranks, vectors);
  start_cells(wanted, vec2(1u, 0u), lanes.index);
  if (workgroupUniformLoad(&fullest) > RANKED) { return false; }
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) {
    if (v < vectors) {
      // unroll on hardware
      for (var i = 0u; i < 4u; i++) {
        if (keys[v][i] != ABSENT) {
          pool[min(atomicAdd(&cells[cell_of(ranks[v][i])], 1u), POOL_ROOM - 1u)] = vec2(keys[v][i], places[v][i]);
        }
      }
    }
  }
  workgroupBarrier();
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) {
    if (v < vectors) {
      // unroll on hardware
      for (var i = 0u; i < 4u; i++) {
        if (keys[v][i] != ABSENT) {
          let bucket = ranks[v][i];
          var begin = 0u;
          if (bucket > 0u) { begin = atomicLoad(&cells[cell_of(bucket - 1u)]); }
          // Elements from here on are no results.
          ranks[v][i] = POOL_ROOM;
          if (begin < wanted) {
            let end = min(atomicLoad(&cells[cell_of(bucket)]), POOL_ROOM);
            ranks[v][i] = begin + rank_of(vec2(keys[v][i], places[v][i]), begin, end);
          }
        }
      }
    }
  }
  workgroupBarrier();
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) {
    if (v < vectors) {
      // unroll on hardware
      for (var i = 0u; i < 4u; i++) {
        if (keys[v][i] != ABSENT && ranks[v][i] < POOL_ROOM) {
          pool[ranks[v][i]] = vec2(keys[v][i], places[v][i]);
        }
      }
    }
  }
  workgroupBarrier();
  return true;
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

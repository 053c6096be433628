// Sorts each bucket of each row, one workgroup per bucket, and writes its elements where they belong among the row's
// results. A row whose buckets got too few elements, or one bucket too many, is marked, and `select_k` takes it.
@group(0) @binding(1) var<storage, read_write> states: array<u32>; // see lib/select/splitters.wgsl
@group(0) @binding(2) var<storage, read> entries: array<vec2<u32>>; // [rows, buckets, BUCKET_ROOM]: keys and places
@group(0) @binding(3) var<storage, read_write> selected_keys: array<u32>; // [rows, selected_pitch]
@group(0) @binding(4) var<storage, read_write> selected_ids: array<vec2<u32>>; // [rows, selected_pitch]
@group(0) @binding(5) var<storage, read_write> selected_counts: array<u32>; // [rows]

override WORKGROUP: u32 = 256u;

var<workgroup> sums: array<atomic<u32>, 3>;
var<workgroup> known: vec2<u32>; // whether the whole row was small enough, and the bucket's elements

/// The sum of each component over the workgroup.
fn sum_of(own: vec3<u32>, lanes: Lanes) -> vec3<u32> {
  if (lanes.index == 0u) {
    atomicStore(&sums[0], 0u);
    atomicStore(&sums[1], 0u);
    atomicStore(&sums[2], 0u);
  }
  workgroupBarrier();
  let shares = vec3(lanes_share(own.x, lanes), lanes_share(own.y, lanes), lanes_share(own.z, lanes));
  if (shares.x > 0u) { atomicAdd(&sums[0], shares.x); }
  if (shares.y > 0u) { atomicAdd(&sums[1], shares.y); }
  if (shares.z > 0u) { atomicAdd(&sums[2], shares.z); }
  let x = workgroupUniformLoad(&sums[0]);
  let y = workgroupUniformLoad(&sums[1]);
  return vec3(x, y, workgroupUniformLoad(&sums[2]));
}

@compute @workgroup_size(WORKGROUP)
fn sort_buckets(lanes: Lanes, @builtin(workgroup_id) workgroup: vec3<u32>) {
  let bucket = workgroup.x;
  let row = workgroup.y;
  if (lanes.index == 0u) {
    let is_everything = states[row * 4u] == LAST && states[row * 4u + 1u] == EVERY_PLACE;
    known = vec2(select(0u, 1u, is_everything), states[bucket_at(row, bucket)]);
  }
  let of_bucket = workgroupUniformLoad(&known);
  let count = of_bucket.y;
  // Elements in all buckets, elements in the buckets before this one, and buckets with too many elements.
  var own = vec3(0u);
  for (var i = lanes.index; i < params.buckets; i += WORKGROUP) {
    let entries_of = states[bucket_at(row, i)];
    own += vec3(entries_of, select(0u, entries_of, i < bucket), select(0u, 1u, entries_of > BUCKET_ROOM));
  }
  let all = sum_of(own, lanes);
  let is_failed = all.z > 0u || (all.x < params.k && of_bucket.x == 0u);
  if (bucket == 0u && lanes.index == 0u) {
    states[row * 4u + 3u] = select(0u, 1u, is_failed);
    selected_counts[row] = select(min(all.x, params.k), FAILED, is_failed);
  }
  if (is_failed) { return; }
  let results = row * params.selected_pitch;
  // ABSENT behind the results: each bucket writes a share.
  for (var i = all.x + bucket * WORKGROUP + lanes.index; i < params.k; i += params.buckets * WORKGROUP) {
    selected_keys[results + i] = ABSENT;
    selected_ids[results + i] = vec2(0xffffffffu);
  }
  let start = all.y;
  if (start >= params.k || count == 0u) { return; }
  let wanted = min(count, params.k - start);
  let first = (row * params.buckets + bucket) * BUCKET_ROOM;
  var keys = nothing_held();
  var places = nothing_held();
  // unroll on hardware
  for (var v = 0u; v < 4u; v++) {
    // unroll on hardware
    for (var i = 0u; i < 4u; i++) {
      let at = lanes.index + (4u * v + i) * WORKGROUP;
      if (at < count) {
        let entry = entries[first + at];
        keys[v][i] = entry.x;
        places[v][i] = entry.y;
      }
    }
  }
  let vectors = (count + 4u * WORKGROUP - 1u) / (4u * WORKGROUP);
  order_held(keys, places, vectors, count, wanted, params.length - 1u, lanes);
  for (var i = lanes.index; i < wanted; i += WORKGROUP) {
    let element = pool[min(i, POOL_ROOM - 1u)];
    selected_keys[results + start + i] = element.x;
    selected_ids[results + start + i] = vec2(element.y, 0u);
  }
}

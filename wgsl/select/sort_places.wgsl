// Sorts every run of 1,024 elements of each row by (key, position), in place. It works as `sort_runs` does, for ids that are
// positions.
@group(0) @binding(1) var<storage, read_write> keys: array<u32>; // [rows, pitch]
@group(0) @binding(2) var<storage, read_write> ids: array<vec2<u32>>; // [rows, pitch]
@group(0) @binding(3) var<storage, read> states: array<u32>; // [rows, 4]

override ONLY: u32 = 0u; // 0: every row; 1: rows whose state says that sorting failed

var<workgroup> is_left: u32;

@compute @workgroup_size(WORKGROUP)
fn sort_places(
  lanes: Lanes,
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
) {
  if (ONLY == 1u) {
    if (lanes.index == 0u) { is_left = states[workgroup.y * 4u + 3u]; }
    if (workgroupUniformLoad(&is_left) == 0u) { return; }
  }
  for (var start = workgroup.x * POOL_ROOM; start < params.length; start += workgroups.x * POOL_ROOM) {
    sort_run(workgroup.y * params.pitch + start, min(params.length - start, POOL_ROOM), lanes);
    workgroupBarrier();
  }
}

fn sort_run(first: u32, length: u32, lanes: Lanes) {
  var run = nothing_held();
  var places = nothing_held();
  // unroll on hardware
  for (var i = 0u; i < 4u; i++) {
    let at = first + min(lanes.index + i * WORKGROUP, length - 1u);
    run[0][i] = keys[at];
    places[0][i] = ids[at].x;
  }
  let is_there = vec4(lanes.index) + vec4(0u, 1u, 2u, 3u) * WORKGROUP < vec4(length);
  run[0] = select(vec4(ABSENT), run[0], is_there);
  // ABSENT elements stay behind the others.
  pool_clear(lanes.index);
  let share = lanes_share(how_many(run[0] != vec4(ABSENT)), lanes);
  if (share > 0u) { atomicAdd(&taken, share); }
  let count = workgroupUniformLoad(&taken);
  order_held(run, places, 1u, count, count, params.last_place, lanes);
  for (var i = lanes.index; i < length; i += WORKGROUP) {
    let element = pool[min(i, POOL_ROOM - 1u)];
    keys[first + i] = select(ABSENT, element.x, i < count);
    ids[first + i] = select(vec2(0xffffffffu), vec2(element.y, 0u), i < count);
  }
}

// The largest inner product of each token of a query with the tokens of a document, in f32, for pairs of a query and a document. Segments
// follow each other: each takes its own tokens. Products are added up element by element in one order. Some workgroups share a pair.
@group(0) @binding(1) var<storage, read> queries: array<vec4<f32>>; // [tokens, dim]
@group(0) @binding(2) var<storage, read> rows: array<Row>; // [rows of the segment, dim]
@group(0) @binding(3) var<storage, read> pairs: array<vec4<u32>>; // the query's first token, and how many; the document's first slot, and how many
@group(0) @binding(4) var<storage, read_write> nearest: array<atomic<u32>>; // [pairs, pitch]: keys

const ACROSS = 16u; // invocations along tokens of the document
const DOWN = WORKGROUP / ACROSS; // invocations along tokens of the query
const EACH = 4u; // tokens of either that an invocation multiplies
const LOWEST = -3e38; // below every product of vectors of an index

var<workgroup> best: array<vec4<f32>, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn maxsim_pairs(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(num_workgroups) workgroups: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
) {
  let number = workgroup_number(workgroup, workgroups) / params.parts;
  let part = workgroup_number(workgroup, workgroups) % params.parts;
  if (number >= params.pairs) { return; }
  let pair = pairs[number];
  // The rows of the segment that are tokens of the document.
  let start = max(pair.z, params.first_slot) - params.first_slot;
  let end = min(max(pair.z + pair.w, params.first_slot) - params.first_slot, params.rows);
  if (start >= end) { return; }
  let lane = index % ACROSS;
  for (var first = 0u; first < pair.y; first += DOWN * EACH) {
    var most = vec4(LOWEST);
    let token = first + index / ACROSS * EACH;
    var token_at = array<u32, EACH>();
    // unroll
    for (var q = 0u; q < EACH; q++) { token_at[q] = (pair.x + min(token + q, pair.y - 1u)) * params.vectors; }
    for (var row = start + (part * ACROSS + lane) * EACH; row < end; row += params.parts * ACROSS * EACH) {
      var sums = array<vec4<f32>, EACH>(); // of each token of the query, with four of the document
      for (var i = 0u; i < params.vectors; i++) {
        var four = array<vec4<f32>, EACH>();
        // unroll
        for (var t = 0u; t < EACH; t++) { four[t] = four_of(min(row + t, end - 1u), i); }
        // unroll
        for (var q = 0u; q < EACH; q++) {
          let own = queries[token_at[q] + i];
          // unroll
          for (var t = 0u; t < EACH; t++) {
            sums[q][t] = fma(own.w, four[t].w, fma(own.z, four[t].z, fma(own.y, four[t].y, fma(own.x, four[t].x, sums[q][t]))));
          }
        }
      }
      // unroll
      for (var q = 0u; q < EACH; q++) {
        most[q] = max(most[q], max(max(sums[q].x, sums[q].y), max(sums[q].z, sums[q].w)));
      }
    }
    best[index] = most;
    workgroupBarrier();
    if (index < DOWN * EACH && first + index < pair.y) {
      var all = LOWEST;
      for (var other = 0u; other < ACROSS; other++) { all = max(all, best[index / EACH * ACROSS + other][index % EACH]); }
      atomicMax(&nearest[number * params.pitch + first + index], key_of(all));
    }
    workgroupBarrier();
  }
}


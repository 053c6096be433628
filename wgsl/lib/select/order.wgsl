// The total order of results: by key, ties by the smaller id.

/// Whether (a, x) is before (b, y). Ids are u64: low word first.
fn is_before(a: u32, x: vec2<u32>, b: u32, y: vec2<u32>) -> bool {
  if (a != b) { return a < b; }
  if (x.y != y.y) { return x.y < y.y; }
  return x.x < y.x;
}

// Bitonic sort in workgroup memory of up to SORTED_MAX elements by (key, id), with 256 invocations.
// Source: K. E. Batcher, Sorting networks and their applications, AFIPS 1968.
var<workgroup> sort_keys: array<u32, SORTED_MAX>;
var<workgroup> sort_ids: array<vec2<u32>, SORTED_MAX>;

/// Sorts the first `length` elements; a power of two up to SORTED_MAX, the same in every invocation.
fn sort(index: u32, length: u32) {
  for (var size = 2u; size <= length; size <<= 1u) {
    for (var distance = size >> 1u; distance > 0u; distance >>= 1u) {
      workgroupBarrier();
      for (var pair = index; pair < length / 2u; pair += WORKGROUP) {
        let low = 2u * pair - (pair & (distance - 1u));
        let high = low + distance;
        let rising = (low & size) == 0u;
        let a = sort_keys[low];
        let b = sort_keys[high];
        let x = sort_ids[low];
        let y = sort_ids[high];
        if (is_before(b, y, a, x) == rising && (a != b || any(x != y))) {
          sort_keys[low] = b;
          sort_keys[high] = a;
          sort_ids[low] = y;
          sort_ids[high] = x;
        }
      }
    }
  }
  workgroupBarrier();
}

// Records: what a reduction keeps of a part of the values. A record is the bits of a sum and of the error beside it, or the
// smallest key and a number that breaks ties, smaller first. `combine` merges two.
override COMPENSATED: u32 = 0u; // 1: the rounding errors of additions are kept beside the sum

// The record of no values.
fn empty_record() -> vec2<u32> {
  if (OPERATION >= OPERATION_MAX_ABS) { return vec2(NOTHING); }
  return vec2(0u);
}

fn combine(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  if (OPERATION >= OPERATION_MAX_ABS) {
    if (b.x < a.x || (b.x == a.x && b.y < a.y)) { return b; }
    return a;
  }
  let x = bitcast<vec2<f32>>(a);
  let y = bitcast<vec2<f32>>(b);
  let sum = opaque(vec4(x.x + y.x));
  var error = 0.0;
  if (COMPENSATED == 1u) { error = (x.y + y.y) + rounded_off(vec4(x.x), vec4(y.x), sum).x; }
  return vec2(bitcast<u32>(sum.x), bitcast<u32>(error));
}

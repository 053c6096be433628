// Reduces an invocation's share of the values. Several loads are in flight before the first is used, and each of a vector's
// four elements has a sum of its own.
override COARSENING: u32 = 4u; // vectors in flight, up to 8

struct State { sums: vec4<f32>, errors: vec4<f32>, keys: vec4<u32>, vectors: vec4<u32>, }

// Adds a vector to the state. `vector` is its number, for an argmin of rows; an invocation takes vectors in rising order.
fn take(state: State, vector: u32, value: vec4<f32>, other: vec4<f32>, inside: vec4<bool>) -> State {
  var next = state;
  if (OPERATION >= OPERATION_ARG_MIN) {
    let keys = canonical(select(vec4(NOTHING), keys_of(value), inside));
    let better = keys < state.keys;
    next.keys = select(state.keys, keys, better);
    next.vectors = select(state.vectors, vec4(vector), better);
    return next;
  }
  if (OPERATION >= OPERATION_MAX_ABS) {
    next.keys = min(state.keys, select(vec4(NOTHING), keys_of(value), inside));
    return next;
  }
  // The scale is a power of two, so it changes no digit.
  var a = select(vec4(0.0), value, inside) * params.scale;
  var b = a;
  if (OPERATION == OPERATION_DOT) { b = select(vec4(0.0), other, inside); }
  if (OPERATION == OPERATION_SUM_ABS) { a = abs(a); }
  let multiplies = OPERATION == OPERATION_DOT || OPERATION == OPERATION_SUM_SQUARES;
  if (COMPENSATED == 0u) {
    if (multiplies) { next.sums = fma(a, b, state.sums); } else { next.sums = state.sums + a; }
    return next;
  }
  var term = a;
  if (multiplies) {
    term = opaque(a * b);
    next.errors += product_rounded_off(a, b, term);
  }
  next.sums = opaque(state.sums + term);
  next.errors += rounded_off(state.sums, term, next.sums);
  return next;
}

fn other_vector(place: u32) -> vec4<f32> {
  if (OPERATION == OPERATION_DOT) { return widen(others[place]); }
  return vec4(0.0);
}

// Which elements of a vector lie between `begin` and `end`.
fn within(vector: u32, begin: u32, end: u32) -> vec4<bool> {
  let element = vec4(vector * 4u) + vec4(0u, 1u, 2u, 3u);
  return (element >= vec4(begin)) & (element < vec4(end));
}

// Reduces the elements `begin` to `end` of the buffer that lie in the vectors `from_vector` to `to_vector`. `width` invocations
// share them; this one is number `lane`.
fn span(begin: u32, end: u32, from_vector: u32, to_vector: u32, lane: u32, width: u32) -> State {
  var state = State(vec4(0.0), vec4(0.0), vec4(NOTHING), vec4(0u));
  let whole_begin = (begin + 3u) >> 2u;
  let whole_end = end >> 2u;
  // The first and the last vector may lie partly outside.
  let first_edge = begin >> 2u;
  if (lane == 0u && begin < end && first_edge < whole_begin && first_edge >= from_vector && first_edge < to_vector) {
    state = take(state, first_edge, widen(values[first_edge]), other_vector(first_edge), within(first_edge, begin, end));
  }
  let last = min(to_vector, whole_end);
  var i = max(from_vector, whole_begin) + lane;
  for (; i + (COARSENING - 1u) * width < last; i += COARSENING * width) {
    var value = array<vec4<f32>, 8>();
    var other = array<vec4<f32>, 8>();
    // unroll
    for (var c = 0u; c < 8u; c++) {
      if (c < COARSENING) {
        value[c] = widen(values[i + c * width]);
        other[c] = other_vector(i + c * width);
      }
    }
    // unroll
    for (var c = 0u; c < 8u; c++) {
      if (c < COARSENING) { state = take(state, i + c * width, value[c], other[c], vec4(true)); }
    }
  }
  for (; i < last; i += width) { state = take(state, i, widen(values[i]), other_vector(i), vec4(true)); }
  let last_edge = whole_end;
  let is_edge = last_edge * 4u < end && (last_edge > first_edge || whole_begin == first_edge);
  if (lane == 0u && begin < end && is_edge && last_edge >= from_vector && last_edge < to_vector) {
    state = take(state, last_edge, widen(values[last_edge]), other_vector(last_edge), within(last_edge, begin, end));
  }
  return state;
}

// Merges an invocation's four records into one.
fn record_of(state: State) -> vec2<u32> {
  if (OPERATION >= OPERATION_MAX_ABS) {
    let keys = state.keys;
    return vec2(canonical(vec4(min(min(keys.x, keys.y), min(keys.z, keys.w)))).x, NOTHING);
  }
  if (COMPENSATED == 0u) { return vec2(bitcast<u32>(across(state.sums)), 0u); }
  let sums = bitcast<vec4<u32>>(state.sums);
  let errors = bitcast<vec4<u32>>(state.errors);
  return combine(
    combine(vec2(sums.x, errors.x), vec2(sums.y, errors.y)),
    combine(vec2(sums.z, errors.z), vec2(sums.w, errors.w)),
  );
}

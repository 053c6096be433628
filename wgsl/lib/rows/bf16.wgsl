// Rows of bf16, four elements per load: each is the upper half of an f32.
alias Row = vec2<u32>;
fn widen(four: Row) -> vec4<f32> {
  return bitcast<vec4<f32>>(vec4(four.x << 16u, four.x & 0xffff0000u, four.y << 16u, four.y & 0xffff0000u));
}
fn of_code(code: Row) -> Row { return code; }

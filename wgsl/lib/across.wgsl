// Sums the four elements of a vector in a fixed order.
fn across(four: vec4<f32>) -> f32 { return (four.x + four.y) + (four.z + four.w); }

// The four elements of a vector, summed in a fixed order.
fn across(four: vec4<f32>) -> f32 { return (four.x + four.y) + (four.z + four.w); }

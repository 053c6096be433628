// The operands of a dot product.
@group(0) @binding(1) var<storage, read> a: array<f32>; // [length]
@group(0) @binding(2) var<storage, read> b: array<f32>; // [length]

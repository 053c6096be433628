// Rows of f16, four elements per load. Unpacking is part of plain WGSL and needs no adapter feature.
alias Row = vec2<u32>;
fn widen(four: Row) -> vec4<f32> { return vec4(unpack2x16float(four.x), unpack2x16float(four.y)); }
fn of_code(code: Row) -> Row { return code; }

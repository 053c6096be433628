// Rows of i8, four elements per load. Unpacking takes the language extension that codes take: packed_4x8_integer_dot_product.
alias Row = u32;
fn widen(four: Row) -> vec4<f32> { return vec4<f32>(unpack4xI8(four)); }
fn of_code(code: Row) -> Row { return code ^ 0x80808080u; } // codes are stored with 128 added

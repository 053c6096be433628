// Rows of f32, four elements per load.
alias Row = vec4<f32>;
fn widen(four: Row) -> vec4<f32> { return four; }
fn of_code(code: Row) -> Row { return code; }

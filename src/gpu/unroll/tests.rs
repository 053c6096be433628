//! Unrolled text, errors with their lines, and a register tile.

use super::{Driver, unroll};

/// The text that `body`, in a function after some constants, unrolls to, without line breaks and indentation.
fn unrolled(body: &str) -> String {
    let head = "const M = N / 2u; const N: u32 = 4u; override O: u32; const F = 1.5;\nfn f(p: u32) {\n";
    let text = unroll(&format!("{head}{body}\n}}"), Driver::Hardware).unwrap_or_else(|e| e.to_string());
    let text = text.strip_prefix(head).and_then(|text| text.strip_suffix("\n}")).unwrap_or(&text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text that `body` unrolls to in a marked loop of one turn, whose variable `x` is `7u`.
fn turn(body: &str) -> String {
    unrolled(&format!("// unroll\nfor (var x = 7u; x < 8; x++) {{ {body} }}"))
}

/// Panics unless naga takes `source`.
fn validate(source: &str) {
    use naga::valid::{Capabilities, ValidationFlags, Validator};
    let module = naga::front::wgsl::parse_str(source).expect(source);
    Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).expect(source);
}

#[test]
fn literals_keep_the_type_of_the_variable() {
    for (header, expected) in [
        ("var i = 0u; i < 2; i++", "{ a(0u); } { a(1u); }"),
        ("var i: u32 = 1; i <= 0x2; i++", "{ a(1u); } { a(2u); }"),
        ("var i = -1; i < 2; i += 1 + 1", "{ a((-1i)); } { a(1i); }"),
        ("var i = 3i; i < (1 << 3u) - 1 - 9 % 5 * 9 / 12; i++", "{ a(3i); }"),
        ("var i = M; i < N; i++", "{ a(2u); } { a(3u); }"),
        ("var i = -2147483648; i < -2147483647; i++", "{ a((-2147483647i - 1i)); }"),
        ("var i = N; i < N; i++", ""),
    ] {
        assert_eq!(unrolled(&format!("// unroll\nfor ({header}) {{ a(i); }}")), expected);
    }
}

#[test]
fn inner_bounds_follow_the_outer_variable() {
    let inner = "  // unroll \r\n  for (var j = i; j <= i * 2u; j++) { a[i][j]; }";
    let expected = "{ { a[1u][1u]; } { a[1u][2u]; } } { { a[2u][2u]; } { a[2u][3u]; } { a[2u][4u]; } }";
    assert_eq!(unrolled(&format!("// unroll\nfor (var i = 1u; i < 3u; i++) {{\n{inner}\n}}")), expected);
}

#[test]
fn only_the_variable_itself_is_replaced() {
    for (body, expected) in [
        ("v.x = xx + 1.*x; @x y /* x */ = v . x;", "{ v.x = xx + 1.*7u; @x y /* x */ = v . x; }"),
        ("if (b < 1.) { let x = x; a(x); } a(x);", "{ if (b < 1.) { let x = 7u; a(x); } a(7u); }"),
        ("a(x); var<function> x: u32 = x; x++;", "{ a(7u); var<function> x: u32 = 7u; x++; }"),
        ("for (var x = x; x < 9; x++) {x;} a(x);", "{ for (var x = 7u; x < 9; x++) {x;} a(7u); }"),
        ("c = x == d && (x) <= e & x - -x;", "{ c = 7u == d && (7u) <= e & 7u - -7u; }"),
        ("switch x {default:{break;}} loop {break;}", "{ switch 7u {default:{break;}} loop {break;} }"),
    ] {
        assert_eq!(turn(body), expected);
    }
}

#[test]
fn unmarked_source_stays_as_it_is() {
    let source = "//unroll\r\nfn x(x: u32) { /* /**/ // unroll\n */ for (var i = x; i<4u; i++) {i;} }\n";
    assert_eq!(unroll(source, Driver::Hardware).expect("nothing is marked"), source);
}

#[test]
fn what_cannot_be_unrolled_is_an_error_with_its_line() {
    for (header, message) in [
        ("var i = 0u; i < O; i++", "`O` is no"),
        ("var i = 0u; i < p; i++", "`p` is no"),
        ("var i = 0u; i < F; i++", "`F` is no constant integer: line 1: "),
        ("var i = 0u; i < 65u; i++", "more than 64 turns"),
        ("var i = 0u; i < 5u; i += 0u", "more than 64 turns"),
        ("var i = 0u; i <= 4294967295u; i += 4294967295u", "overflows"),
        ("var i = 0u; i < 2u - 3u; i++", "`-1u` overflows"),
        ("var i = 0u; i < N / 0u; i++", "a division by zero"),
        ("var i = 0u; i < 4i; i++", "a u32 and an i32"),
        ("var i = 4u; i > 0u; i--", "expected `<`, found `>`"),
    ] {
        let text = unrolled(&format!("// unroll\nfor ({header}) {{}}"));
        assert!(text.starts_with("line 4: ") && text.contains(message), "{header}: {text}");
    }
    let shadowed = unrolled("let N = 3u;\n// unroll\nfor (var i = 0u; i < N; i++) {}");
    assert!(shadowed.starts_with("line 5: `N` is no"), "{shadowed}");
    for body in ["// unroll\n\nfor", "a(); // unroll\nfor", "// unroll\n// unroll", "// unroll\nloop"] {
        assert!(unrolled(body).starts_with("line 3: `// unroll` must stand alone"), "{body}");
    }
    for body in ["x = 1u;", "x <<= 1u;", "(x)--;", "a(&x);", "for (; x < 9u; x += 1u) {}"] {
        assert!(turn(body).ends_with("`x` of an unrolled loop is written to"), "{body}");
    }
    for body in ["if (b) { break; }", "continue;", "switch b { default: { continue; } }"] {
        assert!(turn(body).ends_with("of a loop that is to be unrolled"), "{body}");
    }
}

#[test]
fn a_register_tile_is_valid_before_and_after() {
    let source = "const LOADS = TILE * 8u / 4u / 128u; const TILE = 128u; const PITCH = 33u;
override D: u32; @group(0) @binding(0) var<storage, read> rows: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> scores: array<vec4<f32>>;
var<workgroup> tile: array<vec4<f32>, 8u * PITCH>;
@compute @workgroup_size(128) fn main(@builtin(local_invocation_index) lid: u32) {
  var acc: array<array<vec4<f32>, 4>, 4>; var next: array<vec4<f32>, LOADS>;
  for (var k0 = 0u; k0 < D; k0 += 2u) {
// unroll
for (var i = 0u; i < LOADS; i++) {
  next[i] = rows[lid + k0 + i * (TILE / LOADS)];
  // unroll
  for (var j = 0u; j < 4u; j++) { tile[lid + j * PITCH][lid % 4u] = next[i][j]; }
} workgroupBarrier();
for (var k = 0u; k < 8u; k++) { let a = tile[k * PITCH + lid / 8u];
  // unroll
  for (var x = 0u; x < 4u; x++) {
    // unroll
    for (var j = 0u; j < 4u; j++) { acc[x][j] = fma(vec4(a[x]), tile[k * PITCH + j], acc[x][j]); }
  }
} workgroupBarrier(); }
  // unroll
  for (var x = 0u; x < 4u; x++) { scores[lid * 4u + x] = acc[x][0] + acc[x][3u - x]; }
}";
    validate(source);
    let text = unroll(source, Driver::Hardware).expect("every marked loop has constant bounds");
    validate(&text);
    assert_eq!((text.matches("for (").count(), text.matches("next[1u][").count()), (2, 4));
    for (x, j) in (0..16).map(|at| (at / 4, at % 4)) {
        let sum =
            format!("{{ acc[{x}u][{j}u] = fma(vec4(a[{x}u]), tile[k * PITCH + {j}u], acc[{x}u][{j}u]);");
        assert_eq!(text.matches(&sum).count(), 1, "{text}");
    }
    assert_eq!(unroll(&text, Driver::Hardware).ok(), Some(text));
}

#[test]
fn loops_for_hardware_stay_loops_for_software() {
    let source = "fn f() {\n  // unroll on hardware\n  for (var i = 0u; i < 2u; i++) {\n    // unroll\n    for (var j = 0u; j < 2u; j++) { g(i, j); }\n  }\n}";
    let turns = |driver| {
        let text = unroll(source, driver).expect("both loops have constant bounds");
        ["for (", "g(0u, 1u)", "g(i, 1u)", "i < opaque(2u); i++"].map(|part| text.matches(part).count())
    };
    assert_eq!(turns(Driver::Hardware), [0, 1, 0, 0]);
    assert_eq!(turns(Driver::Software), [1, 0, 1, 1]);
}

#[test]
fn kernels_without_comments_have_the_same_tokens() {
    let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/wgsl"))];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the kernels' folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let full = std::fs::read_to_string(&path).expect("a kernel's text");
            let (bytes, len) = crate::gpu::bare::<65536>(full.as_bytes());
            let bare = std::str::from_utf8(&bytes[..len]).expect("whole characters");
            let tokens = |text| {
                let tokens = super::lex(text, Driver::Hardware).expect("tokens").into_iter();
                tokens.map(|one| (one.text.to_owned(), one.marked.is_some(), one.depth)).collect::<Vec<_>>()
            };
            assert_eq!(tokens(bare), tokens(&full), "{}", path.display());
            let markers =
                ["// unroll\n", "// unroll on hardware\n"].map(|marker| full.matches(marker).count());
            assert_eq!(bare.matches("//").count(), markers[0] + markers[1], "{}", path.display());
            files += 1;
        }
    }
    assert!(files > 90, "{files} files");
}

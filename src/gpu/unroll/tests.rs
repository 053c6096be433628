//! Unrolled text, errors, and a register tile.

use super::{Driver, unroll};

/// The text that `body`, in a function after some constants, unrolls to, without line breaks and indentation.
fn unrolled(body: &str) -> String {
    let head = "const M = N / 2u;\nconst N = 4u;\noverride O: u32;\nconst F = 1.5;\nfn f(p: u32) {\n";
    let text = unroll(&format!("{head}{body}\n}}"), Driver::Hardware).unwrap_or_else(|fault| fault);
    let text = text.strip_prefix(head).and_then(|text| text.strip_suffix("\n}")).unwrap_or(&text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Panics unless naga takes `source`.
fn validate(source: &str) {
    use naga::valid::{Capabilities, ValidationFlags, Validator};
    let module = naga::front::wgsl::parse_str(source).expect(source);
    Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).expect(source);
}

#[test]
fn heads_give_the_values_of_the_variable() {
    for (head, expected) in [
        ("var i = 0u; i < 2u; i++", "{ a(0u); } { a(1u); }"),
        ("var i = 1u; i <= 2u; i++", "{ a(1u); } { a(2u); }"),
        ("var i = 0u; i < 1u + 5u % 3u * (9u - 8u); i += 3u / 2u * 2u", "{ a(0u); } { a(2u); }"),
        ("var i = M; i < N; i++", "{ a(2u); } { a(3u); }"),
        ("var i = N; i < N; i++", ""),
    ] {
        assert_eq!(unrolled(&format!("// unroll\nfor ({head}) {{ a(i); }}")), expected);
    }
}

#[test]
fn inner_bounds_follow_the_outer_variable() {
    let inner = "  // unroll\n  for (var j = i; j <= i * 2u; j++) { a[i][j]; }";
    let expected = "{ { a[1u][1u]; } { a[1u][2u]; } } { { a[2u][2u]; } { a[2u][3u]; } { a[2u][4u]; } }";
    assert_eq!(unrolled(&format!("// unroll\nfor (var i = 1u; i < 3u; i++) {{\n{inner}\n}}")), expected);
}

#[test]
fn only_the_variable_itself_is_replaced() {
    let body = "v.x = xx + x; // x }\n y[x].x(-x); loop { if (x2) { break; } }";
    let text = unrolled(&format!("// unroll\nfor (var x = 7u; x < 8u; x++) {{ {body} }} x;"));
    assert_eq!(text, "{ v.x = xx + 7u; // x } y[7u].x(-7u); loop { if (x2) { break; } } } x;");
    let source = "fn x(x: u32) {\n  for (var i = x; i < 4u; i++) { i; }\n}\n";
    assert_eq!(unroll(source, Driver::Hardware).as_deref(), Ok(source));
}

#[test]
fn what_cannot_be_unrolled_is_an_error() {
    for (head, fault) in [
        ("var i = 0u; i < O; i++", "`O` is no constant"),
        ("var i = 0u; i < p; i++", "`p` is no constant"),
        ("var i = 0u; i < F; i++", "`F` is no constant"),
        ("var i = 0u; i < 4; i++", "`4` is no constant"),
        ("var i = 0u; i < 2u - 3u; i++", "`2u - 3u` is no constant"),
        ("var i = 0u; i < N / 0u; i++", "`N / 0u` is no constant"),
        ("var i = 0u; i < 65u; i++", "more than 64 turns"),
        ("var i = 0u; i < 5u; i += 0u", "more than 64 turns"),
        ("var i = 0u; i < 5u; i--", "its step is not"),
        ("var i = 4u; i > 0u; i++", "stands alone on the line before"),
    ] {
        let text = unrolled(&format!("// unroll\nfor ({head}) {{}}"));
        assert!(text.starts_with("`// unroll` of `for (var i = ") && text.contains(fault), "{head}: {text}");
    }
    let head = "for (var i = 0u; i < 1u; i++) {";
    for body in
        [format!("// unroll\n\n{head}}}"), format!("a(); // unroll\n{head}}}"), "// unroll\nloop {".into()]
    {
        assert!(unrolled(&body).contains("stands alone on the line before"), "{body}");
    }
    assert!(unrolled("// unroll twice\n").contains("is no marker"));
    assert!(unrolled(&format!("// unroll\n{head} if (b) {{ break; }} }}")).contains("`break` or"));
    // What naga would refuse, it refuses.
    let written = format!("fn f() {{\n// unroll\n{head} i = 1u; }}\n}}");
    let text = unroll(&written, Driver::Hardware).expect("the loop itself can be unrolled");
    assert!(naga::front::wgsl::parse_str(&text).is_err());
}

#[test]
fn a_register_tile_is_valid_before_and_after() {
    let source = "const LOADS = TILE * 8u / 4u / 128u;
const TILE = 128u;
const PITCH = 33u;
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
fn kernels_without_comments_have_the_same_code() {
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
            let is_marker = |line: &str| line.starts_with(super::ALWAYS);
            let code = |line: &'_ str| {
                if is_marker(line) { line } else { super::code_of(line).trim_end() }.to_owned()
            };
            let lines = full.lines().map(|line| code(line.trim_start())).filter(|line| !line.is_empty());
            assert_eq!(bare.lines().collect::<Vec<_>>(), lines.collect::<Vec<_>>(), "{}", path.display());
            files += 1;
        }
    }
    assert!(files > 90, "{files} files");
}

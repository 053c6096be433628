//! The README shows the examples that CI runs.

#[test]
fn the_examples_are_those_that_ci_runs() {
    let read = |name: &str| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        std::fs::read_to_string(path).expect("it is in the repository").replace("\r\n", "\n")
    };
    for name in ["examples/search.rs", "examples/ivf.rs", "examples/reduce.rs"] {
        let example = read(name);
        let code = example.split_once("\n\n").expect("code behind the first comment").1;
        assert!(read("README.md").contains(&format!("```rust\n{code}```")), "README.md and {name} differ");
    }
}

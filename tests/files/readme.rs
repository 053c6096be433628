//! The README and the guide show the examples that CI runs.

#[test]
fn the_examples_are_those_that_ci_runs() {
    let read = |name: &str| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        std::fs::read_to_string(path).expect("it is in the repository").replace("\r\n", "\n")
    };
    for (document, examples) in [
        ("README.md", &["search"][..]),
        (
            "docs/guide.md",
            &[
                "bits",
                "changes",
                "distances",
                "graph",
                "integers",
                "ivf",
                "memory",
                "place",
                "reduce",
                "refine",
            ],
        ),
    ] {
        for name in examples {
            let example = read(&format!("examples/{name}.rs"));
            let code = example.split_once("\n\n").expect("code behind the first comment").1;
            assert!(read(document).contains(&format!("```rust\n{code}```")), "{document} and {name} differ");
        }
    }
}

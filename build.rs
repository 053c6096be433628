//! Tells the command line program of which revision it is, for the lines of `nearfield bench`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Figures are of release builds; others need not be built again for each commit.
    let wants = |name, value: &str| std::env::var(name).is_ok_and(|given| given == value);
    if !wants("CARGO_FEATURE_CLI", "1") || !wants("PROFILE", "release") || !Path::new(".git").exists() {
        return;
    }
    println!("cargo:rerun-if-changed=.git/HEAD");
    println!("cargo:rerun-if-changed=.git/logs/HEAD");
    let Ok(output) = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output() else { return };
    if let (true, Ok(revision)) = (output.status.success(), String::from_utf8(output.stdout)) {
        println!("cargo:rustc-env=NEARFIELD_REVISION={}", revision.trim());
    }
}

//! Tells the program its git revision, which the lines of `nearfield-bench` state.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Figures come from release builds. Others need not be built again for each commit.
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    // Outside a repository, or inside another one, there is no revision to tell.
    let is_ours = |top: &String| Path::new(top).canonicalize().ok() == Path::new("..").canonicalize().ok();
    if git(&["rev-parse", "--show-toplevel"]).filter(is_ours).is_none() {
        return;
    }
    for file in ["HEAD", "logs/HEAD"] {
        // Cargo would run this script every time if the file did not exist.
        if let Some(path) = git(&["rev-parse", "--git-path", file]).filter(|path| Path::new(path).exists()) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    if let Some(revision) = git(&["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo:rustc-env=NEARFIELD_REVISION={revision}");
    }
}

/// The output of a git command, if there is git and it succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

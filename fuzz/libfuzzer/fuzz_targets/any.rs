//! The target that `NEARFIELD_FUZZ` names.
#![no_main]

use std::sync::LazyLock;

use nearfield_fuzz::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("NEARFIELD_FUZZ").expect("NEARFIELD_FUZZ names a target");
    TARGETS.into_iter().find(|target| target.name == name).expect("there is such a target")
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.run)(data));

//! `nearfield soak`.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::runs::{adapter, fail, has_adapter, succeed};

#[test]
fn soaks_every_device_for_the_given_time() -> Result<()> {
    let here = Path::new(".");
    for device in ["host".to_owned(), adapter()] {
        if device != "host" && !has_adapter() {
            continue;
        }
        let printed = succeed(here, &format!("soak --minutes 0.05 --seed 3 --device {device}"))?;
        let last = printed.lines().last().context("a line")?;
        ensure!(last.starts_with("No wrong answer in ") && last.contains(". Seeds 3 to "), "{printed}");
        ensure!(!last.contains(" 0 operations") && !last.contains(" 0 compared"), "{printed}");
    }
    fail(here, "soak --minutes 0", &["--minutes", "above 0", "'0'"])
}

//! Progress bars on stderr, if it is a terminal.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

/// A bar from 0 to `total`, which disappears when it is dropped.
pub fn bar(label: &'static str, total: usize) -> ProgressBar {
    let target =
        if stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let template = "{prefix:8} {wide_bar} {human_pos} of {human_len}, {eta} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(Some(total as u64), target).with_style(style);
    bar.with_prefix(label).with_finish(ProgressFinish::AndClear)
}

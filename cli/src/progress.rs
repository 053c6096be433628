//! Progress bars on stderr, if it is a terminal.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that disappears when it is dropped.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn new(label: &'static str, total: usize) -> Self {
        let target =
            if stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let template = "{prefix:8} {wide_bar} {human_pos} of {human_len}, {eta} left";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar =
            ProgressBar::with_draw_target(Some(total as u64), target).with_style(style).with_prefix(label);
        Self(bar)
    }

    pub(crate) fn set(&self, done: usize) {
        self.0.set_position(done as u64);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

//! The processor of this machine, and the other work that it does.

use std::thread;

use serde_json::{Value, json};
use sysinfo::{MINIMUM_CPU_UPDATE_INTERVAL, System};

use super::units::{percent, rounded};

/// The share of the processor that other programs may use without a remark.
pub(super) const QUIET: f64 = 0.1;

pub(super) struct Machine {
    name: Option<String>,
    /// The share of the processor that other programs use.
    busy: f64,
}

impl Machine {
    /// Watches the processor for a moment, in which this program must not use it.
    pub(super) fn look() -> Self {
        let mut system = System::new();
        system.refresh_cpu_all();
        thread::sleep(MINIMUM_CPU_UPDATE_INTERVAL);
        system.refresh_cpu_usage();
        let name = system.cpus().first().map(|cpu| cpu.brand().trim().to_owned());
        Self {
            name: name.filter(|name| !name.is_empty()),
            busy: f64::from(system.global_cpu_usage()) / 100.0,
        }
    }

    pub(super) fn fields(&self) -> Value {
        json!({ "processor": self.name, "busy": rounded(self.busy) })
    }

    /// One or two lines.
    pub(super) fn text(&self) -> String {
        let name = self.name.as_deref().unwrap_or("unknown");
        let busy = if self.busy > QUIET { format!("\n{}", busy(self.busy)) } else { String::new() };
        format!("processor: {name}{busy}")
    }
}

/// A warning about a share of the processor that other programs use.
pub(super) fn busy(share: f64) -> String {
    format!(
        "Other programs used {} of the processor when the run began: times may be too long.",
        percent(share)
    )
}

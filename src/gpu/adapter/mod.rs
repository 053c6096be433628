//! Adapters: listing them, and choosing one.

#[cfg(target_arch = "wasm32")]
mod browser;
mod description;
#[cfg(not(target_arch = "wasm32"))]
mod native;

#[cfg(target_arch = "wasm32")]
pub use browser::browser_instance;
#[cfg(target_arch = "wasm32")]
pub(crate) use browser::{NO_ADAPTER, enumerate};
pub use description::{Adapter, AdapterKind, Capabilities, CooperativeSize};
pub(crate) use description::{describe, wanted_features};
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use native::{NO_ADAPTER, enumerate};

use crate::error::{Error, Result};

/// Which adapter to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdapterChoice<'a> {
    /// The best, of whatever kind.
    Any,
    /// The best that is not a software driver.
    Hardware,
    /// The best software driver.
    Software,
    /// The best whose name contains this, in any case.
    Named(&'a str),
}

impl AdapterChoice<'_> {
    fn fits(self, adapter: &Adapter) -> bool {
        match self {
            Self::Any => true,
            Self::Hardware => adapter.kind != AdapterKind::Software,
            Self::Software => adapter.kind == AdapterKind::Software,
            Self::Named(name) => adapter.name.to_ascii_lowercase().contains(&name.to_ascii_lowercase()),
        }
    }
}

/// The best adapter of a choice.
pub(crate) async fn choose(choice: AdapterChoice<'_>) -> Result<(wgpu::Adapter, Adapter)> {
    let adapters = enumerate().await;
    let found = if adapters.is_empty() {
        NO_ADAPTER.to_owned()
    } else {
        let names: Vec<String> = adapters.iter().map(|(_, adapter)| adapter.to_string()).collect();
        names.join("; ")
    };
    adapters.into_iter().find(|(_, adapter)| choice.fits(adapter)).ok_or_else(|| Error::NoAdapter {
        needed: match choice {
            AdapterChoice::Named(name) => format!("an adapter whose name contains \"{name}\""),
            AdapterChoice::Software => "a software adapter".to_owned(),
            AdapterChoice::Hardware => "a GPU".to_owned(),
            AdapterChoice::Any => "an adapter that can compute".to_owned(),
        },
        found,
    })
}

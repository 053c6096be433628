//! The adapters of this machine, with what opens them.

#[cfg(target_arch = "wasm32")]
use super::browser::enumerate;
use super::choice::{AdapterChoice, Choice, listed};
use super::description::Adapter;
use super::memory::MemoryUsage;
use super::memory_of_adapter;
#[cfg(not(target_arch = "wasm32"))]
use super::native::enumerate;

/// Every adapter, best first.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) adapters: Vec<Adapter>,
    handles: Vec<wgpu::Adapter>,
}

impl Listing {
    /// Asks the drivers, or the browser.
    pub(crate) async fn new() -> Self {
        let (handles, mut adapters): (Vec<_>, Vec<_>) = enumerate().await.into_iter().unzip();
        number(&mut adapters);
        Self { adapters, handles }
    }

    /// What opens the adapter at a place, and the adapter.
    pub(in crate::gpu) fn at(&self, place: usize) -> (&wgpu::Adapter, &Adapter) {
        (&self.handles[place], &self.adapters[place])
    }

    /// The adapters in words, or why there may be none.
    pub(crate) fn words(&self) -> String {
        listed(&self.adapters)
    }

    /// The adapters, each with its memory.
    pub(crate) fn with_memory(self) -> Vec<(Adapter, Option<MemoryUsage>)> {
        let usages = self.handles.iter().map(memory_of_adapter);
        self.adapters.into_iter().zip(usages).collect()
    }
}

/// Gives adapters their indexes and selectors, and takes addresses that are not theirs: for DX12, wgpu finds the address of a card by its
/// model, which is that of the first card for all of the model.
pub(super) fn number(adapters: &mut [Adapter]) {
    let dx12 = |adapter: &Adapter| if adapter.backend == "dx12" { adapter.pci_address.clone() } else { None };
    let known: Vec<Option<String>> = adapters.iter().map(dx12).collect();
    for place in 0..adapters.len() {
        if known[place].is_some() && known.iter().filter(|other| **other == known[place]).count() > 1 {
            adapters[place].pci_address = None;
        }
        let name = &adapters[place].name;
        let number = (0..place).filter(|&other| AdapterChoice::Named(name).fits(&adapters[other])).count();
        let selector = format!("{name}#{number}");
        adapters[place].index = Some(place);
        adapters[place].selector = match Choice::one("", "", &selector) {
            Ok(_) => selector,
            // A comma of the name parts a list.
            Err(_) => place.to_string(),
        };
    }
}

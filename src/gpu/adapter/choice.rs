//! What the names of devices stand for, and which adapters of a list they are.

use super::NO_ADAPTER;
use super::description::{Adapter, AdapterKind};
use crate::error::{Error, Result};

/// Which adapter to open. Numbers are texts of digits, however many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdapterChoice<'a> {
    /// The best, of whatever kind.
    Any,
    /// The best that is not a software driver.
    Hardware,
    /// The best software driver.
    Software,
    /// The one with this index.
    Index(&'a str),
    /// The best whose name contains this, in any case.
    Named(&'a str),
    /// The one with this number among those whose name contains this.
    Numbered(&'a str, &'a str),
}

impl AdapterChoice<'_> {
    pub(super) fn fits(self, adapter: &Adapter) -> bool {
        match self {
            Self::Any | Self::Index(_) => true,
            Self::Hardware => adapter.kind != AdapterKind::Software,
            Self::Software => adapter.kind == AdapterKind::Software,
            Self::Named(part) | Self::Numbered(part, _) => {
                adapter.name.to_ascii_lowercase().contains(&part.to_ascii_lowercase())
            }
        }
    }

    /// How many adapters that fit come before the one; none where the number is larger than any list.
    fn number(self) -> Option<usize> {
        match self {
            Self::Index(number) | Self::Numbered(_, number) => number.parse().ok(),
            _ => Some(0),
        }
    }

    fn needed(self) -> String {
        match self {
            Self::Any => "an adapter that can compute".to_owned(),
            Self::Hardware => "a GPU".to_owned(),
            Self::Software => "a software adapter".to_owned(),
            Self::Index(number) => format!("an adapter with the index {number}"),
            Self::Named(part) => format!("an adapter whose name contains \"{part}\""),
            Self::Numbered(part, number) => {
                format!(
                    "an adapter with the number {number}, from 0, of those whose name contains \"{part}\""
                )
            }
        }
    }

    /// The place of the adapter in a list.
    pub(crate) fn pick(self, adapters: &[Adapter]) -> Result<usize> {
        let mut fitting = (0..adapters.len()).filter(|&place| self.fits(&adapters[place]));
        let picked = self.number().and_then(|number| fitting.nth(number));
        picked.ok_or_else(|| Error::NoAdapter { needed: self.needed(), found: listed(adapters) })
    }
}

/// Adapters with their indexes, in words.
pub(super) fn listed(adapters: &[Adapter]) -> String {
    if adapters.is_empty() {
        return NO_ADAPTER.to_owned();
    }
    let words: Vec<String> =
        adapters.iter().enumerate().map(|(index, adapter)| format!("{index}: {adapter}")).collect();
    words.join("; ")
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice<'a> {
    /// The best GPU; the processor where there is none.
    Best,
    /// Every GPU.
    All,
    /// The processor.
    Host,
    Adapter(AdapterChoice<'a>),
}

impl<'a> Choice<'a> {
    /// What the name of one device stands for, or `all`.
    pub(crate) fn of(name: &'a str) -> Self {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match name.to_ascii_lowercase().as_str() {
            "best" => Self::Best,
            "all" => Self::All,
            "host" => Self::Host,
            "gpu" => Self::Adapter(AdapterChoice::Any),
            "software" => Self::Adapter(AdapterChoice::Software),
            _ if is_number(name) => Self::Adapter(AdapterChoice::Index(name)),
            _ => Self::Adapter(match name.rsplit_once('#') {
                Some((part, number)) if is_number(number) => AdapterChoice::Numbered(part.trim_end(), number),
                _ => AdapterChoice::Named(name),
            }),
        }
    }

    /// The names in a list that an argument or a variable gives.
    pub(crate) fn names(argument: &'static str, list: &'a str) -> Result<Vec<&'a str>> {
        let mut depth = 0_usize;
        // Names of drivers have commas in parentheses: `llvmpipe (LLVM 15.0.6, 256 bits)`.
        let is_between = |letter: char| {
            match letter {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            letter == ',' && depth == 0
        };
        let names: Vec<&str> = list.split(is_between).map(str::trim).collect();
        match &names[..] {
            [""] => Err(Error::argument(argument, "a name", "an empty one")),
            names if names.contains(&"") => {
                Err(Error::argument(argument, "a name on each side of a comma", format!("\"{list}\"")))
            }
            _ => Ok(names),
        }
    }

    /// What a name stands for where it must be that of one device: `needed` says so in the error.
    pub(crate) fn one(argument: &'static str, needed: &str, name: &'a str) -> Result<Self> {
        match Self::names(argument, name)?[..] {
            [one] if Self::of(one) != Self::All => Ok(Self::of(one)),
            _ => Err(Error::argument(argument, needed, format!("the list \"{name}\""))),
        }
    }
}

/// The places of all GPUs in a list. One that two interfaces list is there once.
pub(crate) fn every_gpu(adapters: &[Adapter]) -> Result<Vec<usize>> {
    let mut gpus = vec![AdapterChoice::Hardware.pick(adapters)?];
    for place in gpus[0] + 1..adapters.len() {
        let adapter = &adapters[place];
        let is_new = gpus.iter().all(|&gpu| !is_again(adapter, &adapters[gpu]));
        if AdapterChoice::Hardware.fits(adapter) && is_new {
            gpus.push(place);
        }
    }
    Ok(gpus)
}

/// Whether an adapter is one that came before it. Of two interfaces, one may not tell the address; it lists the same cards by the same names.
fn is_again(adapter: &Adapter, before: &Adapter) -> bool {
    let is_known = adapter.pci_address.is_some() && before.pci_address.is_some();
    let has_name = adapter.backend != before.backend && adapter.name.eq_ignore_ascii_case(&before.name);
    adapter.is_same_hardware(before) || (has_name && !is_known)
}

/// Refuses a list of devices that has a GPU twice: pairs of a name and the place of its adapter in the list of all.
pub(crate) fn refuse_twice(devices: &[(&str, usize)], adapters: &[Adapter]) -> Result<()> {
    for (number, &(name, place)) in devices.iter().enumerate() {
        let twin =
            devices[..number].iter().find(|(_, other)| adapters[*other].is_same_hardware(&adapters[place]));
        if let Some((before, _)) = twin {
            let given = format!("\"{before}\" and \"{name}\", which are the same: {}", adapters[place]);
            return Err(Error::argument("device", "each GPU once", given));
        }
    }
    Ok(())
}

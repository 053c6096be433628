//! Opens the engines that names ask for.

use std::sync::Arc;

use crate::engine::device::engine::Engine;
use crate::error::Result;
use crate::future::Boxed;
use crate::gpu::{AdapterChoice, Choice, Gpu, Listing, every_gpu, refuse_twice};
use crate::host::Host;
use crate::options::device::DeviceOptions;
use crate::parallel;

/// The variable that says which device is the best.
const VARIABLE: &str = "NEARFIELD_ADAPTER";

/// An engine, and why it was taken.
pub(super) type Opened = (Engine, String);

/// A name that the caller gives, and what the variable puts in its place.
struct Request<'a> {
    name: &'a str,
    asked: Option<String>,
}

impl<'a> Request<'a> {
    fn of(name: &'a str) -> Self {
        let is_best = name.eq_ignore_ascii_case("best");
        let asked = std::env::var_os(VARIABLE).filter(|asked| is_best && !asked.is_empty());
        // Bytes that are no text match no name.
        Self { name, asked: asked.map(|asked| asked.to_string_lossy().into_owned()) }
    }

    fn choice(&self) -> Result<Choice<'_>> {
        match &self.asked {
            Some(asked) => Choice::one(VARIABLE, "one device (Device::open_all takes lists)", asked),
            None => Ok(Choice::of(self.name)),
        }
    }

    fn reason(&self) -> String {
        let (who, name) = match &self.asked {
            Some(asked) => (VARIABLE, asked.as_str()),
            None => ("the caller", self.name),
        };
        format!("because {who} asks for \"{name}\"")
    }
}

/// Opens the device of a name, or takes one of the `known` engines that has the adapter which the name stands for.
pub(super) fn one<'a>(name: &'a str, options: DeviceOptions, known: &'a [Engine]) -> Boxed<'a, Opened> {
    Box::pin(async move {
        Choice::one("device", "one device", name)?;
        let mut opened = each(&[name.trim()], options, known).await?;
        // One name that is no list is one device.
        Ok(opened.remove(0))
    })
}

pub(super) fn all(names: &str, options: DeviceOptions) -> Boxed<'_, Vec<Opened>> {
    Box::pin(async move { each(&Choice::names("device", names)?, options, &[]).await })
}

/// The key of a name: names with equal keys open the same device as long as the machine stays the same.
pub(super) fn key(name: &str) -> String {
    let request = Request::of(name.trim());
    request.asked.as_deref().unwrap_or(request.name).to_ascii_lowercase()
}

async fn each(names: &[&str], options: DeviceOptions, known: &[Engine]) -> Result<Vec<Opened>> {
    let requests: Vec<Request<'_>> = names.iter().map(|name| Request::of(name)).collect();
    let choices = requests.iter().map(Request::choice).collect::<Result<Vec<_>>>()?;
    // Nobody asks drivers for the processor.
    let asks = choices.iter().any(|choice| *choice != Choice::Host);
    let listing = if asks { Listing::new().await } else { Listing::default() };
    let adapters = &listing.adapters;
    let mut devices: Vec<(&str, Option<usize>, String)> = vec![];
    for (request, choice) in requests.iter().zip(choices) {
        let places = match choice {
            Choice::Host => vec![None],
            Choice::Adapter(choice) => vec![Some(choice.pick(adapters)?)],
            Choice::All => every_gpu(adapters)?.into_iter().map(Some).collect(),
            Choice::Best => vec![AdapterChoice::Hardware.pick(adapters).ok()],
        };
        let reason = match (choice, &places[..]) {
            (Choice::Best, [None]) => format!("because there is no GPU ({})", listing.words()),
            (Choice::Best, _) => {
                "because it is the best GPU: discrete ones come before integrated and virtual ones".to_owned()
            }
            _ => request.reason(),
        };
        devices.extend(places.into_iter().map(|place| (request.name, place, reason.clone())));
    }
    let gpus: Vec<_> = devices.iter().filter_map(|&(name, place, _)| Some((name, place?))).collect();
    refuse_twice(&gpus, adapters)?;
    parallel::start_threads()?;
    let mut opened = vec![];
    for (_, place, reason) in devices {
        let options = options.clone();
        let known = known.iter().find(|engine| match place {
            Some(place) => engine.adapter().is_again(&adapters[place]),
            None => matches!(engine, Engine::Host(_)),
        });
        let engine = match (known, place) {
            (Some(engine), _) => engine.clone(),
            (None, Some(place)) => Engine::Gpu(Arc::new(Gpu::open(&listing, place, options).await?)),
            (None, None) => Engine::Host(Arc::new(Host::new(options))),
        };
        opened.push((engine, reason));
    }
    Ok(opened)
}

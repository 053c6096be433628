//! Devices by name, index and list.

use crate::common::{Engine, gpu, options};
use nearfield::internals::are_same_hardware;
use nearfield::{Adapter, AdapterKind, Device, Error, Metric, Output};
use nearfield_testing::view;

/// The adapter that the tests run on; none on the host engine.
fn adapter() -> Option<&'static Adapter> {
    gpu().map(Device::adapter)
}

fn open_all(names: &str) -> Result<Vec<Device>, Error> {
    Device::open_all(names, options())
}

#[test]
fn adapters_are_numbered_and_opened_by_index_number_and_selector() {
    let Some(adapter) = adapter() else { return };
    let listed = Device::adapters();
    for (place, one) in listed.iter().enumerate() {
        assert_eq!(one.index, Some(place));
    }
    let index = adapter.index.expect("a listed adapter");
    assert_eq!(&listed[index], adapter);
    for name in [index.to_string(), format!(" {index} "), format!("#{index}"), adapter.selector.clone()] {
        let device = Device::named(&name).expect(&name);
        assert_eq!(device.adapter(), adapter, "{name}");
        assert_eq!(device.reason(), format!("because the caller asks for \"{}\"", name.trim()));
    }
    let name = format!("host,{}", listed.len());
    let error = open_all(&name).expect_err("an index beyond the list");
    assert!(matches!(error, Error::NoAdapter { .. }), "{error}");
    assert!(error.to_string().contains(&format!("{index}: {adapter}")), "{error}");
    assert_eq!(Device::host().adapter().index, None);
    assert_eq!(Device::host().adapter().selector, "host");
}

#[test]
fn a_software_driver_can_be_in_a_list_twice_and_a_gpu_cannot() {
    let Some(adapter) = adapter() else { return };
    let index = adapter.index.expect("a listed adapter");
    let (same, three) = (format!("{index},{}", adapter.selector), format!("host,{index},best"));
    if adapter.kind == AdapterKind::Software {
        for names in [same, "software,software".to_owned()] {
            let devices = open_all(&names).expect("two devices");
            assert_eq!(devices.len(), 2, "{names}");
            // Each has what it computes with of its own: vectors of one are not the other's.
            let rows = devices[0].upload(view(&[1.0f32, 2.0], 2)).expect("rows");
            let query = devices[1].upload(view(&[1.0f32, 2.0], 2)).expect("a query");
            let refused = devices[0].distances(&query, &rows, Metric::L2, Output::Distance);
            let error = refused.expect_err("two devices");
            assert!(error.to_string().contains("on the same device"), "{error}");
        }
        // `best` is what the environment asks for, here the software driver, or the processor.
        assert_eq!(open_all(&three).expect("three devices").len(), 3);
    } else {
        let error = open_all(&same).expect_err("one GPU twice");
        assert!(matches!(error, Error::Argument { argument: "device", .. }), "{error}");
        let both = format!("\"{index}\" and \"{}\"", adapter.selector);
        assert!(error.to_string().contains(&both), "{error}");
    }
}

#[test]
fn all_gpus_are_opened_once_and_software_drivers_are_none() {
    let Some(adapter) = adapter() else { return };
    let is_gpu = |adapter: &Adapter| adapter.kind != AdapterKind::Software;
    match open_all("all") {
        Ok(devices) => {
            let places: Vec<_> = devices.iter().map(|device| device.adapter().index).collect();
            assert!(devices.iter().all(|device| is_gpu(device.adapter())), "{places:?}");
            assert!(places.is_sorted() && places[0] == Some(0), "{places:?}");
            open_all("all,0").expect_err("one GPU twice");
        }
        Err(error) => {
            assert!(!Device::adapters().iter().any(is_gpu), "{error}");
            let text = error.to_string();
            assert!(
                text.starts_with("device: needed a GPU, found 0: ") && text.contains(&adapter.name),
                "{text}"
            );
        }
    }
}

#[test]
fn the_processor_can_be_in_a_list_twice() {
    let later = pollster::block_on(Device::open_all_async("host,host", options()));
    for devices in [open_all("host, HOST"), later] {
        let devices = devices.expect("two devices");
        assert!(
            devices.len() == 2 && devices.iter().all(|device| device.adapter().kind == AdapterKind::Host)
        );
    }
    // The unit tests of names have every other refusal.
    for refused in [Device::named("host,host").map(drop), open_all("host,,host").map(drop)] {
        let error = refused.expect_err("no name of a device");
        assert!(matches!(error, Error::Argument { argument: "device", .. }), "{error}");
    }
}

/// Linux tells for the host, and most Vulkan drivers for their cards.
#[test]
fn memory_in_use_is_told_while_it_is_in_use() {
    let devices = [Engine::Host, Engine::Adapter].into_iter().filter_map(Engine::device);
    for (device, usage) in devices.filter_map(|device| Some((device, device.memory_usage()?))) {
        let adapter = device.adapter();
        let most = adapter.memory_bytes.expect("the size of the memory");
        assert!(usage.free_bytes > 0 && usage.free_bytes <= most, "{adapter}: {usage:?} of {most}");
        let values = vec![1.0f32; 32 << 20];
        let kept = device.upload(view(&values, 1 << 10)).expect("room");
        let now = device.memory_usage().expect("told before");
        // Other tests of this process come and go at the same time, with less than this.
        assert!(now.used_bytes > usage.used_bytes + (32 << 20), "{adapter}: {usage:?}, then {now:?}");
        drop(kept);
    }
    for (adapter, usage) in Device::adapters_with_memory() {
        assert!(usage.is_none() || adapter.backend == "vulkan", "{adapter}: {usage:?}");
    }
    if cfg!(target_os = "linux") {
        assert!(Device::host().memory_usage().is_some());
    }
}

#[test]
fn every_name_of_a_device_shares_it() {
    let shared = |name: &str| Device::shared(Some(name)).expect(name);
    let host = shared("host");
    assert!(are_same_hardware(&host, &shared(" Host ")) && !are_same_hardware(&host, &Device::host()));
    assert!(Device::shared(Some("host,host")).is_err() && Device::shared(Some("no such card")).is_err());
    if adapter().is_none() {
        return;
    }
    let (first, device) = (&Device::adapters()[0], shared("0"));
    for name in ["gpu", &first.selector, &first.name] {
        let [one, other] = [&device, &shared(name)].map(|one| one.wgpu_device().expect("a GPU").clone());
        assert_eq!(one, other, "{name}");
        assert!(
            shared(name).reason().ends_with(&format!("asks for \"{name}\"")),
            "{}",
            shared(name).reason()
        );
    }
}

#[test]
fn a_device_is_its_clones_and_a_gpu_is_itself() {
    let open = |names| open_all(names).expect(names);
    let hosts = open("host,host");
    assert!(are_same_hardware(&hosts[0], &hosts[0].clone()) && !are_same_hardware(&hosts[0], &hosts[1]));
    if adapter().is_none() {
        return;
    }
    let [one, other] = [0, 1].map(|_| Device::named("0").expect("the adapter can be opened"));
    assert!(are_same_hardware(&one, &one.clone()));
    let is_one = one.adapter().kind != AdapterKind::Software;
    assert_eq!(are_same_hardware(&one, &other), is_one, "{}", one.adapter());
    assert!(!are_same_hardware(&one, &hosts[0]) && !are_same_hardware(&hosts[0], &one));
}

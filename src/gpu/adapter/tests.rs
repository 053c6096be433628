use super::choice::{AdapterChoice, Choice, every_gpu, refuse_twice};
use super::description::{Adapter, AdapterKind, Capabilities, CooperativeSize};
use super::listing::number;
use crate::error::{Error, Result};

fn adapter(name: &str, backend: &str, kind: AdapterKind, address: &str) -> Adapter {
    Adapter {
        index: None,
        name: name.to_owned(),
        selector: name.to_owned(),
        backend: backend.to_owned(),
        driver: "1.0".to_owned(),
        kind,
        vendor: None,
        pci_address: Some(address.to_owned()).filter(|address| !address.is_empty()),
        memory_bytes: None,
        capabilities: Capabilities::default(),
    }
}

fn numbered(mut adapters: Vec<Adapter>) -> Vec<Adapter> {
    number(&mut adapters);
    adapters
}

/// Two cards of one model, one of another, a GPU without an address, and a software driver.
fn mixed() -> Vec<Adapter> {
    numbered(vec![
        adapter("NVIDIA H200", "vulkan", AdapterKind::Discrete, "0000:18:00.0"),
        adapter("NVIDIA H200", "vulkan", AdapterKind::Discrete, "0000:2a:00.0"),
        adapter("NVIDIA H100 NVL", "vulkan", AdapterKind::Discrete, "0000:3a:00.0"),
        adapter("Iris Xe 2", "vulkan", AdapterKind::Integrated, ""),
        adapter("llvmpipe (LLVM 15.0.6, 256 bits)", "vulkan", AdapterKind::Software, ""),
    ])
}

/// The place of the adapter that a name stands for.
fn place(name: &str, adapters: &[Adapter]) -> Result<usize> {
    match Choice::one("device", "one device", name)? {
        Choice::Adapter(choice) => choice.pick(adapters),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn names_words_and_numbers_pick_their_adapters() {
    let adapters = mixed();
    for (name, wanted) in [
        ("gpu", 0),
        ("Software", 4),
        ("nvidia h200", 0),
        ("NVIDIA", 0),
        ("h100", 2),
        ("llvmpipe (LLVM 15.0.6, 256 bits)", 4),
        ("0", 0),
        ("4", 4),
        ("001", 1),
        ("NVIDIA H200#0", 0),
        ("NVIDIA H200#1", 1),
        ("nvidia #2", 2),
        ("#3", 3),
        // A number wins over a part of a name, such as `Iris Xe 2`, even where there is none with it.
        ("2", 2),
        ("xe 2", 3),
    ] {
        assert_eq!(place(name, &adapters).expect(name), wanted, "{name}");
    }
    assert_eq!(AdapterChoice::Hardware.pick(&adapters).expect("a GPU"), 0);
    assert!(matches!(Choice::one("device", "one device", "HOST"), Ok(Choice::Host)));
    assert!(matches!(Choice::one("device", "one device", "Best"), Ok(Choice::Best)));
}

#[test]
fn what_no_adapter_has_is_refused_with_all_there_are_and_their_indexes() {
    let adapters = mixed();
    for (name, needed) in [
        ("5", "an adapter with the index 5"),
        ("340282366920938463463374607431768211456", "the index 340282366920938463463374607431768211456"),
        ("NVIDIA H200#2", "number 2, from 0, of those whose name contains \"NVIDIA H200\""),
        ("gpu#0", "whose name contains \"gpu\""),
        ("radeon", "whose name contains \"radeon\""),
    ] {
        let error = place(name, &adapters).expect_err(name);
        assert!(matches!(error, Error::NoAdapter { .. }), "{error}");
        let text = error.to_string();
        for part in [needed, "0: NVIDIA H200 (discrete, vulkan, 1.0); 1: NVIDIA H200 (", "; 4: llvmpipe"] {
            assert!(text.contains(part), "{name}, {part}: {text}");
        }
    }
    let error = place("0", &[]).expect_err("no adapters").to_string();
    assert!(error.ends_with(super::NO_ADAPTER), "{error}");
}

#[test]
fn a_list_is_split_at_commas_outside_of_parentheses() {
    let names = |list| Choice::names("device", list);
    assert_eq!(names("0, 1 ,host").expect("names"), ["0", "1", "host"]);
    let list = "llvmpipe (LLVM 15.0.6, 256 bits),NVIDIA H200#1";
    assert_eq!(names(list).expect("names"), ["llvmpipe (LLVM 15.0.6, 256 bits)", "NVIDIA H200#1"]);
    assert_eq!(names("a),b").expect("names"), ["a)", "b"]);
    for empty in ["", "  "] {
        let error = names(empty).expect_err("no name").to_string();
        assert_eq!(error, "device: needed a name, given an empty one");
    }
    for empty in [",", "0,", ",0", "0,,1", "0, ,1"] {
        let error = names(empty).expect_err("no name").to_string();
        assert_eq!(error, format!("device: needed a name on each side of a comma, given \"{empty}\""));
    }
}

#[test]
fn a_list_is_refused_where_one_device_is_needed() {
    for list in ["0,1", "host,host", "all", "ALL"] {
        let error = Choice::one("device", "one device", list).expect_err("a list");
        assert!(matches!(error, Error::Argument { argument: "device", .. }), "{error}");
        assert_eq!(error.to_string(), format!("device: needed one device, given the list \"{list}\""));
    }
}

#[test]
fn selectors_open_their_own_adapters() {
    let mut adapters = mixed();
    adapters.push(adapter("card, second edition #2", "vulkan", AdapterKind::Discrete, ""));
    adapters.push(adapter("H200", "dx12", AdapterKind::Discrete, ""));
    let adapters = numbered(adapters);
    for (index, adapter) in adapters.iter().enumerate() {
        assert_eq!(adapter.index, Some(index));
        assert_eq!(place(&adapter.selector, &adapters).expect("an adapter"), index, "{}", adapter.selector);
    }
    assert_eq!(adapters[1].selector, "NVIDIA H200#1");
}

#[test]
fn every_gpu_is_listed_once_and_no_software_driver() {
    assert_eq!(every_gpu(&mixed()).expect("GPUs"), [0, 1, 2, 3]);
    let card = |backend, address| adapter("Card", backend, AdapterKind::Discrete, address);
    let gpus = |adapters| every_gpu(&numbered(adapters)).expect("GPUs");
    // One card by two interfaces, which may write its name differently.
    let other = adapter("Card (RADV)", "vulkan", AdapterKind::Discrete, "0000:01:00.0");
    assert_eq!(gpus(vec![card("dx12", "0000:01:00.0"), other]), [0]);
    // Two of a model, for which DX12 tells the first one's address.
    let (first, second) = ("0000:01:00.0", "0000:02:00.0");
    let two = vec![card("vulkan", first), card("vulkan", second), card("dx12", first), card("dx12", first)];
    assert_eq!(numbered(two.clone())[2].pci_address, None);
    assert_eq!(gpus(two), [0, 1]);
    // Two of a model without addresses are two.
    assert_eq!(gpus(vec![card("metal", ""), card("metal", "")]), [0, 1]);

    let software = numbered(vec![adapter("llvmpipe", "vulkan", AdapterKind::Software, "")]);
    let error = every_gpu(&software).expect_err("no GPU").to_string();
    assert_eq!(error, "device: needed a GPU, found 0: llvmpipe (software, vulkan, 1.0)");
}

#[test]
fn a_gpu_twice_is_refused_with_both_names_and_a_software_driver_is_not() {
    let mut adapters = mixed();
    adapters.push(adapter("NVIDIA H200", "dx12", AdapterKind::Discrete, "0000:2a:00.0"));
    let adapters = numbered(adapters);
    refuse_twice(&[("0", 0), ("nvidia#1", 1), ("4", 4), ("software", 4)], &adapters).expect("different ones");
    for (names, wanted) in [
        // The same place, by its address and without one.
        ([("gpu", 0), ("1", 1), ("NVIDIA H200#0", 0)], "\"gpu\" and \"NVIDIA H200#0\""),
        ([("xe", 3), ("0", 0), ("3", 3)], "\"xe\" and \"3\""),
        // One card by two interfaces.
        ([("0", 0), ("1", 1), ("5", 5)], "\"1\" and \"5\""),
    ] {
        let error = refuse_twice(&names, &adapters).expect_err("one twice");
        assert!(matches!(error, Error::Argument { argument: "device", .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("needed each GPU once") && text.contains(wanted), "{wanted}: {text}");
    }
}

#[test]
fn an_adapter_without_an_index_is_another_by_its_address_alone() {
    let listed = mixed();
    let of_caller = |place: usize| Adapter { index: None, ..listed[place].clone() };
    assert!(of_caller(1).is_same_hardware(&listed[1]) && of_caller(1).is_same_hardware(&of_caller(1)));
    assert!(!of_caller(1).is_same_hardware(&listed[0]));
    assert!(!of_caller(3).is_same_hardware(&listed[3]) && !of_caller(3).is_same_hardware(&of_caller(3)));
    assert!(!listed[4].is_same_hardware(&listed[4]), "a software driver is as many devices as are wanted");
}

#[cfg(target_os = "linux")]
#[test]
fn an_instance_without_windows_has_the_same_adapters() {
    let backends = wgpu::Backends::VULKAN;
    let descriptor = || {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = backends;
        descriptor
    };
    let adapters = |instance: wgpu::Instance| {
        let listed = crate::gpu::NoDevice.complete(instance.enumerate_adapters(backends));
        listed.iter().map(|one| (one.get_info(), one.features(), one.limits())).collect::<Vec<_>>()
    };
    let Some(instance) = super::no_window::without_windows(&descriptor()) else {
        return println!("skipped: no Vulkan");
    };
    assert_eq!(adapters(instance), adapters(wgpu::Instance::new(descriptor())));
}

/// Sizes as drivers list them: Hopper, RDNA3, Arc DG2, Apple's on Metal, and a processor.
#[test]
fn matrices_are_those_that_kernels_are_written_for() {
    let of = |sizes: &[[u32; 3]], subgroup_sizes| {
        let size = |&size| CooperativeSize { size, operands: "f16".into(), accumulator: "f32".into() };
        let cooperative_sizes = sizes.iter().map(size).collect();
        Capabilities { f16: true, cooperative_sizes, subgroup_sizes, ..Capabilities::default() }.matrices()
    };
    assert_eq!(of(&[[16, 8, 8], [16; 3]], Some((32, 32))), Some([16, 32]));
    assert_eq!(of(&[[16; 3]], Some((32, 64))), Some([16, 64]));
    assert_eq!(of(&[[8, 8, 16]], Some((8, 32))), None);
    assert_eq!(of(&[[8; 3]], Some((4, 64))), Some([8, 32]));
    assert_eq!(of(&[[8; 3]], Some((8, 8))), None);
    assert_eq!(of(&[[16; 3]], Some((16, 128))), None);
}

//! What an idle device costs. In a test binary of its own, because it looks at the memory of the whole process.
#![cfg(target_os = "linux")]

use nearfield::{Device, Flat, Metric, wgpu};

/// Bytes of this process that lie in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a resident size");
    let kilobytes: u64 = line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number");
    kilobytes << 10
}

#[test]
fn an_idle_device_with_an_empty_index_stays_under_64_mib() {
    let Ok(device) = Device::best() else {
        assert!(std::env::var_os("NEARFIELD_REQUIRE_GPU").is_none(), "no adapter");
        println!("skipped: no adapter");
        return;
    };
    let with_first = resident();
    // A plain wgpu device of the same adapter is what the driver takes; ours is compared with a second plain one.
    let adapter = pollster::block_on(async {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle().with_env());
        let adapters = instance.enumerate_adapters(wgpu::Backends::all()).await;
        adapters.into_iter().find(|adapter| {
            let info = adapter.get_info();
            info.name == device.adapter().name && info.backend.to_str() == device.adapter().backend
        })
    })
    .expect("the adapter that was just opened");
    let plain =
        pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor::default())).expect("a device");
    let with_plain = resident();
    let second = Device::named(&device.adapter().name).expect("the same adapter");
    let index = Flat::builder(&second, Metric::L2Squared, 768).build().expect("an empty index");
    let with_index = resident();
    println!(
        "{}: {} KiB, with a plain wgpu device {} KiB more, with an empty index on a device of its own {} KiB more",
        device.adapter(),
        with_first >> 10,
        with_plain.saturating_sub(with_first) >> 10,
        with_index.saturating_sub(with_plain) >> 10,
    );
    assert!(index.is_empty());
    assert!(with_index < with_plain + (64 << 20), "{with_plain} bytes before, {with_index} after");
    drop(plain);
}

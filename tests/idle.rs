//! An idle device takes little memory and no processor time. These tests have a binary of their own because they measure
//! the whole process.
#![cfg(target_os = "linux")]

use std::future::Future;
use std::sync::Mutex;
use std::task::{Context, Waker};
use std::time::Duration;

use nearfield::{Device, Flat, MatrixView, Metric, wgpu};

/// One test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// The device of `NEARFIELD_ADAPTER`, or the best adapter; none on the host engine, whose futures are ready at once.
fn opened() -> Option<Device> {
    let wanted = std::env::var("NEARFIELD_ADAPTER").ok().filter(|name| !name.is_empty());
    let Ok(device) = Device::named(wanted.as_deref().unwrap_or("gpu")) else {
        assert_ne!(std::env::var("NEARFIELD_REQUIRE_GPU").as_deref(), Ok("1"), "no adapter");
        println!("skipped: no adapter");
        return None;
    };
    Some(device).filter(|device| device.capabilities().max_storage_buffers > 0)
}

/// An index of the numbers below 4,000.
fn index_of_numbers(device: &Device) -> Flat {
    let rows: Vec<f32> = (0..4000).map(|row| row as f32).collect();
    let mut index = Flat::builder(device, Metric::L2, 1).build().expect("an index");
    index.add(MatrixView::new(&rows, 1).expect("rows")).expect("good rows");
    index
}

/// Bytes of this process that lie in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a resident size");
    let kilobytes: u64 = line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number");
    kilobytes << 10
}

#[test]
fn an_idle_device_with_an_empty_index_stays_under_64_mib() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(device) = opened() else { return };
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

/// A thread that is left would take the device down while the process ends: NVIDIA's driver crashed then.
#[test]
fn no_thread_outlives_its_device() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(device) = opened() else { return };
    let index = index_of_numbers(&device);
    let queries = MatrixView::new(&[0.0f32], 1).expect("a query");
    // No blocking call polls the device for this future.
    pollster::block_on(index.search_async(queries, 1)).expect("an answer");
    let polls = || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("Linux has it");
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.starts_with("nearfield-")).collect::<Vec<_>>()
    };
    assert!(polls().contains(&"nearfield-poll\n".to_owned()));
    drop((index, device));
    let left = polls();
    assert!(left.is_empty(), "{left:?}");
}

/// Clock ticks (a hundredth of a second each) that this process has computed.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let after_name = &stat[stat.rfind(')').expect("the name is in brackets")..];
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    // User and system time are fields 14 and 15, counted from the process number.
    fields[12].parse::<u64>().expect("a number") + fields[13].parse::<u64>().expect("a number")
}

#[test]
#[ignore = "nightly"]
fn a_future_that_nobody_polls_keeps_no_thread_busy() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(device) = opened() else { return };
    let index = index_of_numbers(&device);
    let queries = MatrixView::new(&[0.0f32], 1).expect("a query");
    index.search(queries, 1).expect("an answer");
    let mut waiting = Box::pin(index.search_async(queries, 1));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    std::thread::sleep(Duration::from_millis(300));
    let before = ticks();
    std::thread::sleep(Duration::from_millis(1000));
    let spent = ticks() - before;
    assert!(spent < 30, "{spent} hundredths of a second, of 100");
    drop(waiting);
}

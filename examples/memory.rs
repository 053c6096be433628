//! A limit of the memory that rows hold on a device: `cargo run --release --example memory`.

use nearfield::{Device, DeviceOptions, Flat, MatrixView, Metric, Residency};

fn main() -> Result<(), nearfield::Error> {
    let device = Device::open(Some("gpu"), DeviceOptions::new().memory_bytes(1 << 20))?;
    let mut index = Flat::builder(&device, Metric::L2, 64).residency(Residency::Auto).build()?;
    let rows: Vec<f32> = (0..10_000 * 64).map(|i| (i as f32 * 0.37).sin()).collect();
    index.add(MatrixView::new(&rows, 64)?)?; // 2.6 MB and a copy of 0.8 MB
    assert_eq!(index.residency(), Residency::Host);
    println!("{}; {}", index.plan(100, 10)?, index.memory());
    Ok(())
}

//! Indexes under a limit of the bytes that rows may hold on a device.

mod limit;
mod outgrown;

use nearfield::{Device, Flat, FlatBuilder, Metric, Neighbors, Quantization, Residency};

use nearfield_testing::{Random, view};

const DIM: usize = 32;

/// Bytes that a row takes on a device: elements, norms and id, and its 8-bit copy with terms.
const STORED: u64 = 4 * DIM as u64 + 16;
const QUANTIZED: u64 = DIM as u64 + 16;

fn builder(device: &Device) -> FlatBuilder {
    Flat::builder(device, Metric::L2, DIM).quantization(Quantization::Int8)
}

fn build(device: &Device, place: Residency) -> Flat {
    builder(device).residency(place).build().expect("an index")
}

fn add(index: &mut Flat, values: &[f32]) {
    index.add(view(values, DIM)).expect("good rows");
}

fn values(seed: u64, rows: usize) -> Vec<f32> {
    Random::new(seed).floats(rows * DIM)
}

fn bits(found: &Neighbors) -> Vec<(u64, u32)> {
    found.hits().iter().map(|hit| (hit.id, hit.distance.to_bits())).collect()
}

fn answers(index: &Flat) -> Vec<(u64, u32)> {
    bits(&index.search(view(&values(99, 40), DIM), 10).expect("an answer"))
}

/// Bytes of rows on the device, as the limit counts them.
fn held(index: &Flat) -> u64 {
    held_in(index, Residency::Device)
}

fn held_in(index: &Flat, place: Residency) -> u64 {
    let memory = index.memory();
    let of_rows = |name| ["rows", "norms", "ids", "integers"].contains(&name);
    let parts = memory.parts().iter();
    parts.filter(|part| part.residency == place && of_rows(part.name)).map(|part| part.bytes).sum()
}

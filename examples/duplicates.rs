//! Finds near duplicates among 4,000 descriptions of Debian packages, by their embeddings: the data of `nearfield demo`.
//!
//! `cargo run --release --features io --example duplicates`

use nearfield::io::VectorFile;
use nearfield::{Device, DuplicateOptions, Flat, Metric};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/cli/data");
    let embeddings = VectorFile::open(format!("{folder}/base.f16.npy"))?;
    let texts = std::fs::read_to_string(format!("{folder}/descriptions.txt"))?;
    let texts: Vec<&str> = texts.lines().collect();

    let mut index = Flat::builder(&Device::best()?, Metric::Cosine, embeddings.dim()).build()?;
    index.add(&embeddings.read(0..embeddings.rows())?)?;

    let found = index.duplicates(&DuplicateOptions::new(0.05))?;
    println!("{} of {} descriptions are kept", found.kept.len(), texts.len());
    for gone in found.removed.iter().take(10) {
        println!("{:.3}  {}", gone.distance, texts[gone.id as usize]);
        println!("       {}", texts[gone.near as usize]);
    }
    assert!(found.removed.iter().all(|gone| gone.near < gone.id && gone.distance < 0.05));
    assert_eq!(found.kept.len() + found.removed.len(), texts.len());
    Ok(())
}

//! Ranks 4,000 descriptions of Debian packages by MaxSim, with tokens that need no model: a vector for each word, of its hashed trigrams.
//!
//! `cargo run --release --example documents` or `cargo run --release --example documents -- play chess`

use nearfield::{Device, Matrix, MultiVector, TokenVectors};

/// Elements of a token.
const DIM: usize = 128;

/// A vector of length 1 for a word: each three letters of it add to some elements, so that `archives` lies near `archive`.
fn token(word: &str) -> Vec<f32> {
    let letters: Vec<char> = format!("^{}$", word.to_lowercase()).chars().collect();
    let mut vector = vec![0.0; DIM];
    for three in letters.windows(3) {
        let mut hash = three.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &letter| {
            (hash ^ u64::from(letter)).wrapping_mul(0x0100_0000_01b3)
        });
        for _ in 0..4 {
            hash = (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            vector[(hash >> 32) as usize % DIM] += if hash >> 63 == 0 { 1.0 } else { -1.0 };
        }
    }
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter().map(|x| x / length.max(1.0)).collect()
}

/// The tokens of a text, one a word.
fn tokens(text: &str) -> Vec<Vec<f32>> {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(token).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let texts = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/cli/data/descriptions.txt"))?;
    let texts: Vec<&str> = texts.lines().collect();
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let asked =
        if asked.is_empty() { "extract files from compressed archives".to_owned() } else { asked.join(" ") };

    let documents: Vec<Vec<Vec<f32>>> = texts.iter().map(|text| tokens(text)).collect();
    let offsets: Vec<usize> = std::iter::once(0)
        .chain(documents.iter().scan(0, |end, words| {
            *end += words.len();
            Some(*end)
        }))
        .collect();
    let words = Matrix::from_rows(&documents.concat())?;
    let mut index = MultiVector::builder(&Device::best()?, DIM).build()?;
    index.add(&TokenVectors::new(&words, &offsets)?)?;

    let query = Matrix::from_rows(&tokens(&asked))?;
    let found = index.search(&(&query).into(), 8)?;
    println!("{} documents of {} tokens; {asked:?}:", index.len(), index.tokens());
    for hit in found.row(0) {
        println!("{:.3}  {}", hit.score, texts[hit.id as usize]);
    }
    assert_eq!(found.row(0).len(), 8);
    // No word is nearer to itself than 1.
    assert!(found.row(0).iter().all(|hit| hit.score <= query.rows() as f32 + 0.001));
    Ok(())
}

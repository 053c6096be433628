//! Mutations of bytes.

use nearfield_testing::Random;

/// Numbers at which formats and sizes change.
const ODD: [u64; 12] = [
    0,
    1,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 32,
    1 << 40,
    (1 << 61) + 1,
    (1 << 63) - 1,
    1 << 63,
    (1 << 63) + 1,
    u64::MAX,
];

/// Words of the headers of files.
const WORDS: &str = "flat ivf multivector l2 l2sq cosine ip none auto i8 F16 F32 U64 <f4 <f2 <i8 >f4 True False rows ids centroids list_offsets document_offsets";

/// A source of mutations that depends on its seed alone.
#[derive(Debug)]
pub struct Mutator(Random);

impl Mutator {
    /// Mutations of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.below(end)
    }

    /// Mutates bytes in one to three places.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            match self.below(7) {
                0 if !bytes.is_empty() => {
                    let place = self.below(bytes.len());
                    bytes[place] ^= 1 << self.below(8);
                }
                1 => self.write_number(bytes),
                2 => bytes.truncate(self.below(bytes.len() + 1)),
                3 => bytes.extend((0..self.below(40)).map(|byte| (byte * 37) as u8)),
                4 => {
                    let range = self.range(bytes.len());
                    bytes.drain(range);
                }
                5 => {
                    let part = bytes[self.range(bytes.len())].to_vec();
                    let place = self.below(bytes.len() + 1);
                    bytes.splice(place..place, part);
                }
                _ => self.replace_word(bytes),
            }
        }
    }

    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let [one, other] = [self.below(len + 1), self.below(len + 1)];
        one.min(other)..one.max(other)
    }

    /// Writes an odd number of four or eight bytes.
    fn write_number(&mut self, bytes: &mut [u8]) {
        let number = ODD[self.below(ODD.len())].to_le_bytes();
        let width = [4, 8][self.below(2)];
        if bytes.len() >= width {
            let place = self.below(bytes.len() + 1 - width);
            bytes[place..place + width].copy_from_slice(&number[..width]);
        }
    }

    /// Replaces a word or a number of the text that a file begins with, so that the text keeps its form.
    fn replace_word(&mut self, bytes: &mut Vec<u8>) {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"<>_.".contains(byte);
        let text = bytes.len().min(2000);
        let from = self.below(text + 1);
        let Some(start) = bytes[from..text].iter().position(is_part).map(|place| from + place) else {
            return;
        };
        let length = bytes[start..text].iter().position(|byte| !is_part(byte)).unwrap_or(text - start);
        let is_number = bytes[start..start + length].iter().all(u8::is_ascii_digit);
        let new = match is_number && self.below(8) > 0 {
            true => [ODD[self.below(ODD.len())], self.0.next() % 300][self.below(2)].to_string(),
            false => {
                let words: Vec<&str> = WORDS.split(' ').collect();
                words[self.below(words.len())].to_owned()
            }
        };
        bytes.splice(start..start + length, new.into_bytes());
    }
}

//! Decodes deflated archive members.
//!
//! Deflate has no random access. A decoder stays where the last read ended: reads that move forward decode every byte once,
//! and a read that moves back starts again. Each thread that reads gets a decoder of its own in effect, because a read takes the one
//! that is nearest before it.

use std::io::{BufReader, Error, Read, Result, Take, copy, sink};
use std::sync::{Arc, Mutex};

use flate2::bufread::DeflateDecoder;
use rawzip::{ZipArchive, ZipArchiveEntryWayfinder, ZipVerifier};

use crate::files::PositionedFile;
use crate::lock::lock;

/// Decoders that wait for the next read. Each has about 60 KiB.
const MOST_DECODERS: usize = 16;

/// One deflated member.
#[derive(Debug)]
pub(in crate::io) struct Inflater {
    zip: Arc<ZipArchive<PositionedFile>>,
    place: ZipArchiveEntryWayfinder,
    decoders: Mutex<Vec<Decoder>>,
}

/// A running decoder.
#[derive(Debug)]
struct Decoder {
    /// Verifies length and checksum at the end.
    bytes: ZipVerifier<DeflateDecoder<BufReader<Take<PositionedFile>>>>,
    /// Bytes decoded so far.
    position: u64,
}

impl Inflater {
    /// Takes a member of `zip` that is not encrypted.
    pub(in crate::io) fn new(zip: Arc<ZipArchive<PositionedFile>>, place: ZipArchiveEntryWayfinder) -> Self {
        Self { zip, place, decoders: Mutex::default() }
    }

    /// The length of the decoded member in bytes.
    pub(in crate::io) fn length(&self) -> u64 {
        self.place.uncompressed_size_hint()
    }

    /// Fills `buffer` with the decoded bytes that start at `offset`.
    pub(in crate::io) fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        // A decoder that fails is not put back.
        let mut decoder = match self.take(offset) {
            Some(decoder) => decoder,
            None => self.start()?,
        };
        let skipped = offset - decoder.position;
        copy(&mut (&mut decoder.bytes).take(skipped), &mut sink())?;
        decoder.bytes.read_exact(buffer)?;
        decoder.position = offset + buffer.len() as u64;
        if decoder.position == self.length() {
            // The verifier refuses a member that goes on.
            if decoder.bytes.read(&mut [0])? > 0 {
                return Err(Error::other("the member is longer than recorded"));
            }
        } else {
            let mut decoders = lock(&self.decoders);
            if decoders.len() == MOST_DECODERS {
                decoders.remove(0);
            }
            decoders.push(decoder);
        }
        Ok(())
    }

    /// Takes the decoder that is nearest before `offset`.
    fn take(&self, offset: u64) -> Option<Decoder> {
        let mut decoders = lock(&self.decoders);
        let before = decoders.iter().enumerate().filter(|(_, decoder)| decoder.position <= offset);
        let nearest = before.max_by_key(|(_, decoder)| decoder.position)?.0;
        Some(decoders.remove(nearest))
    }

    fn start(&self) -> Result<Decoder> {
        let entry = self.zip.get_entry(self.place).map_err(Error::other)?;
        let (start, end) = entry.compressed_data_range();
        let packed = self.zip.get_ref().clone().at(start).take(end.saturating_sub(start));
        let bytes = entry.verifying_reader(DeflateDecoder::new(BufReader::new(packed)));
        Ok(Decoder { bytes, position: 0 })
    }
}

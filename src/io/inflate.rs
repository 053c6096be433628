//! Decodes deflated archive members.
//!
//! Deflate has no random access. The position stays where the last read ended: reads that move forward decode every byte
//! once, and a read that moves back starts again.

use std::io::{BufReader, Error, Read, Result, Take, copy, sink};
use std::sync::{Arc, Mutex};

use flate2::bufread::DeflateDecoder;
use rawzip::{ZipArchive, ZipArchiveEntryWayfinder, ZipVerifier};

use crate::files::PositionedFile;
use crate::lock::lock;

/// One deflated member.
#[derive(Debug)]
pub(super) struct Inflater {
    zip: Arc<ZipArchive<PositionedFile>>,
    place: ZipArchiveEntryWayfinder,
    decoder: Mutex<Option<Decoder>>,
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
    pub(super) fn new(zip: Arc<ZipArchive<PositionedFile>>, place: ZipArchiveEntryWayfinder) -> Self {
        Self { zip, place, decoder: Mutex::new(None) }
    }

    /// The length of the decoded member in bytes.
    pub(super) fn length(&self) -> u64 {
        self.place.uncompressed_size_hint()
    }

    /// Fills `buffer` with the decoded bytes that start at `offset`.
    pub(super) fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut slot = lock(&self.decoder);
        // A decoder that fails is not put back.
        let mut decoder = match slot.take() {
            Some(decoder) if decoder.position <= offset => decoder,
            _ => self.start()?,
        };
        let skipped = offset - decoder.position;
        copy(&mut (&mut decoder.bytes).take(skipped), &mut sink())?;
        decoder.bytes.read_exact(buffer)?;
        decoder.position = offset + buffer.len() as u64;
        if decoder.position == self.length() {
            // Fails if the member goes on.
            decoder.bytes.read(&mut [0])?;
        } else {
            *slot = Some(decoder);
        }
        Ok(())
    }

    fn start(&self) -> Result<Decoder> {
        let entry = self.zip.get_entry(self.place).map_err(Error::other)?;
        let (start, end) = entry.compressed_data_range();
        let packed = self.zip.get_ref().clone().at(start).take(end.saturating_sub(start));
        let bytes = entry.verifying_reader(DeflateDecoder::new(BufReader::new(packed)));
        Ok(Decoder { bytes, position: 0 })
    }
}

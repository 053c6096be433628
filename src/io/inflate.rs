//! Decodes deflated archive members.
//!
//! Deflate has no random access. A thread decodes the member from its start and hands over chunks. The position stays
//! where the last read ended: reads that move forward decode every byte once, and a read that moves back starts again.

use std::io::{Error, ErrorKind, Read, Result};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use npyz::zip::ZipArchive;

use crate::files::PositionedFile;

/// Bytes per chunk.
const CHUNK: u64 = 1 << 20;
/// The number of chunks that the decoder may be ahead.
const AHEAD: usize = 2;

/// One deflated member.
#[derive(Debug)]
pub(super) struct Inflater {
    archive: ZipArchive<PositionedFile>,
    index: usize,
    length: u64,
    decoder: Mutex<Option<Decoder>>,
}

/// A running decoder, and the unread part of its last chunk.
#[derive(Debug)]
struct Decoder {
    chunks: Receiver<Result<Vec<u8>>>,
    chunk: Vec<u8>,
    used: usize,
    /// Bytes before the unread part.
    position: u64,
}

impl Inflater {
    /// Takes the member `index` of `archive`, which is not encrypted and has `length` decoded bytes.
    pub(super) fn new(archive: ZipArchive<PositionedFile>, index: usize, length: u64) -> Self {
        Self { archive, index, length, decoder: Mutex::new(None) }
    }

    /// The length of the decoded member in bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Fills `buffer` with the decoded bytes that start at `offset`.
    pub(super) fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut slot = self.decoder.lock().unwrap_or_else(PoisonError::into_inner);
        // A decoder that fails is not put back: dropping it ends its thread.
        let mut decoder = match slot.take() {
            Some(decoder) if decoder.position <= offset => decoder,
            _ => self.start()?,
        };
        decoder.skip(offset - decoder.position)?;
        decoder.read(buffer)?;
        if decoder.position == self.length {
            decoder.finish()?;
        } else {
            *slot = Some(decoder);
        }
        Ok(())
    }

    fn start(&self) -> Result<Decoder> {
        let (sender, chunks) = sync_channel(AHEAD);
        let (archive, index) = (self.archive.clone(), self.index);
        std::thread::Builder::new().name("nearfield-inflate".into()).spawn(move || {
            if let Err(error) = decode(archive, index, &sender) {
                // This fails only if the receiver is gone.
                sender.send(Err(error)).ok();
            }
        })?;
        Ok(Decoder { chunks, chunk: Vec::new(), used: 0, position: 0 })
    }
}

/// Decodes the member into chunks until it ends or the receiver is gone. The archive's reader verifies the checksum at the
/// end.
fn decode(
    mut archive: ZipArchive<PositionedFile>,
    index: usize,
    chunks: &SyncSender<Result<Vec<u8>>>,
) -> Result<()> {
    // The password is unused. With it an entry with a stray encryption field is an error; `by_index` would panic.
    let member = archive.by_index_decrypt(index, b"").map_err(Error::other)?;
    let mut member = member.map_err(Error::other)?;
    loop {
        let mut chunk = Vec::new();
        if (&mut member).take(CHUNK).read_to_end(&mut chunk)? == 0 || chunks.send(Ok(chunk)).is_err() {
            return Ok(());
        }
    }
}

impl Decoder {
    /// Waits for unread bytes and returns them. Returns none at the member's end.
    fn available(&mut self) -> Result<&[u8]> {
        if self.used == self.chunk.len()
            && let Ok(chunk) = self.chunks.recv()
        {
            (self.chunk, self.used) = (chunk?, 0);
        }
        Ok(&self.chunk[self.used..])
    }

    /// Like [`available`](Self::available), but fails at the member's end.
    fn some(&mut self) -> Result<&[u8]> {
        let position = self.position;
        let available = self.available()?;
        if available.is_empty() {
            let message = format!("the member ends at byte {position}");
            return Err(Error::new(ErrorKind::UnexpectedEof, message));
        }
        Ok(available)
    }

    fn advance(&mut self, count: usize) {
        self.used += count;
        self.position += count as u64;
    }

    fn skip(&mut self, mut count: u64) -> Result<()> {
        while count > 0 {
            let step = count.min(self.some()?.len() as u64);
            self.advance(step as usize);
            count -= step;
        }
        Ok(())
    }

    fn read(&mut self, mut buffer: &mut [u8]) -> Result<()> {
        while !buffer.is_empty() {
            let available = self.some()?;
            let count = available.len().min(buffer.len());
            buffer[..count].copy_from_slice(&available[..count]);
            self.advance(count);
            buffer = &mut buffer[count..];
        }
        Ok(())
    }

    /// Waits until the checksum was verified.
    fn finish(mut self) -> Result<()> {
        let position = self.position;
        if self.available()?.is_empty() {
            return Ok(());
        }
        let message = format!("the member goes on after byte {position}, where it should end");
        Err(Error::new(ErrorKind::InvalidData, message))
    }
}

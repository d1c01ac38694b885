//! What arrives on a WebSocket, before the library that reads frames gets it.
//!
//! The library reserves as much memory as the header of a frame announces. Here a long frame is cut into pieces before it sees
//! them: a fragment of [`PIECE`] bytes, then another. A message then grows with what has arrived, and is refused as soon as it is
//! announced to be too long. What has arrived of unfinished messages counts against a budget that all sockets share.
//!
//! The cut needs no second buffer. The header of a long frame is changed where it lies, to announce the first piece only, and the headers
//! of the others are put between the bytes when the piece before them has passed. A piece is a multiple of four bytes, so that the
//! same masking key fits all of them.

mod frame_header;
mod stream;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use frame_header::FrameHeader;
use kernel::{ByteBudget, BytesOwner, EvictionSignal, HeldBytes};
use std::io;
use std::sync::Arc;

/// The largest frame that the library sees.
const PIECE: usize = 16 << 10;
/// What a message may have without being counted: as much as the buffer that every connection has.
const UNCOUNTED: usize = 4 << 10;

/// Why a socket is not read any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameRefused {
    #[error("frames are limited to {0} bytes")]
    TooLong(usize),
    #[error("frames are limited to {0} bytes before login")]
    TooLongBeforeLogin(usize),
    #[error("control frames are limited to 125 bytes")]
    LongControlFrame,
    #[error("too many bytes of unfinished frames")]
    BudgetExceeded,
}

impl FrameRefused {
    pub fn close_code(self) -> u16 {
        match self {
            FrameRefused::TooLong(_) | FrameRefused::TooLongBeforeLogin(_) => 1009,
            FrameRefused::LongControlFrame => 1002,
            FrameRefused::BudgetExceeded => 1013,
        }
    }
}

impl From<FrameRefused> for io::Error {
    fn from(refused: FrameRefused) -> io::Error {
        io::Error::other(refused)
    }
}

/// A stream of bytes that are WebSocket frames of a client.
pub struct IncomingFrames<S> {
    inner: S,
    /// What was read before the stream was a WebSocket.
    early: Bytes,
    /// Of the frame or piece that is passing, and of the pieces behind it.
    left: u64,
    after: u64,
    /// The frame that is passing.
    frame: FrameHeader,
    /// The bytes of a header that has not arrived whole.
    begun: HeaderBytes,
    /// A header that the library has yet to get.
    ready: HeaderBytes,
    /// What the frames of the unfinished message announce, and what has arrived of it.
    announced: u64,
    arrived: usize,
    most: usize,
    logged_in: bool,
    refused: Option<FrameRefused>,
    owner: BytesOwner,
    budget: Arc<ByteBudget>,
    /// Made when a message is counted for the first time, because most sockets have none that is.
    held: Option<(HeldBytes, Arc<EvictionSignal>)>,
}

/// At most one header.
#[derive(Default)]
struct HeaderBytes {
    bytes: [u8; FrameHeader::MOST_BYTES],
    length: usize,
}

impl HeaderBytes {
    fn of(bytes: &[u8]) -> HeaderBytes {
        let mut header = HeaderBytes { length: bytes.len(), ..HeaderBytes::default() };
        header.bytes[..bytes.len()].copy_from_slice(bytes);
        header
    }
}

impl<S> IncomingFrames<S> {
    /// Before login a frame has at most `most` bytes.
    pub fn new(inner: S, early: Bytes, most: usize, owner: BytesOwner, budget: Arc<ByteBudget>) -> Self {
        IncomingFrames {
            inner,
            early,
            left: 0,
            after: 0,
            frame: FrameHeader::default(),
            begun: HeaderBytes::default(),
            ready: HeaderBytes::default(),
            announced: 0,
            arrived: 0,
            most,
            logged_in: false,
            refused: None,
            owner,
            budget,
            held: None,
        }
    }

    /// From now on frames may be as long as those of a session. Without an agent its network stays the owner of what it sends.
    pub fn logged_in(&mut self, most: usize, agent: Option<BytesOwner>) {
        (self.most, self.logged_in) = (most, true);
        if let Some(agent) = agent {
            self.owner = agent;
        }
    }

    /// Begins a frame whose whole header is here, and cuts it if it is long.
    fn begin(&mut self, header: &mut [u8]) -> Result<(), FrameRefused> {
        let frame = FrameHeader::parse(header);
        if frame.is_control() {
            if frame.length > 125 {
                return Err(FrameRefused::LongControlFrame);
            }
        } else {
            let before = if frame.continues() { self.announced } else { 0 };
            self.announced = before.saturating_add(frame.length);
            if self.announced > self.most as u64 {
                return Err(self.too_long());
            }
        }
        self.left = frame.length.min(PIECE as u64);
        self.after = frame.length - self.left;
        if self.after > 0 {
            frame.write_first_piece(header, PIECE as u64);
        }
        self.frame = frame;
        self.pass(0);
        Ok(())
    }

    fn too_long(&self) -> FrameRefused {
        match self.logged_in {
            true => FrameRefused::TooLong(self.most),
            false => FrameRefused::TooLongBeforeLogin(self.most),
        }
    }

    /// Bytes of the payload have passed.
    fn pass(&mut self, bytes: usize) {
        self.left -= bytes as u64;
        if self.frame.is_control() {
            return;
        }
        self.arrived += bytes;
        if self.left > 0 {
            return;
        }
        if self.after > 0 {
            let piece = self.after.min(PIECE as u64);
            self.after -= piece;
            self.left = piece;
            let mut header = HeaderBytes::default();
            header.length = self.frame.write_next_piece(&mut header.bytes, piece as u16, self.after == 0);
            self.ready = header;
        } else if self.frame.is_final {
            (self.arrived, self.announced) = (0, 0);
            self.held = None;
        }
    }

    /// Looks at what was read, and gives how much of it the library gets now.
    fn scan(&mut self, bytes: &mut [u8]) -> usize {
        let mut at = 0;
        loop {
            let passing = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - at);
            if passing > 0 {
                self.pass(passing);
                at += passing;
            }
            if at == bytes.len() {
                return at;
            }
            let rest = &mut bytes[at..];
            let length = FrameHeader::length_of(rest);
            if rest.len() < length {
                self.begun = HeaderBytes::of(rest);
                return at;
            }
            if let Err(refused) = self.begin(&mut rest[..length]) {
                // What came before it is still answered.
                self.refused = Some(refused);
                return at;
            }
            at += length;
        }
    }

    /// Counts what has arrived of an unfinished message.
    fn count(&mut self) {
        if self.arrived <= UNCOUNTED {
            return;
        }
        let wanted = self.arrived.next_multiple_of(PIECE);
        match &mut self.held {
            Some((held, _)) if held.bytes() >= wanted => {}
            Some((held, _)) => held.resize(wanted),
            None => {
                let signal = Arc::<EvictionSignal>::default();
                let held = self.budget.hold(self.owner.clone(), wanted, &signal);
                self.held = Some((held, signal));
            }
        }
    }
}

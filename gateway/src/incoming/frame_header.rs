//! The header of a WebSocket frame (RFC 6455, section 5.2), as far as it is needed to cut a frame into fragments.

const FINAL: u8 = 0x80;
const CONTROL: u8 = 0x08;
const OPCODE: u8 = 0x0f;
const MASKED: u8 = 0x80;
const LENGTH: u8 = 0x7f;
/// Instead of a length: it is in the next two or eight bytes.
const IN_TWO: u8 = 126;
const IN_EIGHT: u8 = 127;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FrameHeader {
    pub is_final: bool,
    pub length: u64,
    opcode: u8,
    mask: Option<[u8; 4]>,
}

impl FrameHeader {
    pub const MOST_BYTES: usize = 14;

    /// How many bytes the header has that begins like this; at least two, if its second byte is not here.
    pub fn length_of(bytes: &[u8]) -> usize {
        let Some(second) = bytes.get(1) else { return 2 };
        2 + extended(*second) + if second & MASKED == 0 { 0 } else { 4 }
    }

    /// Reads a whole header.
    pub fn parse(bytes: &[u8]) -> FrameHeader {
        let (first, second) = (bytes[0], bytes[1]);
        let long = extended(second);
        let length = match long {
            0 => u64::from(second & LENGTH),
            _ => bytes[2..2 + long].iter().fold(0, |length, byte| (length << 8) | u64::from(*byte)),
        };
        FrameHeader {
            is_final: first & FINAL != 0,
            length,
            opcode: first & OPCODE,
            mask: bytes[2 + long..].first_chunk().filter(|_| second & MASKED != 0).copied(),
        }
    }

    pub fn is_control(&self) -> bool {
        self.opcode & CONTROL != 0
    }

    /// Whether its message began with another frame.
    pub fn continues(&self) -> bool {
        self.opcode == 0
    }

    /// Changes the header of this frame, which is a long one, to that of its first piece. The length keeps its bytes, though fewer
    /// would do.
    pub fn write_first_piece(&self, bytes: &mut [u8], piece: u64) {
        bytes[0] &= !FINAL;
        let long = extended(bytes[1]);
        bytes[2..2 + long].copy_from_slice(&piece.to_be_bytes()[8 - long..]);
    }

    /// Writes the header of a later piece, and gives how many bytes it has.
    pub fn write_next_piece(&self, bytes: &mut [u8; Self::MOST_BYTES], piece: u16, is_last: bool) -> usize {
        bytes[0] = if is_last && self.is_final { FINAL } else { 0 };
        bytes[1] = IN_TWO;
        bytes[2..4].copy_from_slice(&piece.to_be_bytes());
        let Some(mask) = self.mask else { return 4 };
        bytes[1] |= MASKED;
        bytes[4..8].copy_from_slice(&mask);
        8
    }
}

fn extended(second: u8) -> usize {
    match second & LENGTH {
        IN_TWO => 2,
        IN_EIGHT => 8,
        _ => 0,
    }
}

//! How much is kept.

/// Bytes and rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub bytes: i64,
    pub rows: i64,
}

/// What every row counts besides the bytes of its columns.
pub(super) const ROW_BYTES: i64 = 512;

impl Kept {
    /// What rows with so many bytes in their columns count.
    pub fn rows(rows: usize, bytes: usize) -> Kept {
        let (rows, bytes) = (i64::try_from(rows), i64::try_from(bytes));
        let (rows, bytes) = (rows.unwrap_or(i64::MAX >> 16), bytes.unwrap_or(i64::MAX >> 16));
        Kept { bytes: bytes.saturating_add(rows.saturating_mul(ROW_BYTES)), rows }
    }

    #[must_use]
    pub fn plus(self, other: Kept) -> Kept {
        let Kept { bytes, rows } = other;
        Kept { bytes: self.bytes.saturating_add(bytes), rows: self.rows.saturating_add(rows) }
    }

    pub(super) fn times(self, shares: u32) -> Kept {
        let times = |number: i64| number.saturating_mul(i64::from(shares));
        Kept { bytes: times(self.bytes), rows: times(self.rows) }
    }

    pub(super) fn minus(self, other: Kept) -> Kept {
        Kept { bytes: self.bytes - other.bytes, rows: self.rows - other.rows }
    }
}

//! What was measured, and what it means.

/// Whether there is space for new bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DiskSpace {
    Enough,
    /// Less than twice the limit is free: operators are warned.
    Low,
    /// Less than the limit is free: new bytes are refused.
    Full,
}

/// Where the bytes are that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MeasuredStore {
    /// On the disk of the SQLite files.
    Disk,
    /// In the schemas of a PostgreSQL server, whose disk cannot be seen.
    Schemas,
}

/// How much space is left, and below what it is too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskReading {
    store: MeasuredStore,
    /// What may still be written, in bytes.
    pub free: u64,
    /// Below it new bytes are refused.
    pub refused_below: u64,
    /// Below it operators are warned.
    warned_below: u64,
}

impl DiskReading {
    /// Of a disk where so much has to stay free.
    pub fn of_disk(free: u64, limit: u64) -> DiskReading {
        let warned_below = limit.saturating_mul(2);
        DiskReading { store: MeasuredStore::Disk, free, refused_below: limit, warned_below }
    }

    /// Of schemas that may hold so much. The last tenth is warned of.
    pub fn of_schemas(held: u64, limit: u64) -> DiskReading {
        let free = limit.saturating_sub(held);
        DiskReading { store: MeasuredStore::Schemas, free, refused_below: 1, warned_below: limit / 10 }
    }

    pub fn space(&self) -> DiskSpace {
        match self.free {
            free if free < self.refused_below => DiskSpace::Full,
            free if free < self.warned_below => DiskSpace::Low,
            _ => DiskSpace::Enough,
        }
    }

    /// What an operator should know. None while there is enough.
    pub fn notice(&self) -> Option<String> {
        let what = match self.space() {
            DiskSpace::Enough => return None,
            DiskSpace::Low => "will be refused soon",
            DiskSpace::Full => "are refused",
        };
        Some(format!("{}: new messages, tasks, documents and registrations {what}", self.amount()))
    }

    /// How much is left.
    pub fn amount(&self) -> String {
        let free = mebibytes(self.free);
        match self.store {
            MeasuredStore::Disk => {
                format!(
                    "{free} free on the disk of the store, the limit is {}",
                    mebibytes(self.refused_below)
                )
            }
            MeasuredStore::Schemas => format!("{free} left until the schemas of the store have store.bytes"),
        }
    }

    /// What an operator can do.
    pub fn remedy(&self) -> &'static str {
        match self.store {
            MeasuredStore::Disk => {
                "make space on the disk, move the data folder to a larger one, or lower store.free_bytes"
            }
            MeasuredStore::Schemas => "raise store.bytes, if PostgreSQL's disk is large enough",
        }
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_warned_before_anything_is_refused() {
        let limit = 100 << 20;
        for (free, space) in [
            (2 * limit, DiskSpace::Enough),
            (2 * limit - 1, DiskSpace::Low),
            (limit, DiskSpace::Low),
            (limit - 1, DiskSpace::Full),
            (0, DiskSpace::Full),
        ] {
            let reading = DiskReading::of_disk(free, limit);
            assert_eq!(reading.space(), space, "{free}");
            assert_eq!(reading.notice().is_some(), space != DiskSpace::Enough);
        }
        assert_eq!(DiskReading::of_disk(0, 0).space(), DiskSpace::Enough, "0 turns it off");
        let notice = DiskReading::of_disk(150 << 20, limit).notice().unwrap();
        assert!(notice.contains("150 MiB free") && notice.contains("the limit is 100 MiB"), "{notice}");
    }

    #[test]
    fn schemas_are_full_when_they_hold_the_limit_and_warned_of_in_the_last_tenth() {
        for (held, space) in [
            (0, DiskSpace::Enough),
            (900, DiskSpace::Enough),
            (901, DiskSpace::Low),
            (999, DiskSpace::Low),
            (1000, DiskSpace::Full),
            (5000, DiskSpace::Full),
        ] {
            assert_eq!(DiskReading::of_schemas(held, 1000).space(), space, "{held}");
        }
    }
}

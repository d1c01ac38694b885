//! How many entries a page of a list has.

/// What a page has if the caller names no limit, and the most that it has.
#[derive(Clone, Copy, Debug)]
pub struct PageLimit {
    usual: i64,
    most: i64,
}

/// A caller asked for less than one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", PageLimitError::SENTENCE)]
pub struct PageLimitError;

impl PageLimitError {
    pub const SENTENCE: &str = "limit must be at least 1";
}

impl PageLimit {
    pub const fn new(usual: i64, most: i64) -> PageLimit {
        PageLimit { usual, most }
    }

    /// What was asked for, up to the most.
    pub fn of(&self, wanted: Option<i64>) -> Result<i64, PageLimitError> {
        match wanted.unwrap_or(self.usual) {
            ..1 => Err(PageLimitError),
            limit => Ok(limit.min(self.most)),
        }
    }

    /// The allowed limit that is nearest to the one asked for, for methods that refuse none.
    pub fn nearest(&self, wanted: Option<i64>) -> usize {
        let limit = wanted.unwrap_or(self.usual).clamp(1, self.most.max(1));
        usize::try_from(limit).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_within_its_bounds() {
        let page = PageLimit::new(20, 100);
        for (wanted, limit, nearest) in [
            (None, Ok(20), 20),
            (Some(1), Ok(1), 1),
            (Some(100), Ok(100), 100),
            (Some(i64::MAX), Ok(100), 100),
            (Some(0), Err(PageLimitError), 1),
            (Some(i64::MIN), Err(PageLimitError), 1),
        ] {
            assert_eq!((page.of(wanted), page.nearest(wanted)), (limit, nearest), "{wanted:?}");
        }
        assert_eq!(PageLimitError.to_string(), "limit must be at least 1");
    }
}

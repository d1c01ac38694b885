//! How much may be stored, and who is refused when it is too much.

use kernel::Aid;

/// Whoever stored no more than this part of what a sender may did not fill the inbox that is full.
pub(super) const LITTLE: i64 = 64;

/// How many bytes may be stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuotaLimits {
    pub sender_bytes: i64,
    pub inbox_bytes: i64,
}

/// What a message is too much for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuotaExceeded {
    #[error("{aid} may have {limit} bytes of messages stored at a time, and this one would be more")]
    Sender { aid: Aid, limit: i64, retry_after_ms: i64 },
    #[error("the inbox of {aid} is full: messages for it may have {limit} bytes")]
    Inbox { aid: Aid, limit: i64, retry_after_ms: i64 },
}

/// One of the two counts that a message adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuotaSide {
    Sender,
    Inbox,
}

impl QuotaLimits {
    /// Which side a message would be too much for, with what is stored from its sender and for its recipient.
    ///
    /// A full inbox is closed to those who fill it. From others it still takes something, up to twice the limit: otherwise
    /// whoever fills it would decide who else may write to its owner.
    pub(super) fn decide(&self, sent: i64, received: i64, bytes: i64) -> Option<QuotaSide> {
        let (sent, received) = (sent.saturating_add(bytes), received.saturating_add(bytes));
        if sent > self.sender_bytes {
            return Some(QuotaSide::Sender);
        }
        let most = match sent <= self.sender_bytes / LITTLE {
            true => self.inbox_bytes.saturating_mul(2),
            false => self.inbox_bytes,
        };
        (received > most).then_some(QuotaSide::Inbox)
    }

    pub(super) fn of(&self, side: QuotaSide) -> i64 {
        match side {
            QuotaSide::Sender => self.sender_bytes,
            QuotaSide::Inbox => self.inbox_bytes,
        }
    }
}

impl QuotaSide {
    /// As it is stored: the words never change.
    pub(super) fn name(self) -> &'static str {
        match self {
            QuotaSide::Sender => "sender",
            QuotaSide::Inbox => "inbox",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_stored_much_is_refused_first() {
        let limits = QuotaLimits { sender_bytes: 640, inbox_bytes: 1000 };
        let cases = [
            ((0, 0, 640), None),
            ((0, 0, 641), Some(QuotaSide::Sender)),
            ((600, 0, 41), Some(QuotaSide::Sender)),
            ((11, 990, 10), None),
            ((11, 990, 11), Some(QuotaSide::Inbox)),
            // Somebody who sent little: the inbox is not closed to them because others filled it.
            ((0, 1000, 10), None),
            ((0, 1990, 10), None),
            ((0, 1991, 10), Some(QuotaSide::Inbox)),
            ((i64::MAX, i64::MAX, 1), Some(QuotaSide::Sender)),
        ];
        for ((sent, received, bytes), expected) in cases {
            assert_eq!(limits.decide(sent, received, bytes), expected, "{sent} {received} {bytes}");
        }
    }
}

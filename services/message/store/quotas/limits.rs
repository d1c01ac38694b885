//! How much may be stored, and who is refused when it is too much.

use kernel::{AccountFull, Aid, HeldNow, Kept, Payer, ShareLimits};

/// Whoever stored no more than this part of what a sender may did not fill the inbox that is full.
pub(super) const LITTLE: i64 = 64;

/// How much may be stored at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuotaLimits {
    pub sender: ShareLimits,
    pub inbox_bytes: i64,
}

/// One of the counts that a message adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuotaSide {
    Sender,
    Inbox,
    /// All senders of another domain.
    Domain,
    /// The new agents of a network.
    Network,
}

impl QuotaLimits {
    /// Whether a message may be stored, with what is stored from its sender and for its recipient.
    ///
    /// A full inbox is closed to those who fill it. From others it still takes something, up to twice the limit: otherwise
    /// whoever fills it would decide who else may write to its owner.
    pub(super) fn check(
        &self,
        payer: &Payer,
        given: Option<Kept>,
        held: HeldNow,
        inbox: Option<(&Aid, Kept)>,
        more: Kept,
    ) -> Result<(), AccountFull> {
        self.sender.check(payer, given, held, more)?;
        let Some((to, received)) = inbox else { return Ok(()) };
        let sent = held.own.bytes.saturating_add(more.bytes);
        let most = match sent <= self.sender.share.bytes / LITTLE {
            true => self.inbox_bytes.saturating_mul(2),
            false => self.inbox_bytes,
        };
        if received.bytes.saturating_add(more.bytes) <= most {
            return Ok(());
        }
        let (limit, held) = (self.inbox_bytes, received.bytes);
        let sentence = format!("the inbox of {to} is full: messages for it may have {limit} bytes");
        Err(AccountFull { sentence, scope: "message.inbox_bytes", limit, held, retry_after_ms: None })
    }

    /// Whether so little is kept that the account need not be in memory. `given` is what the operator has given an agent.
    pub(super) fn is_little(&self, side: QuotaSide, given: Option<Kept>, kept: Kept) -> bool {
        let share = self.sender.share;
        let most = match side {
            QuotaSide::Inbox => Kept { bytes: self.inbox_bytes, rows: i64::MAX },
            QuotaSide::Sender => given.map_or(share, |given| Kept {
                bytes: given.bytes.min(share.bytes),
                rows: given.rows.min(share.rows),
            }),
            QuotaSide::Domain | QuotaSide::Network => share,
        };
        kept.bytes <= most.bytes / LITTLE && kept.rows <= most.rows / LITTLE
    }
}

impl QuotaSide {
    pub const ALL: [QuotaSide; 4] =
        [QuotaSide::Sender, QuotaSide::Inbox, QuotaSide::Domain, QuotaSide::Network];

    /// As it is stored: the words never change.
    pub(super) fn name(self) -> &'static str {
        match self {
            QuotaSide::Sender => "sender",
            QuotaSide::Inbox => "inbox",
            QuotaSide::Domain => "domain",
            QuotaSide::Network => "network",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::{AccountSettings, CallingAgent};

    fn limits() -> QuotaLimits {
        let share = Kept { bytes: 640, rows: 5 };
        let (bytes_setting, rows_setting) = ("message.sender_bytes", "message.sender_rows");
        let settings = AccountSettings::default();
        QuotaLimits {
            sender: ShareLimits { share, bytes_setting, rows_setting, settings },
            inbox_bytes: 1000,
        }
    }

    #[test]
    fn whoever_stored_much_is_refused_first() {
        let (sender, inbox) = (Some("message.sender_bytes"), Some("message.inbox_bytes"));
        let alice = CallingAgent::without_session(Aid::parse("alice.aid.pub").unwrap(), [0, 0, 0, 0].into());
        let (payer, bob) = (Payer::of(&alice, "aid.pub"), Aid::parse("bob1.aid.pub").unwrap());
        let bytes = |bytes: i64| Kept { bytes, rows: 0 };
        let cases = [
            ((0, 0, 640), None),
            ((0, 0, 641), sender),
            ((600, 0, 41), sender),
            ((11, 990, 10), None),
            ((11, 990, 11), inbox),
            // Somebody who sent little: the inbox is not closed to them because others filled it.
            ((0, 1000, 10), None),
            ((0, 1990, 10), None),
            ((0, 1991, 10), inbox),
            ((i64::MAX, i64::MAX, 1), sender),
        ];
        for ((sent, received, more), expected) in cases {
            let held = HeldNow { own: bytes(sent), ..HeldNow::default() };
            let checked = limits().check(&payer, None, held, Some((&bob, bytes(received))), bytes(more));
            assert_eq!(checked.err().map(|full| full.scope), expected, "{sent} {received} {more}");
        }
    }
}

//! Agents whose tokens were revoked a moment ago, for sessions that are about to be opened with one of them.

use kernel::{Aid, Cache};

/// So many are remembered, the last ones: many more than are revoked while one session is opened.
const REMEMBERED: usize = 10_000;

/// A token is verified before its session can be found among the others. A revocation in between would close nothing, so it is
/// looked for here when the session is opened.
pub(super) struct RecentRevocations(Cache<Aid, i64>);

impl Default for RecentRevocations {
    fn default() -> RecentRevocations {
        RecentRevocations(Cache::new(REMEMBERED))
    }
}

impl RecentRevocations {
    pub fn add(&mut self, aid: &Aid, revoked_at: i64) {
        let last = self.0.get_or_insert_with(aid.clone(), || revoked_at);
        *last = revoked_at.max(*last);
    }

    /// Whether a token of this agent was revoked, of which the last revocation before it is known.
    pub fn has_ended(&self, aid: &Aid, tokens_revoked_at: Option<i64>) -> bool {
        // A look does not count: only a revocation keeps an agent here.
        self.0.peek(aid).is_some_and(|at| tokens_revoked_at.unwrap_or(0) < *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_an_earlier_revocation_has_ended_and_a_later_one_has_not() {
        let (alice, carol) = (Aid::parse("alice.aid.pub").unwrap(), Aid::parse("carol.aid.pub").unwrap());
        let mut recent = RecentRevocations::default();
        recent.add(&alice, 8);
        recent.add(&alice, 7);
        assert!(recent.has_ended(&alice, None) && recent.has_ended(&alice, Some(7)));
        assert!(!recent.has_ended(&alice, Some(8)) && !recent.has_ended(&alice, Some(9)));
        assert!(!recent.has_ended(&carol, None));
    }

    #[test]
    fn only_the_last_ones_are_remembered() {
        let mut recent = RecentRevocations::default();
        for number in 0..REMEMBERED + 10 {
            recent.add(&Aid::parse(&format!("agent-{number}.aid.pub")).unwrap(), 1);
        }
        assert_eq!(recent.0.len(), REMEMBERED);
        assert!(!recent.has_ended(&Aid::parse("agent-3.aid.pub").unwrap(), None));
    }
}

//! Agents whose tokens were revoked a moment ago, for sessions that are about to be opened with one of them.

use kernel::Aid;
use std::collections::{HashMap, VecDeque};

/// So many are remembered, the last ones: many more than are revoked while one session is opened.
const REMEMBERED: usize = 10_000;

/// A token is verified before its session can be found among the others. A revocation in between would close nothing, so it is
/// looked for here when the session is opened.
#[derive(Default)]
pub(super) struct RecentRevocations {
    times: HashMap<Aid, i64>,
    oldest_first: VecDeque<Aid>,
}

impl RecentRevocations {
    pub fn add(&mut self, aid: &Aid, revoked_at: i64) {
        if let Some(last) = self.times.get_mut(aid) {
            *last = revoked_at.max(*last);
            return;
        }
        if self.oldest_first.len() >= REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.times.remove(&oldest);
        }
        self.times.insert(aid.clone(), revoked_at);
        self.oldest_first.push_back(aid.clone());
    }

    /// Whether a token of this agent was revoked, of which the last revocation before it is known.
    pub fn has_ended(&self, aid: &Aid, tokens_revoked_at: Option<i64>) -> bool {
        self.times.get(aid).is_some_and(|at| tokens_revoked_at.unwrap_or(0) < *at)
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
        assert_eq!((recent.times.len(), recent.oldest_first.len()), (REMEMBERED, REMEMBERED));
        assert!(!recent.has_ended(&Aid::parse("agent-3.aid.pub").unwrap(), None));
    }
}

//! The rule of every budget: who holds most pays first, with what it has held for longest.

use super::BytesOwner;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What is held, by owner and age. `T` says what it is to the one who has to evict it.
///
/// `total` is the sum of all holdings, and `by_bytes` has each owner once, with the sum of its own.
pub struct Holdings<T> {
    most: usize,
    total: usize,
    last: u64,
    owners: HashMap<BytesOwner, OwnerHoldings<T>>,
    by_bytes: BTreeSet<(usize, BytesOwner)>,
}

struct OwnerHoldings<T> {
    bytes: usize,
    /// By id: the oldest first.
    items: BTreeMap<u64, (usize, T)>,
}

impl<T> Holdings<T> {
    pub fn new(most: usize) -> Holdings<T> {
        Holdings { most, total: 0, last: 0, owners: HashMap::new(), by_bytes: BTreeSet::new() }
    }

    /// Gives an id that is larger than all before. The caller evicts afterwards.
    pub fn add(&mut self, owner: &BytesOwner, bytes: usize, what: T) -> u64 {
        self.last += 1;
        let empty = || OwnerHoldings { bytes: 0, items: BTreeMap::new() };
        self.owners.entry(owner.clone()).or_insert_with(empty).items.insert(self.last, (0, what));
        self.resize(owner, self.last, bytes);
        self.last
    }

    /// What was evicted before is not counted again.
    pub fn resize(&mut self, owner: &BytesOwner, id: u64, bytes: usize) {
        let Some(of_owner) = self.owners.get_mut(owner) else { return };
        let Some((held, _)) = of_owner.items.get_mut(&id) else { return };
        let before = std::mem::replace(held, bytes);
        let sum = of_owner.bytes - before + bytes;
        self.total = self.total - before + bytes;
        self.by_bytes.remove(&(of_owner.bytes, owner.clone()));
        of_owner.bytes = sum;
        self.by_bytes.insert((sum, owner.clone()));
    }

    pub fn remove(&mut self, owner: &BytesOwner, id: u64) -> Option<T> {
        self.resize(owner, id, 0);
        let of_owner = self.owners.get_mut(owner)?;
        let (_, what) = of_owner.items.remove(&id)?;
        if of_owner.items.is_empty() {
            self.by_bytes.remove(&(0, owner.clone()));
            self.owners.remove(owner);
        }
        Some(what)
    }

    /// Removes the oldest of the owner that holds most, if more is held than may be.
    pub fn evict(&mut self) -> Option<(u64, T)> {
        if self.total <= self.most {
            return None;
        }
        let (_, owner) = self.by_bytes.last()?.clone();
        let (id, _) = self.owners.get(&owner)?.items.first_key_value()?;
        let id = *id;
        self.remove(&owner, id).map(|what| (id, what))
    }

    /// Whether an owner could hold so many bytes more without being the one that has to give something up.
    pub fn has_space(&self, owner: &BytesOwner, more: usize) -> bool {
        let own = self.owners.get(owner).map_or(0, |owner| owner.bytes) + more;
        let mut others = self.by_bytes.iter().rev().filter(|(_, other)| other != owner);
        self.total + more <= self.most || others.next().is_some_and(|(bytes, _)| *bytes > own)
    }

    pub fn total(&self) -> usize {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use testing::cases;

    #[derive(Clone, Debug)]
    enum Step {
        Add { owner: u8, bytes: usize },
        Resize { nth: usize, bytes: usize },
        Remove { nth: usize },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0u8..4, 0usize..120).prop_map(|(owner, bytes)| Step::Add { owner, bytes }),
            1 => (0usize..8, 0usize..120).prop_map(|(nth, bytes)| Step::Resize { nth, bytes }),
            1 => (0usize..8).prop_map(|nth| Step::Remove { nth }),
        ]
    }

    fn owner(n: u8) -> BytesOwner {
        BytesOwner::of_address([192, 0, n, 1].into())
    }

    /// A list of (id, owner, bytes), oldest first, in place of everything that makes `Holdings` fast.
    type Model = Vec<(u64, u8, usize)>;

    fn sum_of(model: &Model, who: u8) -> usize {
        model.iter().filter(|(_, owner, _)| *owner == who).map(|(.., bytes)| bytes).sum()
    }

    fn apply(step: Step, holdings: &mut Holdings<u8>, model: &mut Model) {
        match step {
            Step::Add { owner: who, bytes } => {
                let id = holdings.add(&owner(who), bytes, who);
                model.push((id, who, bytes));
            }
            Step::Resize { nth, bytes } => {
                if let Some((id, who, held)) = model.get_mut(nth) {
                    holdings.resize(&owner(*who), *id, bytes);
                    *held = bytes;
                }
            }
            Step::Remove { nth } => {
                if nth < model.len() {
                    let (id, who, _) = model.remove(nth);
                    assert_eq!(holdings.remove(&owner(who), id), Some(who));
                }
            }
        }
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn the_sum_stays_in_the_budget_and_who_holds_most_pays(
            steps in prop::collection::vec(step(), 1..80),
        ) {
            let (mut holdings, mut model) = (Holdings::new(250), Model::new());
            for step in steps {
                apply(step, &mut holdings, &mut model);
                while let Some((id, who)) = holdings.evict() {
                    let most = (0..4).map(|other| sum_of(&model, other)).max();
                    prop_assert_eq!(Some(sum_of(&model, who)), most, "nobody else holds more");
                    let oldest = model.iter().position(|(_, owner, _)| *owner == who);
                    let (gone, ..) = model.remove(oldest.expect("it holds something"));
                    prop_assert_eq!(gone, id, "its oldest");
                }
                let sum: usize = model.iter().map(|(.., bytes)| bytes).sum();
                prop_assert_eq!(holdings.total(), sum);
                prop_assert!(sum <= 250);
                prop_assert_eq!(holdings.by_bytes.len(), holdings.owners.len());
            }
        }
    }
}

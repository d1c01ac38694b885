//! What is kept for those who pay for some calls, as it was read, and whether they may keep more.

use super::limits::NETWORK_SHARES;
use super::payer::{Today, on_day, without_day};
use super::{Account, AccountFull, DAY_MS, HeldNow, Kept, Payer, ShareLimits};
use crate::DiskSpace;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What is kept for some, by the keys of their accounts, and how much may be. It is pure data: a batch decides call after call with it,
/// and what one call adds counts for the next one. Of a payer that it was not made for nothing is known, and nothing is refused.
#[derive(Debug, Default)]
pub struct KeptSums {
    sums: HashMap<String, Kept>,
    payers: HashMap<String, KnownPayer>,
    limits: ShareLimits,
    day: i64,
    left_of_day_ms: i64,
    space_is_low: bool,
    /// What was added for networks, by key and day.
    networks: BTreeMap<String, Kept>,
}

/// What was added for a network, as it is written.
#[derive(Serialize)]
pub(super) struct NetworkRow<'a> {
    payer: &'a str,
    bytes: i64,
    kept_rows: i64,
    counted_on: i64,
}

/// What was kept for a payer when a transaction began.
pub struct Charge {
    pub(super) payer: Payer,
    pub(super) sums: KeptSums,
}

/// What one payer may keep instead of a share, and what other services keep for it.
#[derive(Clone, Copy, Debug)]
struct KnownPayer {
    given: Option<Kept>,
    elsewhere: i64,
}

impl KeptSums {
    pub(super) fn new(account: &Account, today: Today, payers: &BTreeSet<Payer>) -> KeptSums {
        let tables = &account.0;
        let known = |payer: &Payer| {
            let elsewhere = payer.aid().map(|aid| tables.accounts.elsewhere(tables.service, aid));
            let given = match payer.tenant_name() {
                Some(name) => Some(tables.tenants.read().of(name)),
                None => tables.changed.of(payer.key()),
            };
            (payer.key().to_owned(), KnownPayer { given, elsewhere: elsewhere.unwrap_or_default() })
        };
        KeptSums {
            payers: payers.iter().map(known).collect(),
            limits: tables.limits,
            day: today.day,
            left_of_day_ms: (today.day + 1) * DAY_MS - tables.clock.now_ms(),
            space_is_low: tables.disk.space() != DiskSpace::Enough,
            ..KeptSums::default()
        }
    }

    /// What is kept by an account, as it was read.
    pub(super) fn add(&mut self, key: &str, kept: Kept) {
        let sum = self.sums.entry(without_day(key).to_owned()).or_default();
        *sum = sum.plus(kept);
    }

    pub(super) fn of(&self, key: &str) -> Kept {
        self.sums.get(key).copied().unwrap_or_default()
    }

    /// Counts what a call is about to store, or says for which of its accounts it is too much.
    pub fn charge(&mut self, payer: &Payer, more: Kept) -> Result<(), AccountFull> {
        let Some(KnownPayer { given, elsewhere }) = self.payers.get(payer.key()).copied() else {
            return Ok(());
        };
        let (domain, network) = (payer.domain_key(), payer.network_key());
        let held = HeldNow {
            own: self.of(payer.key()),
            elsewhere,
            domain: domain.as_ref().map(|key| self.of(key)),
            network: network.as_ref().map(|key| self.of(key)),
            space_is_low: self.space_is_low,
        };
        self.limits.check(payer, given, held, more).map_err(|full| match full.scope {
            // What a network has stored counts for some days, and less of it tomorrow.
            NETWORK_SHARES => AccountFull { retry_after_ms: Some(self.left_of_day_ms), ..full },
            _ => full,
        })?;
        if let Some(network) = &network {
            let of_day = self.networks.entry(on_day(network, self.day)).or_default();
            *of_day = of_day.plus(more);
        }
        for key in [Some(payer.key().to_owned()), domain, network].into_iter().flatten() {
            self.add(&key, more);
        }
        Ok(())
    }

    /// What was added for networks, as rows of the table.
    pub(super) fn network_rows(&self) -> Vec<NetworkRow<'_>> {
        let counted_on = self.day;
        let rows = self.networks.iter();
        rows.map(|(key, kept)| NetworkRow { payer: key, bytes: kept.bytes, kept_rows: kept.rows, counted_on })
            .collect()
    }
}

//! Accounts: what a service keeps for each agent, in bytes and rows, and who is refused when it is too much.
//!
//! A service lists its tables ([`Keeping`]) and the store itself counts what they keep, in the transaction that stores or removes a
//! row ([`counting`]): no statement can forget it, a crash changes nothing, and two processes count the same. Beside the account of each
//! agent there is one for all agents of another domain, whose gateway can invent any number of them, and one for each network from which
//! new agents were registered ([`Payer`]). A service may also have tenants, who are no agents and pay with shares that the service
//! gives them ([`TenantShares`]).
//!
//! Before a service stores something for a call it asks whether its agent may keep so much more: alone in a transaction of its own
//! ([`Account::before`], [`Account::charge`]), or for a batch of calls ([`Account::lock`], [`Account::keys`],
//! [`Account::sums`], [`KeptSums::charge`]).

mod changed_limits;
mod counting;
mod full;
mod kept;
mod limits;
mod listing;
mod nearly_full;
mod payer;
mod sums;
mod telling;
mod tenants;
#[cfg(test)]
mod tests;

pub use changed_limits::ChangedLimits;
pub use counting::{CountedRows, Keeping, KeptTable};
pub use full::AccountFull;
pub use kept::Kept;
pub use limits::{HeldNow, ShareLimits};
pub use listing::AccountChange;
pub use payer::Payer;
pub use sums::{Charge, KeptSums};
pub use tenants::TenantShares;

use crate::json_rows as json;
use crate::{Accounts, Aid, Clock, Db, Disk, Engine, Task, World};
use counting::Counting;
use parking_lot::RwLock;
use payer::Today;
use prometheus_client::metrics::gauge::Gauge;
use proto_schemas::AidError;
use sqlx::{Any, AnyConnection, AssertSqlSafe};
use std::collections::BTreeSet;
use std::sync::Arc;

const DAY_MS: i64 = 86_400_000;

/// An account as it is read: its key, bytes and rows.
pub type KeptRow = (String, i64, i64);

/// The accounts of one service, in its database.
#[derive(Clone)]
pub struct Account(Arc<AccountTables>);

struct AccountTables {
    db: Db,
    service: &'static str,
    limits: ShareLimits,
    issuer: String,
    counting: Counting,
    accounts: Accounts,
    changed: ChangedLimits,
    tenants: RwLock<TenantShares>,
    clock: Clock,
    disk: Disk,
    largest: Gauge,
}

/// How many bytes a service keeps for one agent.
#[derive(Clone, Copy, Debug)]
pub struct AccountShare {
    /// The setting that says so, `task.kept_bytes`: who is refused is told it.
    pub setting: &'static str,
    pub bytes: u64,
}

impl Account {
    /// Has the store count what these tables keep. What they keep already is counted first if it never was, or in another way.
    pub async fn open(
        world: &World,
        db: &Db,
        keeping: &'static Keeping,
        share: AccountShare,
    ) -> anyhow::Result<Account> {
        let counting = Counting::new(keeping, db.engine(), &world.issuer);
        counting.begin(db, keeping).await?;
        let settings = world.accounts.settings();
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let account = Account(Arc::new(AccountTables {
            db: db.clone(),
            service: keeping.service,
            limits: ShareLimits {
                share: Kept { bytes: signed(share.bytes), rows: signed(settings.rows) },
                bytes_setting: share.setting,
                rows_setting: "accounts.rows",
                settings,
            },
            issuer: world.issuer.clone(),
            counting,
            accounts: world.accounts.clone(),
            changed: ChangedLimits::new(db),
            tenants: RwLock::default(),
            clock: world.clock.clone(),
            disk: world.disk.clone(),
            largest: world.metrics.counted(
                keeping.service,
                "largest_account_bytes",
                "Bytes of the largest account of an agent, a domain or a tenant; 0 below 1 MiB",
            ),
        }));
        account.0.changed.read().await?;
        Ok(account)
    }

    /// What a service does for its accounts by itself.
    pub fn task(&self, world: &World) -> Task {
        let (account, stop) = (self.clone(), world.stop.clone());
        Task::new("accounts", move || {
            let (account, stop) = (account.clone(), stop.clone());
            async move {
                stop.run_until_cancelled(account.tell_others()).await;
            }
        })
    }

    /// What is kept for those who pay for a batch of calls, in the transaction that stores what the calls make. On PostgreSQL their
    /// accounts are changed by one transaction at a time from here on, in one order.
    pub async fn read(&self, tx: &mut AnyConnection, payers: &BTreeSet<Payer>) -> sqlx::Result<KeptSums> {
        let today = self.today();
        let mut sums = KeptSums::new(self, today, payers);
        for (payer, bytes, rows) in self.lock(tx, payers).await? {
            sums.add(&payer, Kept { bytes, rows });
        }
        let locked = self.0.db.engine() == Engine::Postgres;
        let networks = payers.iter().flat_map(|payer| payer.network_keys(today));
        let others = payers.iter().filter(|_| !locked).flat_map(Payer::own_keys);
        let keys: BTreeSet<String> = others.chain(networks).collect();
        if !keys.is_empty() {
            let texts = json::texts(self.0.db.engine(), 1);
            let text = format!("SELECT payer, bytes, kept_rows FROM account WHERE payer IN {texts}");
            let query = sqlx::query_as::<Any, KeptRow>(AssertSqlSafe(text));
            for (payer, bytes, rows) in query.bind(json::text(&keys)?).fetch_all(tx).await? {
                sums.add(&payer, Kept { bytes, rows });
            }
        }
        Ok(sums)
    }

    /// The accounts that decide whether these payers may store more. A service that loads other rows in the same statement reads them
    /// itself, after [`lock`](Self::lock), and gives them to [`sums`](Self::sums).
    pub fn keys(&self, payers: &BTreeSet<Payer>) -> BTreeSet<String> {
        let today = self.today();
        payers.iter().flat_map(|payer| payer.own_keys().chain(payer.network_keys(today))).collect()
    }

    /// What is kept for the payers of a batch of calls, made of the accounts that [`keys`](Self::keys) names.
    pub fn sums(&self, payers: &BTreeSet<Payer>, read: Vec<KeptRow>) -> KeptSums {
        let mut sums = KeptSums::new(self, self.today(), payers);
        for (payer, bytes, rows) in read {
            sums.add(&payer, Kept { bytes, rows });
        }
        sums
    }

    /// Whoever changes the accounts of several agents in several statements takes them first, in this order: otherwise two
    /// transactions could wait for each other. It gives what they have. On SQLite there is one writer, and nothing to take.
    pub async fn lock(&self, tx: &mut AnyConnection, payers: &BTreeSet<Payer>) -> sqlx::Result<Vec<KeptRow>> {
        let mut taken = Vec::new();
        if self.0.db.engine() == Engine::Sqlite {
            return Ok(taken);
        }
        // Agents and tenants before domains, as every statement that counts takes them.
        let own: BTreeSet<String> = payers.iter().map(|payer| payer.key().to_owned()).collect();
        let domains: BTreeSet<String> = payers.iter().filter_map(Payer::domain_key).collect();
        for names in [own, domains].iter().filter(|names| !names.is_empty()) {
            let text = format!(
                "INSERT INTO account (payer, bytes, kept_rows) SELECT value, 0, 0 FROM {} AS names ORDER BY value
                 ON CONFLICT (payer) DO UPDATE SET bytes = account.bytes RETURNING payer, bytes, kept_rows",
                json::texts(Engine::Postgres, 1)
            );
            let query = sqlx::query_as::<Any, KeptRow>(AssertSqlSafe(text));
            taken.extend(query.bind(json::text(names)?).fetch_all(&mut *tx).await?);
        }
        Ok(taken)
    }

    /// Stores what a batch of calls has added for networks. What it has added for agents and domains was counted with its rows.
    pub async fn write(&self, tx: &mut AnyConnection, sums: &KeptSums) -> sqlx::Result<()> {
        let rows = sums.network_rows();
        if rows.is_empty() {
            return Ok(());
        }
        let columns =
            [("payer", "TEXT"), ("bytes", "BIGINT"), ("kept_rows", "BIGINT"), ("counted_on", "BIGINT")];
        let more = "(payer) DO UPDATE SET bytes = account.bytes + excluded.bytes,
             kept_rows = account.kept_rows + excluded.kept_rows";
        let text = json::insert(self.0.db.engine(), 1, "account", &columns, more);
        let rows = json::rows_text(self.0.db.engine(), &columns, &rows)?;
        sqlx::query(AssertSqlSafe(text)).bind(rows).execute(tx).await?;
        Ok(())
    }

    /// What is kept for the payer of a call, before the call stores something in this transaction.
    pub async fn before(&self, tx: &mut AnyConnection, payer: Payer) -> sqlx::Result<Charge> {
        let sums = self.read(tx, &BTreeSet::from([payer.clone()])).await?;
        Ok(Charge { payer, sums })
    }

    /// Refuses what was stored in this transaction since [`before`](Self::before), if the payer may not keep so much. The caller does
    /// not commit then. What is less than before, or as much, is never refused.
    pub async fn charge(&self, tx: &mut AnyConnection, charge: Charge) -> Result<(), ChargeError> {
        let Charge { payer, mut sums } = charge;
        let stored = self.read(tx, &BTreeSet::from([payer.clone()])).await?;
        let more = stored.of(payer.key()).minus(sums.of(payer.key()));
        if more.bytes <= 0 && more.rows <= 0 {
            return Ok(());
        }
        sums.charge(&payer, more)?;
        Ok(self.write(tx, &sums).await?)
    }

    /// Who pays for what this agent stores.
    pub fn payer(&self, agent: &crate::CallingAgent) -> Payer {
        Payer::of(agent, &self.0.issuer)
    }

    /// The same for an agent that calls nothing now.
    pub fn payer_of(&self, aid: Aid) -> Payer {
        Payer::new(aid, None, &self.0.issuer)
    }

    /// Who has this key in the column of a table that says who pays: an agent, or a tenant.
    pub fn payer_of_key(&self, key: &str) -> Result<Payer, AidError> {
        Payer::of_key(key, &self.0.issuer)
    }

    fn today(&self) -> Today {
        let days = i64::from(self.0.accounts.settings().new_agent_days);
        Today { day: self.0.clock.now_ms() / DAY_MS, days }
    }
}

/// Why something is not stored.
#[derive(Debug, thiserror::Error)]
pub enum ChargeError {
    #[error(transparent)]
    Full(#[from] AccountFull),
    #[error(transparent)]
    Store(#[from] sqlx::Error),
}

impl From<ChargeError> for crate::RpcError {
    fn from(error: ChargeError) -> crate::RpcError {
        match error {
            ChargeError::Full(full) => full.into(),
            ChargeError::Store(error) => error.into(),
        }
    }
}

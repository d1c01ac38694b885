//! Which domain a letter went to, for as long as its sender may take it back. Written down behind the answers, many at a
//! time; what a crash forgets can not be recalled, and nothing else.

use super::super::letter::Key;
use super::super::store::json;
use super::rows::list;
use crate::kernel::{Db, Engine};
use parking_lot::Mutex;
use std::collections::HashMap;

/// The two minutes of a recall, and ten for clocks and detours.
const REMEMBER_MS: i64 = 12 * 60_000;
/// With so many not written down yet, the oldest way to lose one is not to take it.
const MOST: usize = 100_000;
/// A commit that waits behind one of these waits no longer than behind another commit.
const AT_ONCE: usize = 500;

pub(in super::super) struct Targets {
    db: Db,
    fresh: Mutex<HashMap<Key, (String, i64)>>,
}

impl Targets {
    pub fn new(db: Db) -> Targets {
        Targets { db, fresh: Mutex::default() }
    }

    pub fn remember(&self, key: Key, issuer: &str, now: i64) {
        let mut fresh = self.fresh.lock();
        if fresh.len() < MOST {
            fresh.insert(key, (issuer.to_owned(), now));
        }
    }

    /// Writes down what was remembered since. What fails stays for the next time.
    pub async fn flush(&self) -> sqlx::Result<()> {
        loop {
            let rows: Vec<(Key, String, i64)> = {
                let fresh = self.fresh.lock();
                let rows = fresh.iter().take(AT_ONCE);
                rows.map(|(key, (issuer, at))| (*key, issuer.clone(), *at)).collect()
            };
            if rows.is_empty() {
                return Ok(());
            }
            let texts: Vec<(String, &str, i64)> =
                rows.iter().map(|(key, issuer, at)| (key.text(), issuer.as_str(), *at)).collect();
            let query = match self.db.engine() {
                Engine::Sqlite => sqlx::query(
                    "INSERT INTO abroad (key, issuer, at)
                     SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each($1) WHERE true
                     ON CONFLICT (key) DO NOTHING",
                ),
                Engine::Postgres => sqlx::query(
                    "INSERT INTO abroad (key, issuer, at)
                     SELECT v ->> 0, v ->> 1, CAST(v ->> 2 AS BIGINT)
                     FROM json_array_elements(CAST($1 AS JSON)) AS v ORDER BY 1
                     ON CONFLICT (key) DO NOTHING",
                ),
            };
            query.bind(json(&texts)).execute(self.db.write_alone()).await?;
            self.forget(&rows);
            tokio::task::yield_now().await;
        }
    }

    /// They are written down now.
    fn forget(&self, rows: &[(Key, String, i64)]) {
        let mut fresh = self.fresh.lock();
        for (key, ..) in rows {
            fresh.remove(key);
        }
    }

    pub async fn purge(&self, now: i64) -> sqlx::Result<()> {
        loop {
            let query = match self.db.engine() {
                Engine::Sqlite => sqlx::query(
                    "DELETE FROM abroad WHERE key IN (SELECT key FROM abroad WHERE at < $1 ORDER BY at LIMIT $2)",
                ),
                Engine::Postgres => sqlx::query(
                    "DELETE FROM abroad
                     WHERE ctid = ANY(ARRAY(SELECT ctid FROM abroad WHERE at < $1 ORDER BY at LIMIT $2))",
                ),
            };
            let gone =
                query.bind(now - REMEMBER_MS).bind(AT_ONCE as i64).execute(self.db.write_alone()).await?;
            if gone.rows_affected() < AT_ONCE as u64 {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    }

    /// Where these went, as far as it is remembered.
    pub async fn find(&self, keys: &[Key], now: i64) -> sqlx::Result<HashMap<Key, String>> {
        let mut found: HashMap<Key, String> = {
            let fresh = self.fresh.lock();
            keys.iter().filter_map(|key| Some((*key, fresh.get(key)?.0.clone()))).collect()
        };
        let names: HashMap<String, Key> = keys.iter().map(|key| (key.text(), *key)).collect();
        let query = match self.db.engine() {
            Engine::Sqlite => sqlx::query_as(
                "SELECT key, issuer FROM abroad WHERE key IN (SELECT value FROM json_each($1)) AND at >= $2",
            ),
            Engine::Postgres => sqlx::query_as(
                "SELECT key, issuer FROM abroad WHERE key = ANY(string_to_array($1, ',')) AND at >= $2",
            ),
        };
        let wanted = list(self.db.engine(), &names.keys().collect::<Vec<_>>());
        let query = query.bind(wanted).bind(now - REMEMBER_MS);
        let rows: Vec<(String, String)> = query.fetch_all(self.db.read()).await?;
        found.extend(rows.into_iter().filter_map(|(key, issuer)| Some((*names.get(&key)?, issuer))));
        Ok(found)
    }
}

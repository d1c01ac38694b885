//! Accounts on the store that the tests run with.

use super::*;
use crate::store::test_tables::TestTables;
use crate::{AccountSettings, CallingAgent, DiskReading, DiskSpace, codes};
use proptest::prelude::*;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;
use testing::cases;

const TEXTS: &str = "CREATE TABLE text_row (id BIGINT PRIMARY KEY, author TEXT NOT NULL, body TEXT NOT NULL, note TEXT, seen BIGINT);
    CREATE TABLE log_row (id BIGINT PRIMARY KEY, payer TEXT NOT NULL, title TEXT NOT NULL, entries BIGINT NOT NULL, entry_bytes BIGINT);
    CREATE TABLE entry_row (log BIGINT NOT NULL, body TEXT NOT NULL);
    INSERT INTO text_row VALUES (-1, 'early.aid.pub', 'before there were accounts', NULL, 0)";

static KEEPING: Keeping = Keeping {
    service: "test",
    tables: &[
        KeptTable { name: "text_row", payer: "author", columns: &["body", "note"], counted: &[] },
        KeptTable {
            name: "log_row",
            payer: "payer",
            columns: &["title"],
            counted: &[CountedRows { rows: "entries", bytes: "entry_bytes" }],
        },
    ],
    free: &[("entry_row", "counted in the row of its log")],
};

struct TestAccounts {
    tables: TestTables,
    account: Account,
    world: World,
}

impl TestAccounts {
    async fn open(bytes: u64, settings: AccountSettings) -> TestAccounts {
        let tables = TestTables::open(TEXTS).await;
        let mut world = World::local("aid.pub", Path::new("unused"), testing::store_url().parse().unwrap());
        world.accounts = Accounts::new(settings, &world.bus);
        let share = AccountShare { setting: "test.kept_bytes", bytes };
        let account = Account::open(&world, &tables.db, &KEEPING, share).await.unwrap();
        TestAccounts { tables, account, world }
    }

    fn payer(&self, name: &str, network: Option<&str>) -> Payer {
        let mut agent = CallingAgent::without_session(Aid::parse(name).unwrap(), [0, 0, 0, 0].into());
        agent.network = network.map(|network| network.parse().unwrap());
        self.account.payer(&agent)
    }

    /// Stores a text as a service does.
    async fn store(&self, payer: &Payer, id: i64, body: &str) -> Result<(), ChargeError> {
        let mut tx = self.tables.db.write().await?;
        let charge = self.account.before(&mut tx, payer.clone()).await?;
        sqlx::query(
            "INSERT INTO text_row (id, author, body) VALUES ($1, $2, $3)
             ON CONFLICT (id) DO UPDATE SET body = excluded.body",
        )
        .bind(id)
        .bind(payer.key())
        .bind(body)
        .execute(&mut *tx)
        .await?;
        self.account.charge(&mut tx, charge).await?;
        Ok(tx.commit().await?)
    }

    /// Adds entries to a log as a service does: the numbers of the log change with them.
    async fn append(&self, payer: &Payer, log: i64, bodies: &[&str]) -> Result<(), ChargeError> {
        let mut tx = self.tables.db.write().await?;
        let charge = self.account.before(&mut tx, payer.clone()).await?;
        for body in bodies {
            let insert = sqlx::query("INSERT INTO entry_row (log, body) VALUES ($1, $2)");
            insert.bind(log).bind(*body).execute(&mut *tx).await?;
        }
        let bytes: usize = bodies.iter().map(|body| body.len()).sum();
        sqlx::query(
            "INSERT INTO log_row (id, payer, title, entries, entry_bytes) VALUES ($1, $2, 'log', $3, $4)
             ON CONFLICT (id) DO UPDATE SET entries = log_row.entries + excluded.entries,
                 entry_bytes = log_row.entry_bytes + excluded.entry_bytes",
        )
        .bind(log)
        .bind(payer.key())
        .bind(i64::try_from(bodies.len()).unwrap())
        .bind(i64::try_from(bytes).unwrap())
        .execute(&mut *tx)
        .await?;
        self.account.charge(&mut tx, charge).await?;
        Ok(tx.commit().await?)
    }

    async fn run(&self, sql: &'static str) {
        sqlx::query(sql).execute(self.tables.db.write_alone()).await.unwrap();
    }

    async fn kept(&self, name: &str) -> (i64, i64) {
        let kept = sqlx::query_as("SELECT bytes, kept_rows FROM account WHERE payer = $1").bind(name);
        kept.fetch_optional(self.tables.db.read()).await.unwrap().unwrap_or_default()
    }

    /// How many accounts are not what their rows are.
    async fn differing(&self) -> i64 {
        let mut connection = self.tables.db.read().acquire().await.unwrap();
        self.account.0.counting.differing(&mut connection).await.unwrap()
    }
}

fn refused(stored: Result<(), ChargeError>) -> AccountFull {
    match stored {
        Err(ChargeError::Full(full)) => full,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_store_counts_every_row_that_comes_changes_and_goes() {
    let test = TestAccounts::open(1 << 20, AccountSettings::default()).await;
    assert_eq!(test.kept("early.aid.pub").await, (512 + 26, 1), "what was there before is counted, too");
    test.run(
        "INSERT INTO text_row VALUES (1, 'alice.aid.pub', 'ä', NULL, 0), (2, 'alice.aid.pub', 'xyz', 'note', 0),
             (3, 'carol.north.test', 'abc', NULL, 0), (4, 'dave.north.test', '', NULL, 0)",
    )
    .await;
    assert_eq!(test.kept("alice.aid.pub").await, (2 * 512 + 2 + 7, 2), "bytes, not characters");
    assert_eq!(test.kept("carol.north.test").await, (515, 1));
    assert_eq!(test.kept("domain:north.test").await, (2 * 512 + 3, 2));
    assert_eq!(test.kept("domain:aid.pub").await, (0, 0), "our own agents have no account together");
    test.run("UPDATE text_row SET seen = 1").await;
    test.run("UPDATE text_row SET body = 'longer', note = NULL WHERE id IN (2, 3)").await;
    assert_eq!(test.kept("alice.aid.pub").await, (2 * 512 + 2 + 6, 2));
    assert_eq!(test.kept("domain:north.test").await, (2 * 512 + 6, 2));
    test.run("DELETE FROM text_row WHERE id <> 4").await;
    assert_eq!(test.kept("alice.aid.pub").await, (0, 0));
    assert_eq!(test.kept("domain:north.test").await, (512, 1));
    assert_eq!(test.differing().await, 0);
}

#[tokio::test]
async fn who_would_have_too_much_is_refused_and_nothing_is_stored() {
    let test = TestAccounts::open(2000, AccountSettings::default()).await;
    let alice = test.payer("alice.aid.pub", None);
    test.store(&alice, 1, &"x".repeat(1000)).await.unwrap();
    let full = refused(test.store(&alice, 2, "").await);
    assert_eq!((full.scope, full.limit, full.held), ("test.kept_bytes", 2000, 1512));
    assert_eq!(full.retry_after_ms, None, "it does not run out by itself");
    assert_eq!(test.kept("alice.aid.pub").await, (1512, 1));
    test.store(&alice, 1, &"x".repeat(1488)).await.unwrap();
    refused(test.store(&alice, 1, &"x".repeat(1489)).await);
    test.store(&alice, 1, "less").await.unwrap();
    test.store(&test.payer("bob1.aid.pub", None), 3, &"x".repeat(1000)).await.unwrap();
}

#[tokio::test]
async fn rows_all_services_domains_and_networks_have_limits() {
    let settings = AccountSettings {
        total_bytes: 5000,
        rows: 3,
        domain_shares: 2,
        network_shares: 2,
        ..AccountSettings::default()
    };
    let test = TestAccounts::open(2500, settings).await;
    let scope = |stored| refused(stored).scope;
    let alice = test.payer("alice.aid.pub", None);
    for id in 1..=3 {
        test.store(&alice, id, "").await.unwrap();
    }
    assert_eq!(scope(test.store(&alice, 4, "").await), "accounts.rows");
    let bob = test.payer("bob1.aid.pub", None);
    test.world.accounts.tell("message", vec![(bob.aid().unwrap().clone(), 4000)]);
    assert_eq!(scope(test.store(&bob, 5, &"x".repeat(1000)).await), "accounts.total_bytes");
    test.store(&bob, 5, &"x".repeat(400)).await.unwrap();
    for (n, id) in (10..14).enumerate() {
        let carol = test.payer(&format!("carol{n}.north.test"), None);
        let stored = test.store(&carol, id, &"x".repeat(800)).await;
        assert_eq!(stored.is_ok(), n < 3, "{n}");
    }
    let new = |n: i64| test.payer(&format!("new{n}1.aid.pub"), Some("192.0.2.0/24"));
    test.store(&new(0), 20, &"x".repeat(1400)).await.unwrap();
    test.run("DELETE FROM text_row WHERE id = 20").await;
    test.store(&new(1), 21, &"x".repeat(1400)).await.unwrap();
    let full = refused(test.store(&new(2), 22, &"x".repeat(1400)).await);
    assert_eq!((full.scope, full.held), ("accounts.network_shares", 2 * 1912), "what was removed counts");
    assert!(full.retry_after_ms.is_some_and(|wait| wait > 0), "it counts for some days only");
    test.store(&test.payer("new31.aid.pub", Some("198.51.100.0/24")), 23, &"x".repeat(1400)).await.unwrap();
    assert_eq!(test.differing().await, 0);
}

#[tokio::test]
async fn while_there_is_little_free_space_only_those_who_have_little_get_more() {
    let test = TestAccounts::open(64 * 1000, AccountSettings::default()).await;
    let (alice, bob) = (test.payer("alice.aid.pub", None), test.payer("bob1.aid.pub", None));
    test.store(&alice, 1, &"x".repeat(1000)).await.unwrap();
    test.world.disk.set(DiskReading::of_disk(150, 100));
    assert_eq!(test.world.disk.space(), DiskSpace::Low);
    let full = refused(test.store(&alice, 2, "").await);
    assert_eq!((full.scope, full.held), ("store.free_bytes", 1512));
    assert_eq!(crate::RpcError::from(full).code(), codes::UNAVAILABLE.code);
    test.store(&bob, 3, &"x".repeat(1000)).await.unwrap();
    test.store(&alice, 1, "less").await.unwrap();
}

#[tokio::test]
async fn a_tenant_has_a_share_of_its_own_and_no_domain() {
    let settings = AccountSettings { total_bytes: 100, rows: 1, ..AccountSettings::default() };
    let test = TestAccounts::open(100, settings).await;
    let (acme, other) = (Payer::tenant("acme.north.test x"), Payer::tenant("other"));
    let full = refused(test.store(&acme, 1, "").await);
    assert_eq!((full.scope, full.limit), ("tenant", 0), "a tenant without a share keeps nothing");
    let own: HashMap<_, _> = [("other".to_owned(), Kept { bytes: 600, rows: 9 })].into();
    test.account.set_tenant_shares(TenantShares { each: Kept { bytes: 3000, rows: 3 }, own: own.clone() });

    test.store(&acme, 1, &"x".repeat(1000)).await.unwrap();
    assert_eq!(test.kept("tenant:acme.north.test x").await, (1512, 1));
    let domains: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM account WHERE payer LIKE 'domain:%'")
        .fetch_one(test.tables.db.read())
        .await
        .unwrap();
    assert_eq!(domains, 0, "a tenant is of no domain, whatever its name has after a dot");
    let full = refused(test.store(&acme, 2, &"x".repeat(1000)).await);
    assert_eq!((full.scope, full.limit, full.held), ("tenant", 3000, 1512));
    assert_eq!(
        full.to_string(),
        "at most 3000 bytes of tenant acme.north.test x may be stored: 1512 already are, and this call adds 1512"
    );
    let error = crate::RpcError::from(full);
    assert_eq!((error.data("scope"), error.data("held")), (Some(&"tenant".into()), Some(&1512.into())));
    test.store(&acme, 2, "").await.unwrap();
    let each = Kept { bytes: 30_000, rows: 2 };
    test.account.set_tenant_shares(TenantShares { each, own });
    let full = refused(test.store(&acme, 3, "").await);
    assert_eq!((full.scope, full.limit, full.held), ("tenant", 2, 2));
    refused(test.store(&other, 5, &"x".repeat(100)).await);
    test.store(&other, 5, &"x".repeat(88)).await.unwrap();
    let alice = test.payer("alice.aid.pub", None);
    assert_eq!(refused(test.store(&alice, 6, "").await).scope, "test.kept_bytes");

    let listed = test.account.list(AccountChange::default()).await.unwrap().accounts;
    let shown: Vec<_> =
        listed.iter().map(|one| (one.payer.as_str(), one.bytes_limit, one.rows_limit)).collect();
    let tenants = [("tenant:acme.north.test x", 30_000, 2), ("tenant:other", 600, 9)];
    assert_eq!(
        shown,
        [tenants[0], tenants[1], ("early.aid.pub", 100, 1)],
        "by bytes, each with its own limit"
    );
    assert_eq!(test.account.nearly_full("").await.unwrap().len(), 1, "early, and no tenant");
    test.run("UPDATE account SET bytes = 7 WHERE payer LIKE 'tenant:%'").await;
    let recount = AccountChange { recount: true, ..AccountChange::default() };
    assert_eq!(test.account.list(recount).await.unwrap().corrected, Some(2));
    assert_eq!(test.kept("tenant:other").await, (600, 1));
    let again = test.account.payer_of_key("tenant:other").unwrap();
    assert_eq!((again.clone(), again.tenant_name()), (other.clone(), Some("other")));
    assert_eq!(test.account.payer_of_key("alice.aid.pub").unwrap(), alice);
    test.run("DELETE FROM text_row").await;
    assert_eq!((test.kept("tenant:other").await, test.differing().await), ((0, 0), 0));
}

#[tokio::test]
async fn tenants_and_agents_pay_in_one_batch() {
    let test = TestAccounts::open(1 << 20, AccountSettings::default()).await;
    let each = Kept { bytes: 600, rows: 9 };
    test.account.set_tenant_shares(TenantShares { each, ..TenantShares::default() });
    let (tenant, carol) = (Payer::tenant("t"), test.payer("carol.north.test", None));
    let mut tx = test.tables.db.write().await.unwrap();
    let payers = BTreeSet::from([tenant.clone(), carol.clone()]);
    let mut sums = test.account.read(&mut tx, &payers).await.unwrap();
    let row = Kept::rows(1, 0);
    sums.charge(&tenant, row).unwrap();
    assert_eq!(
        sums.charge(&tenant, row).unwrap_err().scope,
        "tenant",
        "what one call adds counts for the next"
    );
    sums.charge(&carol, row).unwrap();
    test.account.write(&mut tx, &sums).await.unwrap();
}

#[tokio::test]
async fn rows_that_another_row_counts_are_in_the_account_of_its_payer() {
    let test = TestAccounts::open(1 << 20, AccountSettings::default()).await;
    let each = Kept { bytes: 3000, rows: 100 };
    test.account.set_tenant_shares(TenantShares { each, ..TenantShares::default() });
    let acme = Payer::tenant("acme");
    test.append(&acme, 1, &[]).await.unwrap();
    assert_eq!(test.kept("tenant:acme").await, (515, 1));
    test.append(&acme, 1, &["a", "bc", "def"]).await.unwrap();
    assert_eq!(test.kept("tenant:acme").await, (515 + 3 * 512 + 6, 4));
    let full = refused(test.append(&acme, 1, &["x", "x"]).await);
    assert_eq!((full.scope, full.held), ("tenant", 2057));
    assert_eq!(test.kept("tenant:acme").await, (2057, 4), "nothing was stored");

    let carol = test.payer("carol.north.test", None);
    test.append(&carol, 2, &["xyz"]).await.unwrap();
    assert_eq!(test.kept("domain:north.test").await, (515 + 515, 2));
    // The account changes with the numbers, and not with the rows that they count.
    test.run("DELETE FROM entry_row").await;
    assert_eq!(test.kept("tenant:acme").await, (2057, 4));
    test.run("UPDATE account SET bytes = 1, kept_rows = 1 WHERE payer = 'tenant:acme'").await;
    let recount = AccountChange { recount: true, ..AccountChange::default() };
    assert_eq!(test.account.list(recount).await.unwrap().corrected, Some(1));
    assert_eq!(test.kept("tenant:acme").await, (2057, 4));
    test.run("UPDATE log_row SET entries = 1, entry_bytes = NULL WHERE id = 1").await;
    assert_eq!(test.kept("tenant:acme").await, (515 + 512, 2));
    test.run("DELETE FROM log_row").await;
    assert_eq!((test.kept("tenant:acme").await, test.kept("domain:north.test").await), ((0, 0), (0, 0)));
    assert_eq!(test.differing().await, 0);
}

#[tokio::test]
async fn the_operator_gives_more_and_counts_again() {
    let test = TestAccounts::open(1000, AccountSettings::default()).await;
    let alice = test.payer("alice.aid.pub", None);
    refused(test.store(&alice, 1, &"x".repeat(1000)).await);
    let aid = alice.aid().cloned();
    let more = AccountChange { aid: aid.clone(), bytes: Some(5000), ..AccountChange::default() };
    assert_eq!(test.account.list(more).await.unwrap().accounts[0].bytes_limit, 5000);
    test.store(&alice, 1, &"x".repeat(1000)).await.unwrap();
    test.run("UPDATE account SET bytes = 7 WHERE payer = 'alice.aid.pub'").await;
    let recount = AccountChange { recount: true, ..AccountChange::default() };
    let listed = test.account.list(recount.clone()).await.unwrap();
    assert_eq!((listed.corrected, listed.accounts[0].bytes), (Some(1), 1512));
    assert_eq!(test.account.list(recount).await.unwrap().corrected, Some(0));
    let back = AccountChange { aid, bytes: Some(0), ..AccountChange::default() };
    assert_eq!(test.account.list(back).await.unwrap().accounts[0].bytes_limit, 1000);
    let whose = AccountChange { bytes: Some(1), ..AccountChange::default() };
    assert!(test.account.list(whose).await.is_err());
}

#[tokio::test]
async fn who_keeps_nearly_all_it_may_is_found_and_what_has_to_go_is_known() {
    // On PostgreSQL and SQLite alike: 8000 bytes are so few that the index of the large accounts has none of these.
    for share in [8000, 8 << 20] {
        let test = TestAccounts::open(share, AccountSettings::default()).await;
        let body = |bytes: u64| "x".repeat(usize::try_from(bytes).unwrap() - 512);
        let full = async |after: &str| {
            let found = test.account.nearly_full(after).await.unwrap();
            found.iter().map(|aid| aid.name().to_owned()).collect::<Vec<_>>()
        };
        for (id, name, eighths) in [(1, "alice", 8), (2, "bob1", 7), (3, "carol", 6), (4, "dave", 8)] {
            let payer = test.payer(&format!("{name}.aid.pub"), None);
            test.store(&payer, id, &body(share / 8 * eighths)).await.unwrap();
        }
        let peer = test.payer("erin1.north.test", None);
        test.store(&peer, 5, &body(share)).await.unwrap();
        assert_eq!(full("").await, ["alice", "dave", "erin1"], "bob has just seven eighths");
        assert_eq!(full("alice.aid.pub").await, ["dave", "erin1"]);
        let share = i64::try_from(share).unwrap();
        for (name, bytes) in [("alice.aid.pub", share * 2), ("carol.aid.pub", share / 4 * 3)] {
            let aid = Some(Aid::parse(name).unwrap());
            test.account
                .list(AccountChange { aid, bytes: Some(bytes), ..AccountChange::default() })
                .await
                .unwrap();
        }
        assert_eq!(full("").await, ["carol", "dave", "erin1"], "limits of the operator count");

        let mut connection = test.tables.db.read().acquire().await.unwrap();
        let mut excess = async |name: &str| {
            test.account.excess(&mut connection, &Aid::parse(name).unwrap()).await.unwrap()
        };
        assert_eq!(excess("dave.aid.pub").await, Kept { bytes: share / 4, rows: 0 });
        assert_eq!(excess("bob1.aid.pub").await, Kept { bytes: share / 8, rows: 0 });
        assert_eq!(excess("alice.aid.pub").await, Kept::default());
        assert_eq!(excess("nobody.aid.pub").await, Kept::default());
    }
}

#[tokio::test]
async fn who_keeps_nearly_all_rows_it_may_is_found() {
    let settings = AccountSettings { rows: 16, ..AccountSettings::default() };
    let test = TestAccounts::open(1 << 30, settings).await;
    let alice = test.payer("alice.aid.pub", None);
    for id in 1..=15 {
        test.store(&alice, id, "").await.unwrap();
        let found = test.account.nearly_full("").await.unwrap();
        assert_eq!(found.len(), usize::from(id > 14), "{id}");
    }
    let mut connection = test.tables.db.read().acquire().await.unwrap();
    let excess = test.account.excess(&mut connection, alice.aid().unwrap()).await.unwrap();
    assert_eq!(excess, Kept { bytes: 0, rows: 3 });
}

#[tokio::test]
async fn a_table_that_nobody_pays_for_is_named() {
    static FORGETFUL: Keeping =
        Keeping { service: "test", tables: &[], free: &[("text_row", "of the test")] };
    let tables = TestTables::open(
        "CREATE TABLE text_row (id BIGINT PRIMARY KEY); CREATE TABLE other_row (id BIGINT PRIMARY KEY)",
    )
    .await;
    let counting = Counting::new(&FORGETFUL, tables.db.engine(), "aid.pub");
    let error = counting.begin(&tables.db, &FORGETFUL).await.unwrap_err();
    assert!(error.to_string().contains("other_row"), "{error}");
}

#[tokio::test]
async fn transactions_about_the_same_agents_do_not_wait_for_each_other_for_ever() {
    let test = TestAccounts::open(1 << 30, AccountSettings::default()).await;
    let payers: BTreeSet<Payer> =
        ["alice.aid.pub", "bob1.aid.pub", "carol.north.test"].map(|name| test.payer(name, None)).into();
    let write = async |n: i64| {
        for id in 0..20 {
            let mut tx = test.tables.db.write().await.unwrap();
            test.account.read(&mut tx, &payers).await.unwrap();
            // Each in an order of its own.
            let mut names: Vec<&str> = payers.iter().map(Payer::key).collect();
            names.rotate_left(usize::try_from(n).unwrap());
            for (place, name) in names.iter().enumerate() {
                sqlx::query("INSERT INTO text_row (id, author, body) VALUES ($1, $2, '')")
                    .bind(n * 1000 + id * 10 + i64::try_from(place).unwrap())
                    .bind(*name)
                    .execute(&mut *tx)
                    .await
                    .unwrap();
            }
            tx.commit().await.unwrap();
        }
    };
    tokio::join!(write(0), write(1), write(2));
    assert_eq!(test.kept("alice.aid.pub").await, (60 * 512, 60));
    assert_eq!(test.differing().await, 0);
}

/// An update of an agent rewrites the grants of its users: two of them waited for each other's accounts.
#[tokio::test]
async fn a_row_that_is_written_as_it_was_takes_no_account() {
    let test = TestAccounts::open(1 << 30, AccountSettings::default()).await;
    let alice = test.payer("alice.aid.pub", None);
    test.store(&alice, 1, "one").await.unwrap();
    if test.tables.db.engine() == Engine::Sqlite {
        test.store(&alice, 1, "one").await.unwrap();
        assert_eq!(test.kept("alice.aid.pub").await, (515, 1));
        return;
    }
    let mut taken = test.tables.db.write().await.unwrap();
    test.account.lock(&mut taken, &[alice].into()).await.unwrap();
    test.run("UPDATE text_row SET body = 'one', note = NULL, seen = 7 WHERE id = 1").await;
    drop(taken);
    assert_eq!(test.differing().await, 0);
}

/// Whoever writes has an account and wants a table; who counts again had the table and wanted the account.
#[tokio::test]
async fn counting_again_waits_for_writers_and_no_writer_fails() {
    let test = TestAccounts::open(1 << 30, AccountSettings::default()).await;
    let alice = test.payer("alice.aid.pub", None);
    if test.tables.db.engine() == Engine::Sqlite {
        return; // There is one writer.
    }
    let mut tx = test.tables.db.write().await.unwrap();
    test.account.lock(&mut tx, &[alice].into()).await.unwrap();
    let write = async {
        let waits =
            "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND relation = CAST('account' AS regclass)";
        let began = std::time::Instant::now();
        while sqlx::query_scalar::<_, i64>(waits).fetch_one(test.tables.db.read()).await.unwrap() == 0 {
            assert!(began.elapsed() < Duration::from_secs(30), "the other one waits for the account");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let insert = "INSERT INTO text_row (id, author, body) VALUES (1, 'alice.aid.pub', '')";
        sqlx::query(insert).execute(&mut *tx).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1500)).await;
        tx.commit().await.unwrap();
    };
    let (recounted, ()) = tokio::join!(test.account.0.counting.recount(&test.tables.db), write);
    assert_eq!(recounted.unwrap(), 0);
    assert_eq!(test.kept("alice.aid.pub").await, (512, 1));
}

/// Another domain can invent agents, in whose names nothing is stored.
#[tokio::test]
async fn accounts_that_keep_nothing_are_removed() {
    let test = TestAccounts::open(1 << 30, AccountSettings::default()).await;
    let (alice, carol) = (test.payer("alice.aid.pub", None), test.payer("carol.north.test", None));
    test.store(&alice, 1, "one").await.unwrap();
    let mut tx = test.tables.db.write().await.unwrap();
    test.account.lock(&mut tx, &[alice, carol].into()).await.unwrap();
    tx.commit().await.unwrap();
    test.account.remove_empty().await.unwrap();
    let payers: Vec<String> = sqlx::query_scalar("SELECT payer FROM account ORDER BY payer")
        .fetch_all(test.tables.db.read())
        .await
        .unwrap();
    assert_eq!(payers, ["alice.aid.pub", "early.aid.pub"]);
}

#[derive(Clone, Debug)]
enum RowStep {
    Put { id: i64, author: &'static str, body: String },
    Change { id: i64, body: String },
    Remove { below: i64 },
    Log { id: i64, payer: &'static str, rows: i64, bytes: i64 },
    RemoveLog { id: i64 },
}

fn row_step() -> impl Strategy<Value = RowStep> {
    let authors =
        prop::sample::select(vec!["alice.aid.pub", "bob1.aid.pub", "carol.north.test", "dave.south.test"]);
    let payers =
        prop::sample::select(vec!["alice.aid.pub", "carol.north.test", "tenant:t", "tenant:t.north.test"]);
    prop_oneof![
        4 => (0i64..12, authors, ".{0,20}").prop_map(|(id, author, body)| RowStep::Put { id, author, body }),
        2 => (0i64..12, ".{0,20}").prop_map(|(id, body)| RowStep::Change { id, body }),
        1 => (0i64..12).prop_map(|below| RowStep::Remove { below }),
        3 => (0i64..4, payers, 0i64..9, 0i64..99)
            .prop_map(|(id, payer, rows, bytes)| RowStep::Log { id, payer, rows, bytes }),
        1 => (0i64..4).prop_map(|id| RowStep::RemoveLog { id }),
    ]
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn accounts_equal_rows_whatever_is_written(steps in prop::collection::vec(row_step(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let differing = runtime.block_on(async {
            let test = TestAccounts::open(1 << 20, AccountSettings::default()).await;
            for step in steps {
                let query = match &step {
                    RowStep::Put { id, author, body } => sqlx::query(
                        "INSERT INTO text_row (id, author, body) VALUES ($1, $2, $3)
                         ON CONFLICT (id) DO UPDATE SET body = excluded.body",
                    ).bind(*id).bind(*author).bind(body.replace('\0', "")),
                    RowStep::Change { id, body } => {
                        sqlx::query("UPDATE text_row SET note = $2 WHERE id = $1").bind(*id).bind(body.replace('\0', ""))
                    }
                    RowStep::Log { id, payer, rows, bytes } => sqlx::query(
                        "INSERT INTO log_row (id, payer, title, entries, entry_bytes) VALUES ($1, $2, 'x', $3, $4)
                         ON CONFLICT (id) DO UPDATE SET entries = log_row.entries + excluded.entries,
                             entry_bytes = log_row.entry_bytes + excluded.entry_bytes",
                    ).bind(*id).bind(*payer).bind(*rows).bind(*bytes),
                    RowStep::RemoveLog { id } => sqlx::query("DELETE FROM log_row WHERE id = $1").bind(*id),
                    RowStep::Remove { below } => sqlx::query("DELETE FROM text_row WHERE id < $1").bind(*below),
                };
                query.execute(test.tables.db.write_alone()).await.unwrap();
            }
            test.differing().await
        });
        prop_assert_eq!(differing, 0);
    }
}

//! Inboxes that are long, and messages of an earlier schema: on PostgreSQL both are looked up another way.

use super::*;
use crate::store::lookup::SeqRange;
use kernel::World;
use sqlx::migrate::Migrator;
use std::collections::BTreeMap;

/// What the store says of each sender must be what the whole inbox says.
async fn compare(test: &TestWorld, to: &AgentDevice<'_>) {
    let page = |after: i64| to.call(test, "message.pull", json!({ "after_seq": after, "limit": 200 }));
    let (mut by_sender, mut after) = (BTreeMap::<String, Vec<i64>>::new(), 0);
    loop {
        let page = page(after).await.unwrap();
        for row in page["messages"].as_array().unwrap() {
            let sender = row["from"].as_str().unwrap().to_owned();
            by_sender.entry(sender).or_default().push(row["seq"].as_i64().unwrap());
        }
        after = page["latest_seq"].as_i64().unwrap();
        if page["has_more"] == json!(false) {
            break;
        }
    }
    let service = open_again(test).await;
    let aid = Aid::parse(&to.agent.aid).unwrap();
    let inbox = service.inboxes.of(&aid).await.unwrap()[0].id;
    let expected: BTreeMap<String, i64> =
        by_sender.iter().map(|(sender, seqs)| (sender.clone(), *seqs.last().unwrap())).collect();
    assert_eq!(service.store.senders(inbox).await.unwrap(), expected);
    for (sender, seqs) in &by_sender {
        for after in [0, 900, 990, 1_050] {
            let range = SeqRange { inbox, after, before: i64::MAX, sender: Some(sender) };
            let expected: Vec<i64> = seqs.iter().copied().filter(|seq| *seq > after).collect();
            let first = service.store.first(range, 30).await.unwrap();
            let most = expected.len().min(30);
            assert_eq!(first.iter().map(|entry| entry.seq).collect::<Vec<_>>(), expected[..most]);
            let last = service.store.last(range, 30).await.unwrap();
            let from = expected.len() - most;
            assert_eq!(last.iter().map(|entry| entry.seq).collect::<Vec<_>>(), expected[from..]);
        }
    }
}

#[tokio::test]
async fn what_one_sender_sent_is_found_in_a_long_inbox_and_after_old_messages_were_removed() {
    let (test, alice, carol) = two().await;
    let bobb = test.register("bobb").await;
    let to = AgentDevice { agent: &carol, device: "c" };
    let many = async |test: &TestWorld, numbers: std::ops::Range<usize>| {
        let send = async |number: usize| {
            let agent = if number.is_multiple_of(3) { &bobb } else { &alice };
            AgentDevice { agent, device: "a" }.send(test, &carol, &format!("m{number}")).await.unwrap();
        };
        futures_util::future::join_all(numbers.map(send)).await;
    };
    many(&test, 0..600).await;
    compare(&test, &to).await;
    test.world.clock.advance_ms(DAY_MS / 2);
    many(&test, 600..1_100).await;
    compare(&test, &to).await;
    test.world.clock.advance_ms(DAY_MS / 2 + 1);
    let test = test.restart().await;
    open_again(&test).await.remove_old().await;
    let test = test.restart().await;
    many(&test, 1_100..1_110).await;
    compare(&test, &to).await;
}

#[tokio::test]
async fn seqs_continue_in_whichever_order_messages_were_removed() {
    let (test, alice, carol) = two().await;
    if test.world.store.engine() == Engine::Sqlite {
        return; // One process writes its log, in the order of the seqs.
    }
    let from = AgentDevice { agent: &alice, device: "a" };
    for text in ["one", "two"] {
        from.send(&test, &carol, text).await.unwrap();
    }
    let test = test.restart().await;
    let store = &open_again(&test).await.store;
    // As when another process was faster: the first to be stored is not the one with the first seq.
    sqlx::query("UPDATE letter SET id = id + 100 WHERE seq = 1")
        .execute(store.db.write_alone())
        .await
        .unwrap();
    for left in [1, 0] {
        assert_eq!(store.remove_old(i64::MAX, 1).await.unwrap(), 1, "{left} are left");
    }
    assert_eq!(from.send(&test, &carol, "three").await.unwrap()["seq"], 3);
}

/// The migrations up to and including a version.
fn up_to(all: &Migrator, version: i64) -> Migrator {
    Migrator::with_migrations(all.iter().filter(|migration| migration.version <= version).cloned().collect())
}

#[tokio::test]
async fn messages_of_an_earlier_schema_keep_their_seqs_and_keys() {
    let world: World = TestWorld::with(&["ca", "auth", "agent"]).and(open).await.world;
    if world.store.engine() == Engine::Sqlite {
        return; // The schema never changed there.
    }
    let all = sqlx::migrate!("./migrations/postgres");
    let before = world.busy_db("upgraded", &up_to(&all, 6)).await.unwrap();
    sqlx::raw_sql(
        "INSERT INTO inbox (aid, device) VALUES ('a', '1'), ('a', '2'), ('b', '');
         INSERT INTO head (inbox, seq, floor) VALUES (1, 0, 0), (2, 0, 0), (3, 9, 9);
         SELECT number FROM post(5, 'aa000000000000000000000000000001,aa000000000000000000000000000002', 's1' || chr(31) || 's2',
             'x[' || chr(31) || 'y[', '{1,2,4}', ',1]' || chr(31) || ',2,[' || chr(31) || ',3]',
             '{1,1,1,0,1,0,2,0,2,0,2,1}', '{1,2,0,2,1,0}')",
    )
    .execute(before.read())
    .await
    .unwrap();
    before.close().await;

    let after = world.busy_db("upgraded", &all).await.unwrap();
    let entries: Vec<(i64, i64, String, String)> = sqlx::query_as(
        "SELECT e.inbox, e.seq, e.sender, l.data FROM entry AS e JOIN letter AS l ON l.id = e.letter ORDER BY 1, 2",
    )
    .fetch_all(after.read())
    .await
    .unwrap();
    let row =
        |inbox: i64, seq: i64, sender: &str, data: &str| (inbox, seq, sender.to_owned(), data.to_owned());
    let expected =
        [row(1, 1, "s1", "x[1,1]"), row(1, 2, "s2", "y[2,2,[1,3]"), row(2, 1, "s2", "y[2,2,[1,3]")];
    assert_eq!(entries, expected);
    let again: (i64, String) = sqlx::query_as(
        "SELECT what, numbers FROM post(6, 'aa000000000000000000000000000002', 's2', 'y[', '{1,2}', ',1]', '{1,1,1}',
             '{1,-1,0}')",
    )
    .fetch_one(after.write_alone())
    .await
    .unwrap();
    assert_eq!(again, (1, "2".to_owned()), "its key is known");
    let next: (i64, String) = sqlx::query_as(
        "SELECT what, numbers FROM post(6, 'aa000000000000000000000000000003', 's2', 'z[', '{1,3}',
             ',1],[' || chr(31) || ',2]', '{1,1,1,2,1,1}', '{1,-1,0,3,-1,0}')",
    )
    .fetch_one(after.write_alone())
    .await
    .unwrap();
    assert_eq!(next, (0, "3,10".to_owned()), "seqs continue, also where all messages are removed");
}

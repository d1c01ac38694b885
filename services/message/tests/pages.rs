//! Random inboxes, read in every way there is: each way finds each of its rows exactly once, and every page keeps to its size.

use super::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::value::to_raw_value;

/// The most bytes of a page of more than one row.
const PAGE_BYTES: usize = 512 << 10;

#[derive(Clone, Debug)]
enum PageStep {
    Send {
        from: usize,
        kind: SentKind,
        bytes: usize,
        headers: usize,
    },
    /// Short queue messages, one after the other.
    QueueRun {
        from: usize,
        many: usize,
    },
    Recall {
        which: usize,
    },
    /// The content of all queue messages is gone, and nothing that was sent before can be recalled.
    Wait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SentKind {
    Plain,
    Sealed,
    Queue,
    Volatile,
}

/// A message that has a seq: the first one has 1, and there is no hole.
struct ExpectedRow {
    from: usize,
    /// Empty for one that says that another was recalled.
    id: String,
    kind: SentKind,
    /// Its content was stored for five minutes only.
    gone: bool,
}

/// The inbox of Carol's device `c`, and what must be in it.
struct RandomInbox<'a> {
    test: &'a TestWorld,
    senders: [TestAgent; 2],
    carol: TestAgent,
    stored: Vec<ExpectedRow>,
    volatile: Vec<(usize, String)>,
    sent: usize,
}

fn step() -> impl Strategy<Value = PageStep> {
    let kind = prop_oneof![
        5 => Just(SentKind::Plain),
        2 => Just(SentKind::Sealed),
        2 => Just(SentKind::Queue),
        2 => Just(SentKind::Volatile),
    ];
    let bytes = prop_oneof![
        4 => 0..2_000_usize,
        4 => 2_500..4_000_usize,
        3 => 50_000..120_000_usize,
        1 => 300_000..600_000_usize,
    ];
    let headers = prop_oneof![2 => Just(0_usize), 1 => 100..30_000_usize];
    let send = (0..2_usize, kind, bytes, headers).prop_map(|(from, kind, bytes, headers)| PageStep::Send {
        from,
        kind,
        bytes,
        headers,
    });
    prop_oneof![
        40 => send,
        1 => (0..2_usize, 40..70_usize).prop_map(|(from, many)| PageStep::QueueRun { from, many }),
        4 => (0..1000_usize).prop_map(|which| PageStep::Recall { which }),
        1 => Just(PageStep::Wait),
    ]
}

impl RandomInbox<'_> {
    fn sender(&self, from: usize) -> AgentDevice<'_> {
        AgentDevice { agent: &self.senders[from], device: "a" }
    }

    async fn step(&mut self, step: &PageStep) {
        match *step {
            PageStep::Send { from, kind, bytes, headers } => self.send(from, kind, bytes, headers).await,
            PageStep::QueueRun { from, many } => {
                for _ in 0..many {
                    self.send(from, SentKind::Queue, 10, 0).await;
                }
            }
            PageStep::Recall { which } => self.recall(which).await,
            PageStep::Wait => {
                self.test.world.clock.advance_ms(300_001);
                for row in self.stored.iter_mut().filter(|row| row.kind == SentKind::Queue) {
                    row.gone = true;
                }
            }
        }
    }

    async fn send(&mut self, from: usize, kind: SentKind, bytes: usize, headers: usize) {
        // Of queue messages 200 are stored, and 16 MiB.
        let bytes = if kind == SentKind::Queue { bytes.min(60_000) } else { bytes };
        let queued = self.stored.iter().filter(|row| row.kind == SentKind::Queue && !row.gone).count();
        let kind = if kind == SentKind::Queue && queued == 200 { SentKind::Plain } else { kind };
        self.sent += 1;
        let id = format!("m{}", self.sent);
        let mut params =
            json!({ "to": self.carol.aid, "message_id": id, "payload": { "text": "x".repeat(bytes) } });
        if headers > 0 {
            params["headers"] = json!({ "h": "x".repeat(headers) });
        }
        match kind {
            SentKind::Plain => {}
            SentKind::Sealed => params["payload"] = self.sealed(from, &id, bytes),
            SentKind::Queue => params["delivery_mode"] = json!("queue"),
            SentKind::Volatile => params["ttl"] = json!(3600),
        }
        let sent = self.sender(from).call(self.test, "message.send", params).await.unwrap();
        if kind == SentKind::Volatile {
            self.volatile.push((from, id));
            return;
        }
        self.stored.push(ExpectedRow { from, id, kind, gone: false });
        assert_eq!(sent["seq"], self.stored.len());
    }

    /// An envelope that is much longer in a row than alone: there it is a text, and its quotes are escaped once more.
    fn sealed(&self, from: usize, id: &str, bytes: usize) -> Value {
        let (key, fp) = ("AAAA".repeat(16), "sha256:0011223344556677");
        let row =
            [self.carol.aid.as_str(), "c", "peer", "peer_device_prekey", fp, fp, "AAAAAAAAAAAAAAAA", &key]
                .map(str::to_owned);
        let rows = [row];
        json!({
            "type": "e2ee.p2p_encrypted", "version": "v2", "suite": "P256_HKDF_SHA256_AES_256_GCM",
            "t_send": self.test.world.clock.now_ms(), "ciphertext": "AAAA", "hint": "\"".repeat(bytes / 4),
            "recipients_digest": envelope::digest(&rows), "recipients": rows,
            "aad": { "from": self.senders[from].aid, "from_device": "a", "to": self.carol.aid, "message_id": id },
        })
    }

    /// Its row stays where it was, and a new one says that it was recalled.
    async fn recall(&mut self, which: usize) {
        if self.stored.is_empty() {
            return;
        }
        let at = which % self.stored.len();
        if self.stored[at].id.is_empty() {
            return;
        }
        let (from, ids) = (self.stored[at].from, json!({ "message_ids": [self.stored[at].id] }));
        let answer = self.sender(from).call(self.test, "message.recall", ids).await.unwrap();
        if answer["recalled"] == 1 {
            self.stored[at].kind = SentKind::Plain;
            let notice = ExpectedRow { from, id: String::new(), kind: SentKind::Plain, gone: false };
            self.stored.push(notice);
        }
    }

    /// The seqs of the rows that a way of reading must find.
    fn expected(&self, from: Option<usize>, shown: impl Fn(&ExpectedRow) -> bool) -> Vec<i64> {
        let all = (1..).zip(&self.stored);
        let shown =
            all.filter(|(_, row)| from.is_none_or(|from| row.from == from) && !row.gone && shown(row));
        shown.map(|(seq, _)| seq).collect()
    }

    async fn page(&self, method: &str, params: &Value) -> Value {
        let caller = AgentDevice { agent: &self.carol, device: "c" }.caller();
        let params_text = Some(to_raw_value(params).unwrap());
        let answer = self.test.world.mesh.call(caller, method, params_text).await.unwrap();
        let page: Value = serde_json::from_str(answer.get()).unwrap();
        let (rows, bytes) = (page["messages"].as_array().unwrap().len(), answer.get().len());
        assert!(rows <= 1 || bytes <= PAGE_BYTES, "{rows} rows of {method} {params} have {bytes} bytes");
        assert!(rows as i64 <= params["limit"].as_i64().unwrap(), "{rows} rows of {method} {params}");
        assert_eq!(page["count"], rows);
        page
    }

    /// Reads towards the end as clients do. Gives the seqs, and the ids of messages with a ttl.
    async fn forward(&self, method: &str, scope: &Value, limit: i64) -> (Vec<i64>, Vec<String>) {
        let (mut seqs, mut volatile, mut after, mut cursor) = (Vec::new(), Vec::new(), 0, Value::Null);
        loop {
            let mut params = json!({ "after_seq": after, "limit": limit });
            params.as_object_mut().unwrap().extend(scope.as_object().unwrap().clone());
            if cursor.is_string() {
                params["after_volatile_cursor"] = cursor.clone();
            }
            let page = self.page(method, &params).await;
            let (seqs_before, volatile_before) = (seqs.len(), volatile.len());
            for row in page["messages"].as_array().unwrap() {
                match row["seq"].as_i64() {
                    Some(seq) => seqs.push(seq),
                    None => volatile.push(row["message_id"].as_str().unwrap().to_owned()),
                }
            }
            let reached = page["latest_seq"].as_i64().unwrap();
            let (stored_rows, volatile_rows) = (seqs.len() - seqs_before, volatile.len() - volatile_before);
            let (more, more_volatile) = (page["has_more"] == true, page["volatile_has_more"] == true);
            if !more && !more_volatile {
                return (seqs, volatile);
            }
            assert!(
                more || volatile_rows > 0,
                "clients go on for these after a page with one of them: {params}"
            );
            assert!(reached > after || volatile_rows > 0, "a page leads on: {params}");
            assert!(stored_rows == 0 || seqs.last() <= Some(&reached));
            assert!(
                volatile_rows == 0 || page["latest_volatile_cursor"] != cursor,
                "so does a cursor: {params}"
            );
            after = reached;
            if page["latest_volatile_cursor"].is_string() {
                cursor = page["latest_volatile_cursor"].clone();
            }
        }
    }

    async fn history(&self, scope: &Value, limit: i64) -> Vec<i64> {
        let (mut all, mut before) = (Vec::new(), 9_007_199_254_740_991);
        loop {
            let mut params = json!({ "before_seq": before, "limit": limit });
            params.as_object_mut().unwrap().extend(scope.as_object().unwrap().clone());
            let page = self.page("message.history", &params).await;
            all.splice(0..0, seqs(page["messages"].as_array().unwrap()));
            if page["has_older"] == false {
                return all;
            }
            before = page["next_before_seq"].as_i64().unwrap();
        }
    }

    /// The newest window has every row between its beginning and the head, and is not empty while there is one.
    async fn tail(&self, scope: &Value, after: i64, limit: i64, expected: &[i64]) {
        let mut params = json!({ "after_seq": after, "limit": limit, "window_mode": "tail" });
        params.as_object_mut().unwrap().extend(scope.as_object().unwrap().clone());
        let page = self.page("message.v2.pull", &params).await;
        let number = |name: &str| page[name].as_i64().unwrap();
        let (start, head) = (number("window_start_seq"), number("head_seq"));
        assert_eq!(number("covered_through_seq"), head);
        assert!(if head > after { start > after } else { start == head }, "{start} {head} {params}");
        let inside: Vec<i64> =
            expected.iter().copied().filter(|seq| *seq >= start && *seq <= head && *seq > after).collect();
        assert_eq!(seqs(page["messages"].as_array().unwrap()), inside, "{params}");
        if page.get("cursor_scope").is_none() {
            assert!(head - start < limit.min(50), "{start} {head} {params}");
        } else {
            assert_eq!(inside.is_empty(), expected.iter().all(|seq| *seq <= after), "{params}");
        }
    }

    async fn compare(&self, limit: i64, after: i64) {
        let everything = json!({});
        let first = self.page("message.pull", &json!({ "after_seq": 0, "limit": 200 })).await;
        let dropped = first["volatile_dropped_count"].as_u64().unwrap() as usize;
        let volatile = |from: Option<usize>| -> Vec<String> {
            let live = self.volatile[dropped..].iter();
            live.filter(|(by, _)| from.is_none_or(|from| *by == from)).map(|(_, id)| id.clone()).collect()
        };
        let plain = self.expected(None, |row| row.kind != SentKind::Sealed);
        assert_eq!(self.forward("message.pull", &everything, limit).await, (plain, volatile(None)));
        let all = self.expected(None, |_| true);
        let read = self.forward("message.v2.pull", &everything, limit).await;
        assert_eq!(read, (all.clone(), volatile(None)));
        let old = self.expected(None, |row| row.kind != SentKind::Queue);
        assert_eq!(self.history(&everything, limit).await, old);
        self.tail(&everything, after, limit, &all).await;
        for (from, sender) in self.senders.iter().enumerate() {
            let scope = json!({ "cursor_scope": "peer", "sender_aid": sender.aid });
            let all = self.expected(Some(from), |_| true);
            let read = self.forward("message.v2.pull", &scope, limit).await;
            assert_eq!(read, (all.clone(), volatile(Some(from))));
            let old = self.expected(Some(from), |row| row.kind != SentKind::Queue);
            assert_eq!(self.history(&scope, limit).await, old);
            self.tail(&scope, after, limit, &all).await;
        }
    }
}

async fn run(test: &TestWorld, case: &str, steps: &[PageStep], limit: i64, after: i64) {
    let register = async |name: &str| test.register(&format!("{name}{case}")).await;
    let senders = [register("alice").await, register("bobb").await];
    let carol = register("carol").await;
    AgentDevice { agent: &carol, device: "c" }.join(test).await;
    let mut inbox = RandomInbox { test, senders, carol, stored: Vec::new(), volatile: Vec::new(), sent: 0 };
    for step in steps {
        inbox.step(step).await;
    }
    for limit in [limit, 200] {
        inbox.compare(limit, after).await;
    }
}

#[test]
fn every_way_of_reading_finds_each_row_once_in_pages_that_keep_to_their_size() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let test = runtime.block_on(TestWorld::with(&["ca", "auth", "agent"]).and(open).into_future());
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(16) });
    let names = test.world.ids.clone();
    let inbox = (prop::collection::vec(step(), 1..50), 1..60_i64, 0..60_i64);
    let outcome = runner.run(&inbox, |(steps, limit, after)| {
        let case = hex::encode(names.bytes::<4>());
        runtime.block_on(run(&test, &case, &steps, limit, after));
        Ok(())
    });
    outcome.unwrap();
}

//! kill -9 while agents publish: what was acknowledged is in the directory, and a reader of the log that was cut off again and again
//! ends with the same as one that begins anew.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{delete, document, put};
use crate::support::agent::{ConnectedAgent, TestIdentity, TestTokens, random_hex};
use crate::support::{TestServer, until};

const AGENTS: usize = 4;
const ROUNDS: usize = 4;

/// What an agent published last, as far as it was acknowledged.
#[derive(Default)]
struct LastPublished {
    /// Of which one is there.
    possible: Vec<Option<String>>,
}

/// Somebody who copies the directory.
#[derive(Default)]
struct LogReader {
    hashes: BTreeMap<String, String>,
    cursor: Option<String>,
}

impl LogReader {
    /// Reads to the end, as far as the server answers.
    async fn follow(&mut self, agent: &ConnectedAgent) -> Result<(), Value> {
        loop {
            let page =
                agent.try_call("search.changes", &json!({ "cursor": self.cursor, "limit": 3 })).await?;
            for change in page["changes"].as_array().expect("a page has changes") {
                let aid = change["aid"].as_str().expect("an AID is text").to_owned();
                match change["agent_md_sha256"].as_str() {
                    Some(hash) => self.hashes.insert(aid, hash.to_owned()),
                    None => self.hashes.remove(&aid),
                };
            }
            self.cursor = Some(page["next_cursor"].as_str().expect("a cursor is text").to_owned());
            if page["has_more"] == false {
                return Ok(());
            }
        }
    }
}

#[tokio::test]
async fn a_directory_that_is_killed_again_and_again_has_what_was_acknowledged() {
    let limits = "limits.classes.\"search.sync\" = 100000\nlimits.classes.\"agent.publish\" = 100000\nlimits.calls_per_second = 100000\nlimits.http_per_second = 100000";
    let mut server = TestServer::with_two("search", limits).await;
    let mut agents: Vec<(TestIdentity, TestTokens, LastPublished)> = Vec::new();
    for number in 0..AGENTS {
        let agent = server.register(&format!("agent{number}")).await;
        let tokens = server.login(&agent).await;
        agents.push((agent, tokens, LastPublished { possible: vec![None] }));
    }
    let mut asker = server.agent("asker").await;
    let mut reader = LogReader::default();
    for _ in 0..ROUNDS {
        let (one, rest) = agents.split_at_mut(AGENTS / 2);
        let publishing = async {
            tokio::join!(publish(&server, one), publish(&server, rest));
        };
        tokio::select! {
            () = publishing => {}
            () = tokio::time::sleep(std::time::Duration::from_millis(400)) => {}
        }
        let _ = reader.follow(&asker).await;
        server.kill();
        server.start_again();
        asker = server.reconnect(&asker).await;
    }

    let allowed = |hashes: &BTreeMap<String, String>| {
        agents.iter().all(|(agent, _, last)| {
            let found = hashes.get(&agent.aid);
            last.possible.iter().any(|text| text.as_ref().map(|text| sha256(text)).as_ref() == found)
        })
    };
    until("the log has what was acknowledged", || async {
        let mut anew = LogReader::default();
        anew.follow(&asker).await.expect("the server answers");
        allowed(&anew.hashes).then_some(())
    })
    .await;
    reader.follow(&asker).await.expect("its cursor is still good");
    let mut anew = LogReader::default();
    anew.follow(&asker).await.expect("the server answers");
    assert_eq!(reader.hashes, anew.hashes);
    let page = asker.call("search.snapshot", &json!({})).await;
    let mut from_snapshot =
        LogReader { cursor: page["change_cursor"].as_str().map(str::to_owned), ..LogReader::default() };
    for item in page["items"].as_array().expect("a page has items") {
        let member = |name: &str| item[name].as_str().expect("it is text").to_owned();
        from_snapshot.hashes.insert(member("aid"), member("agent_md_sha256"));
    }
    from_snapshot.follow(&asker).await.expect("the server answers");
    assert_eq!(from_snapshot.hashes, anew.hashes);
    until("the index has the same", || async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        let found = asker.call("search.query", &json!({ "q": "agent", "limit": 50 })).await;
        (found["items"].as_array()?.len() == anew.hashes.len()).then_some(())
    })
    .await;
}

/// Publishes and takes back without pause, until it is cut off.
async fn publish(server: &TestServer, agents: &mut [(TestIdentity, TestTokens, LastPublished)]) {
    for round in 0.. {
        for (agent, tokens, last) in agents.iter_mut() {
            let text = (round % 4 != 3)
                .then(|| document(&agent.aid, "agent", &format!("tags: [\"t{}\"]\n", random_hex(4))));
            // Until it is answered, either may be there.
            last.possible.push(text.clone());
            match &text {
                Some(text) => assert_eq!(put(server, &agent.aid, tokens, text).await.status, 200),
                // In every fourth round what the third one published is there, whatever a kill cut off before.
                None => assert_eq!(delete(server, &agent.aid, tokens).await.status, 204),
            }
            last.possible = vec![text];
        }
    }
}

fn sha256(text: &str) -> String {
    hex::encode(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()))
}

//! The second half of the demo: one agent says what it can do, the other one finds it, and has it do that.

use super::demo_agent::{DemoAgent, EVENT_TIMEOUT};
use super::title;
use crate::show::Show;
use anyhow::{Context as _, ensure};
use client::{Aid, GatewayDialer};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How often the directory is asked until it lists what was published. It takes five questions a second.
const ASK_EVERY: Duration = Duration::from_millis(300);

/// What the server needs for it, as `/capabilities` names it.
const NEEDED: [&str; 2] = ["ns_search", "ns_task"];

/// Whether the server could do it.
pub(super) async fn hire(
    show: &Show,
    dialer: &GatewayDialer,
    mut alice: DemoAgent,
    mut bobb: DemoAgent,
) -> anyhow::Result<bool> {
    let capabilities = dialer.get("/capabilities").await?;
    let possible = NEEDED.iter().all(|tag| capabilities.contains(&format!("\"{tag}\"")));
    if possible {
        find_and_work(show, &mut alice, &mut bobb).await?;
        // On a server that goes on, the directory must not list an agent that is gone.
        unpublish(show, &bobb).await?;
    } else {
        title(show, "This server has no directory or no tasks, so nobody is hired.")?;
    }
    alice.client.close().await;
    bobb.client.close().await;
    Ok(possible)
}

async fn find_and_work(show: &Show, alice: &mut DemoAgent, bobb: &mut DemoAgent) -> anyhow::Result<()> {
    title(
        show,
        "Bobb says what he can do in a document that he signs. The directory lists it within a second.",
    )?;
    let tag = publish(bobb).await?;

    title(show, "Alice looks for somebody who reviews Rust.")?;
    let found =
        timeout(EVENT_TIMEOUT, search(alice, &tag)).await.context("the directory has not listed Bobb")??;
    ensure!(found == bobb.agent.aid, "the directory has found {found}, and not Bobb");

    title(show, "She gives him a task, and he learns of it.")?;
    let task = json!({ "to": found, "title": "Review", "input": text("Please review my patch") });
    let (created, _) =
        tokio::try_join!(alice.call("task.create", &task), bobb.wait_for_task("task.updated", "submitted"))?;
    let id = &created["task_id"];

    title(show, "He accepts it, and has a question. The task waits for Alice.")?;
    let about = json!({ "task_id": id });
    tokio::try_join!(bobb.call("task.accept", &about), alice.wait_for_task("task.updated", "working"))?;
    let question = json!({ "task_id": id, "message": text("Which patch?") });
    tokio::try_join!(
        bobb.call("task.request_input", &question),
        alice.wait_for_task("task.updated", "input_required")
    )?;

    title(show, "She answers, and he works on.")?;
    let answer = json!({ "task_id": id, "input": text("Number 7") });
    tokio::try_join!(alice.call("task.send_input", &answer), bobb.wait_for_task("task.updated", "working"))?;

    title(show, "He completes it with a result.")?;
    let result =
        json!({ "id": "review", "type": "text", "mime_type": "text/markdown", "content": "No risk." });
    let complete = json!({ "task_id": id, "artifacts": [result] });
    tokio::try_join!(
        bobb.call("task.complete", &complete),
        alice.wait_for_task("task.completed", "completed")
    )?;

    title(show, "Alice reads it.")?;
    let task = alice.call("task.get", &about).await?;
    ensure!(task["status"] == "completed", "the task was completed, and its status is {}", task["status"]);
    ensure!(task["artifacts"][0]["content"] == "No risk.", "the result of the task is missing");
    Ok(())
}

/// Publishes what Bobb can do; gives the tag that no other agent has.
async fn publish(bobb: &DemoAgent) -> anyhow::Result<String> {
    let aid = &bobb.agent.aid;
    let name = aid.as_str().split('.').next().unwrap_or("bobb");
    let tag = format!("demo-{name}");
    let document = format!(
        "---\naid: {aid}\nname: Bobb\ntype: assistant\nversion: 1.0.0\ndescription: Reviews code in Rust\n\
         tags: [review, {tag}]\n---\n# Bobb\n\nGive me a patch, and I review it.\n"
    );
    bobb.printer.http("PUT /agent.md", "name: Bobb, description: Reviews code in Rust")?;
    let published = bobb.client.publish_agent_md(&document).await?;
    bobb.printer.http_answer("PUT /agent.md ok", &published.agent_md_url)?;
    Ok(tag)
}

async fn unpublish(show: &Show, bobb: &DemoAgent) -> anyhow::Result<()> {
    title(show, "Bobb removes his document, and the directory no longer lists him.")?;
    bobb.printer.http("DELETE /agent.md", "")?;
    bobb.client.unpublish_agent_md().await?;
    Ok(bobb.printer.http_answer("DELETE /agent.md ok", "")?)
}

/// Asks until somebody is found.
async fn search(alice: &DemoAgent, tag: &str) -> anyhow::Result<Aid> {
    let query = json!({ "q": "reviews rust", "tags": [tag], "limit": 1 });
    loop {
        sleep(ASK_EVERY).await;
        let page = alice.call("search.query", &query).await?;
        if let Some(aid) = page["items"][0]["aid"].as_str() {
            return Ok(Aid::parse(aid)?);
        }
    }
}

fn text(content: &str) -> Value {
    json!({ "type": "text", "content": content })
}

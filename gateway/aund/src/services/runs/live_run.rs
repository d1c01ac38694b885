//! A run in the terminal as it happens: its events, and its questions, which are answered there and then.

use super::caller::RunCaller;
use super::event_text::{ends_run, event_text};
use super::text::question;
use crate::show::{Show, printable_line};
use client::Client;
use proto_schemas::Request;
use proto_schemas::requests::run::{
    Approvals, Approve, Events, RunApproval, RunEvent, RunEventPage, RunEventType,
};
use serde_json::Value;
use std::io::{self, IsTerminal as _};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Events of one call.
const PAGE: i64 = 100;

/// The pause after nothing new was found, which grows while nothing happens.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

pub(super) struct LiveRun<'a> {
    caller: &'a RunCaller,
    /// What an agent asks through; the operator has the socket of the server.
    client: Option<Client>,
    run_id: String,
    command_id: String,
    /// The seq of the last event that was printed.
    seen: i64,
    ended: bool,
    /// Whether a question was asked that is not known to be answered.
    asked: bool,
    said: SaidLast,
    show: Show,
}

/// The message that was printed last, which comes in parts, then as a whole, and at last as the reply.
#[derive(Default)]
struct SaidLast {
    item: String,
    text: String,
}

impl SaidLast {
    /// Whether all of it was printed already.
    fn again(&mut self, payload: &Value) -> bool {
        let text = payload["text"].as_str().unwrap_or_default();
        let item = payload["itemId"].as_str().unwrap_or_default();
        let reply = payload["replyAuthority"] == true || payload["final"] == true;
        let same = item == self.item || reply;
        if payload["partial"] == true {
            if !same {
                *self = SaidLast { item: item.to_owned(), text: String::new() };
            }
            self.text.push_str(text);
            return false;
        }
        let again = same && text == self.text;
        *self = SaidLast { item: item.to_owned(), text: text.to_owned() };
        again
    }
}

impl<'a> LiveRun<'a> {
    pub async fn new(
        caller: &'a RunCaller,
        run_id: String,
        command_id: String,
    ) -> anyhow::Result<LiveRun<'a>> {
        let (client, show) = (caller.client().await?, caller.show);
        Ok(LiveRun {
            caller,
            client,
            run_id,
            command_id,
            seen: 0,
            ended: false,
            asked: false,
            said: SaidLast::default(),
            show,
        })
    }

    /// Prints what happens until the command has ended. What is typed answers the oldest open question.
    pub async fn until_end(mut self) -> anyhow::Result<()> {
        let mut typed = typed_lines(&self.show);
        let mut pause = FIRST_PAUSE;
        while !self.ended {
            let events =
                Events { run_id: self.run_id.clone(), after_seq: Some(self.seen), limit: Some(PAGE) };
            let page = self.ask(&events).await?;
            if !page.events.is_empty() {
                pause = FIRST_PAUSE;
            }
            let more = page.has_more;
            self.print(page)?;
            if more || self.ended {
                continue;
            }
            tokio::select! {
                () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                Some(line) = typed.recv(), if self.asked => self.answer(line.trim()).await?,
            }
        }
        if let Some(client) = self.client {
            client.close().await;
        }
        Ok(())
    }

    async fn ask<R: Request>(&self, request: &R) -> anyhow::Result<R::Result> {
        match &self.client {
            Some(client) => Ok(client.request(request).await?),
            None => self.caller.ask(request).await,
        }
    }

    fn print(&mut self, page: RunEventPage) -> anyhow::Result<()> {
        page.events.iter().try_for_each(|event| self.print_event(event))
    }

    fn print_event(&mut self, event: &RunEvent) -> anyhow::Result<()> {
        let message = event.kind == RunEventType::AssistantMessage;
        match self.show.json {
            true => self.show.line(&serde_json::to_string(event)?)?,
            false if message && self.said.again(&serde_json::from_str(event.payload.get())?) => {}
            false => self.show.line(&event_text(&self.show, event))?,
        }
        self.seen = event.seq;
        match event.kind {
            RunEventType::ApprovalRequest => self.asked = true,
            RunEventType::TerminalStatus => {
                self.ended |= ends_run(event) || event.command_id.as_ref() == Some(&self.command_id);
            }
            _ => {}
        }
        Ok(())
    }

    /// A refused answer is said, and may be given again.
    async fn answer(&mut self, decision: &str) -> anyhow::Result<()> {
        let open = self.ask(&Approvals { run_id: self.run_id.clone() }).await?.approvals;
        let Some(oldest) = open.first() else {
            self.asked = false;
            return Ok(());
        };
        if !takes(oldest, decision) {
            self.show.note(&question(&self.show, oldest));
            return Ok(());
        }
        let approve = Approve {
            run_id: self.run_id.clone(),
            approval_id: oldest.approval_id.clone(),
            command_id: None,
            decision: decision.to_owned(),
            payload: None,
        };
        if let Err(error) = self.ask(&approve).await {
            self.show.note(&printable_line(&format!("{error:#}")));
        }
        Ok(())
    }
}

/// Whether it is one of the answers that the question takes.
fn takes(asked: &RunApproval, decision: &str) -> bool {
    match asked.options.is_empty() {
        true => ["accept", "decline", "cancel"].contains(&decision),
        false => asked.options.iter().any(|option| option == decision),
    }
}

/// The lines that somebody types; none where nobody sits at a terminal. The thread ends with the process: a read of a terminal cannot be
/// given up.
fn typed_lines(show: &Show) -> mpsc::Receiver<String> {
    let (tell, told) = mpsc::channel(1);
    if io::stdin().is_terminal() && !show.json {
        std::thread::spawn(move || {
            for line in io::stdin().lines().map_while(Result::ok) {
                if tell.blocking_send(line).is_err() {
                    break;
                }
            }
        });
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_schemas::find;
    use serde_json::json;

    #[test]
    fn a_message_is_printed_once() {
        let mut said = SaidLast::default();
        for (payload, again) in [
            (json!({ "itemId": "a", "text": "Bo", "partial": true }), false),
            (json!({ "itemId": "a", "text": "nn", "partial": true }), false),
            (json!({ "itemId": "a", "text": "Bonn" }), true),
            (json!({ "text": "Bonn", "replyAuthority": true }), true),
            (json!({ "itemId": "b", "text": "Bonn" }), false),
            (json!({ "itemId": "b", "text": "Berlin" }), false),
            (json!({ "text": "Bonn", "final": true }), false),
        ] {
            assert_eq!(said.again(&payload), again, "{payload}");
        }
    }

    #[test]
    fn a_question_takes_its_own_answers_or_the_usual_ones() {
        let asked = |options: Value| -> RunApproval {
            let mut example =
                find("run.approvals").unwrap().doc()["examples"][0]["result"]["approvals"][0].clone();
            example["options"] = options;
            serde_json::from_str(&example.to_string()).unwrap()
        };
        assert!(takes(&asked(json!([])), "decline") && !takes(&asked(json!([])), "yes"));
        assert!(takes(&asked(json!(["yes"])), "yes") && !takes(&asked(json!(["yes"])), "accept"));
    }
}

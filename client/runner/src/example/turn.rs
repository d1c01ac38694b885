//! One turn of the example back end.

use super::clock::now_in;
use super::said::SaidMessage;
use super::skill::Skill;
use crate::back_end::process_jsonl::{DoneStatus, FromProgram, StageStatus, ToProgram};
use crate::back_end::{ToolStatus, TurnImage};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How many words `/slow` says, and how often.
const SLOW_WORDS: usize = 50;
const SLOW_PAUSE: Duration = Duration::from_millis(200);

/// Where messages come from and go to.
pub(super) trait ExampleSide {
    /// The next message; nothing when there will be none.
    async fn hear(&mut self) -> io::Result<Option<ToProgram>>;
    async fn say(&mut self, message: FromProgram) -> io::Result<()>;
}

/// What the program was given besides.
pub(super) struct ExampleWorld {
    /// The variables of its environment whose names end with `KEY`.
    pub keys: Vec<(String, String)>,
    pub slow_pause: Duration,
}

impl ExampleWorld {
    pub fn new(keys: Vec<(String, String)>) -> ExampleWorld {
        ExampleWorld { keys, slow_pause: SLOW_PAUSE }
    }
}

/// A turn as it was asked for.
#[derive(Debug, Default)]
pub(super) struct ExampleTurn {
    pub command_id: String,
    pub text: String,
    pub images: Vec<TurnImage>,
    pub timezone: Option<String>,
}

/// How a turn goes on after something was done.
#[derive(Debug, PartialEq, Eq)]
enum GoesOn {
    Yes,
    Interrupted,
    /// Nobody listens any more.
    Over,
}

/// A turn under way.
pub(super) struct TurnWork<'a, S> {
    turn: ExampleTurn,
    world: &'a ExampleWorld,
    side: &'a mut S,
    said: SaidMessage,
    /// Guidance that was not said yet.
    steers: VecDeque<String>,
    ui_hints: Option<Value>,
}

impl<'a, S: ExampleSide> TurnWork<'a, S> {
    pub fn new(turn: ExampleTurn, world: &'a ExampleWorld, side: &'a mut S) -> TurnWork<'a, S> {
        let said = SaidMessage::new(&turn.command_id);
        TurnWork { turn, world, side, said, steers: VecDeque::new(), ui_hints: None }
    }

    /// The whole turn. It always passes `router` and then `worker`.
    pub async fn run(mut self) -> io::Result<()> {
        self.stage("router", StageStatus::Started).await?;
        let skills = Skill::all_of(&self.turn.text);
        self.stage("router", StageStatus::Finished).await?;
        self.stage("worker", StageStatus::Started).await?;
        for skill in skills {
            let goes_on = match skill {
                Skill::Fail => {
                    return self.end(DoneStatus::Failed, Some(("backend-failed", "asked to fail"))).await;
                }
                Skill::Ask => self.ask().await?,
                Skill::Slow => self.slow().await?,
                at_once => {
                    self.do_at_once(at_once).await?;
                    GoesOn::Yes
                }
            };
            match goes_on {
                GoesOn::Yes => {}
                GoesOn::Interrupted => {
                    return self.end(DoneStatus::Failed, Some(("cancelled", "interrupted"))).await;
                }
                GoesOn::Over => return Ok(()),
            }
        }
        self.say_steers().await?;
        self.say(&format!("You said: {}", self.turn.text)).await?;
        self.side.say(self.said.whole()).await?;
        self.end(DoneStatus::Completed, None).await
    }

    async fn do_at_once(&mut self, skill: Skill) -> io::Result<()> {
        match skill {
            Skill::Tool => self.clock().await,
            Skill::Calendar { is_bare } => self.calendar(is_bare).await,
            Skill::Image => self.say(&images_said(&self.turn.images)).await,
            Skill::Secret => {
                for (name, value) in &self.world.keys {
                    let sentence = format!("{name}={value}");
                    for part in self.said.say(&sentence) {
                        self.side.say(part).await?;
                    }
                }
                Ok(())
            }
            Skill::Ui => {
                self.ui_hints = Some(json!({
                    "status": "success", "title": "Example", "badge": "example",
                    "body": format!("You said: {}", self.turn.text),
                    "actions": [{ "label": "Again", "style": "primary" }],
                }));
                Ok(())
            }
            Skill::Fail | Skill::Ask | Skill::Slow => Ok(()),
        }
    }

    /// Waits for the answer. What else comes meanwhile is done later.
    async fn ask(&mut self) -> io::Result<GoesOn> {
        let approval_id = format!("{}-ask", self.turn.command_id);
        let question = FromProgram::Approval {
            approval_id: approval_id.clone(),
            reason: "example".to_owned(),
            message: Some("May the example go on?".to_owned()),
            call_id: None,
            response_schema: None,
            options: Some(vec!["accept".to_owned(), "decline".to_owned()]),
        };
        self.side.say(question).await?;
        loop {
            match self.side.hear().await? {
                None => return Ok(GoesOn::Over),
                Some(ToProgram::Interrupt) => return Ok(GoesOn::Interrupted),
                Some(ToProgram::Steer { text }) => self.steers.push_back(text),
                Some(ToProgram::Approval { approval_id: id, decision, .. }) if id == approval_id => {
                    self.say(if decision == "accept" { "approved" } else { "declined" }).await?;
                    return Ok(GoesOn::Yes);
                }
                Some(ToProgram::Approval { .. } | ToProgram::Turn { .. }) => {}
            }
        }
    }

    async fn slow(&mut self) -> io::Result<GoesOn> {
        for number in 1..=SLOW_WORDS {
            let next = Instant::now() + self.world.slow_pause;
            while let Ok(heard) = timeout_at(next, self.side.hear()).await {
                match heard? {
                    None => return Ok(GoesOn::Over),
                    Some(ToProgram::Interrupt) => return Ok(GoesOn::Interrupted),
                    Some(ToProgram::Steer { text }) => {
                        self.say(&text).await?;
                    }
                    Some(ToProgram::Approval { .. } | ToProgram::Turn { .. }) => {}
                }
            }
            let word = self.said.word(&format!("word{number}"), number == 1);
            self.side.say(word).await?;
        }
        Ok(GoesOn::Yes)
    }

    async fn clock(&mut self) -> io::Result<()> {
        let zone = self.zone();
        let (status, output) = match now_in(&zone) {
            Ok(time) => (ToolStatus::Completed, time),
            Err(why) => (ToolStatus::Failed, why),
        };
        self.tool("clock", json!({ "timezone": zone }), status, output).await
    }

    /// The tool refuses what has no zone: an event of a calendar without one is at another time for everybody.
    async fn calendar(&mut self, is_bare: bool) -> io::Result<()> {
        let mut args = json!({ "title": "Example", "start": "2026-01-01T09:00:00" });
        if is_bare {
            let refused = "event_timezone is required".to_owned();
            return self.tool("calendar_write", args, ToolStatus::Failed, refused).await;
        }
        let zone = self.zone();
        args["event_timezone"] = zone.as_str().into();
        self.tool("calendar_write", args, ToolStatus::Completed, format!("written in {zone}")).await
    }

    /// Never the zone of this machine.
    fn zone(&self) -> String {
        self.turn.timezone.clone().unwrap_or_else(|| "UTC".to_owned())
    }

    async fn tool(&mut self, name: &str, args: Value, status: ToolStatus, output: String) -> io::Result<()> {
        let progress = |status, args, output: Option<String>| FromProgram::Tool {
            call_id: format!("{}-{name}", self.turn.command_id),
            name: name.to_owned(),
            status,
            args,
            output: output.map(Value::from),
            exit_code: None,
        };
        let (started, ended) =
            (progress(ToolStatus::Started, Some(args), None), progress(status, None, Some(output)));
        self.side.say(started).await?;
        self.side.say(ended).await
    }

    async fn say_steers(&mut self) -> io::Result<()> {
        while let Some(text) = self.steers.pop_front() {
            self.say(&text).await?;
        }
        Ok(())
    }

    async fn say(&mut self, sentence: &str) -> io::Result<()> {
        for part in self.said.say(sentence) {
            self.side.say(part).await?;
        }
        Ok(())
    }

    async fn stage(&mut self, name: &str, status: StageStatus) -> io::Result<()> {
        self.side.say(FromProgram::Stage { name: name.to_owned(), status }).await
    }

    async fn end(mut self, status: DoneStatus, failure: Option<(&str, &str)>) -> io::Result<()> {
        self.stage("worker", StageStatus::Finished).await?;
        let done = FromProgram::Done {
            status,
            message: failure.map(|(_, message)| message.to_owned()),
            failure_kind: failure.map(|(kind, _)| kind.to_owned()),
            ui_hints: self.ui_hints,
        };
        self.side.say(done).await
    }
}

fn images_said(images: &[TurnImage]) -> String {
    let shown = images.iter().map(|image| {
        let size = std::fs::metadata(&image.path).map(|file| format!("{} bytes", file.len()));
        format!("{}, {}", image.mime_type, size.unwrap_or_else(|_| "not found".to_owned()))
    });
    let shown: Vec<String> = shown.collect();
    match shown.len() {
        0 => "0 images".to_owned(),
        1 => format!("1 image: {}", shown.concat()),
        many => format!("{many} images: {}", shown.join("; ")),
    }
}

//! One command, from its first event to its end. While it waits for an answer its AG-UI run is over, and what it says meanwhile is shown
//! in the run that continues it.

use super::RunPart;
use super::event::{AgUiEvent, RunOutcome};
use super::frame::FrameWriter;
use super::happened::{Asked, Called, CommandEnd, EndStatus, Happened, Reasoned, Said};
use super::ids::{MessageNames, ShownIds};
use super::question::OpenQuestions;
use super::steps::Steps;
use super::text::Texts;
use super::thought::ReasonedItems;
use super::tool::ToolCalls;
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub(super) struct ActiveCommand {
    id: String,
    /// The run that is shown, and which of the command's parts it is.
    run: RunPart,
    part: usize,
    ids: ShownIds,
    steps: Steps,
    texts: Texts,
    tools: ToolCalls,
    thoughts: ReasonedItems,
    questions: OpenQuestions,
    /// What happened since the first question.
    kept: Vec<Happened>,
    ui_hints: Option<Value>,
    /// What the back end said last of what is wrong.
    failure: Option<String>,
}

impl ActiveCommand {
    pub fn begin(id: &str, run: &RunPart, names: MessageNames, out: &mut FrameWriter) -> ActiveCommand {
        out.begin_run(run);
        ActiveCommand {
            id: id.to_owned(),
            run: run.clone(),
            part: 0,
            ids: ShownIds::new(id, names),
            steps: Steps::default(),
            texts: Texts::default(),
            tools: ToolCalls::default(),
            thoughts: ReasonedItems::default(),
            questions: OpenQuestions::default(),
            kept: Vec::new(),
            ui_hints: None,
            failure: None,
        }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn go_on(&self, out: &mut FrameWriter) {
        out.go_on(&self.run);
    }

    /// Takes what happened; whether the command has ended with it.
    pub fn fold(&mut self, happened: Happened, parts: &[RunPart], out: &mut FrameWriter) -> bool {
        match happened {
            Happened::Ended(end) => {
                self.end(&end, parts, out);
                return true;
            }
            Happened::Asked(asked) => self.ask(asked, out),
            Happened::Answered { approval_id } => self.answer(&approval_id, parts, out),
            Happened::Failed { message } => self.failure = Some(message),
            happened if self.questions.are_open() => self.kept.push(happened),
            happened => self.show(happened, out),
        }
        false
    }

    fn show(&mut self, happened: Happened, out: &mut FrameWriter) {
        match happened {
            Happened::Said(said) => self.say(&said, out),
            Happened::Called(call) => self.call(&call, out),
            Happened::Reasoned(thought) => self.think(&thought, out),
            Happened::Stage { stage, is_finished } => self.steps.stage(stage, is_finished, out),
            Happened::UiHints(hints) => self.ui_hints = Some(hints),
            Happened::Asked(_)
            | Happened::Answered { .. }
            | Happened::Failed { .. }
            | Happened::Ended(_)
            | Happened::Nothing => {}
        }
    }

    fn say(&mut self, said: &Said, out: &mut FrameWriter) {
        let item_id = said.item_id.clone().unwrap_or_else(|| format!("{}-message", self.id));
        self.texts.say(&item_id, said, &mut self.steps, &mut self.ids, out);
    }

    fn call(&mut self, call: &Called, out: &mut FrameWriter) {
        if !self.tools.is_new(call) {
            return;
        }
        self.texts.pause(out);
        self.steps.show(out);
        self.tools.show(call, self.texts.parent().as_deref(), &mut self.ids, out);
        if call.status.is_end() {
            self.texts.is_passed();
        }
    }

    fn think(&mut self, thought: &Reasoned, out: &mut FrameWriter) {
        let item_id = thought.item_id.clone().unwrap_or_else(|| format!("{}-reasoning", self.id));
        if self.thoughts.is_new(&item_id, &thought.text) {
            self.texts.pause(out);
            self.steps.show(out);
            ReasonedItems::show(&item_id, &thought.text, &mut self.ids, out);
            self.texts.is_passed();
        }
    }

    /// A question ends the AG-UI run. Where one is open already, its run began and ended before: so it begins again, and ends with all.
    fn ask(&mut self, asked: Asked, out: &mut FrameWriter) {
        if self.questions.has(&asked.approval_id) {
            return;
        }
        match self.questions.are_open() {
            true => out.begin_run(&self.run),
            false => {
                self.texts.close(None, out);
                self.steps.close(out);
            }
        }
        let call_id = asked.call_id.as_deref().map(|id| self.tools.shown_id(id).to_owned());
        self.questions.ask(asked, call_id);
        out.finish_run(Some(RunOutcome::Interrupt { interrupts: self.questions.interrupts() }));
    }

    fn answer(&mut self, approval_id: &str, parts: &[RunPart], out: &mut FrameWriter) {
        if self.questions.answer(approval_id) {
            // Who answers in another way than by AG-UI sees the run go on that asked.
            self.turn_to(|id| id == approval_id, parts);
            self.begin_run(out);
        }
    }

    /// Turns to the run that answers such a question, if there is one. It comes after the run that asked, because an id may be asked twice.
    fn turn_to(&mut self, is_answered: impl Fn(&str) -> bool, parts: &[RunPart]) -> bool {
        let mut later = parts.iter().enumerate().skip(self.part + 1);
        let Some((at, part)) = later.find(|(_, part)| part.answers.iter().any(|id| is_answered(id))) else {
            return false;
        };
        (self.part, self.run) = (at, part.clone());
        true
    }

    /// Begins the run that is shown now, with what happened since the last one.
    fn begin_run(&mut self, out: &mut FrameWriter) {
        self.texts.begin_run();
        out.begin_run(&self.run);
        for happened in std::mem::take(&mut self.kept) {
            self.show(happened, out);
        }
    }

    fn end(&mut self, end: &CommandEnd, parts: &[RunPart], out: &mut FrameWriter) {
        let mut is_over = self.questions.are_open();
        if is_over {
            // Somebody may have answered whose answer came too late: his run begins, so that it ends.
            let questions = std::mem::take(&mut self.questions);
            let is_answered = self.turn_to(|id| questions.has(id), parts);
            if is_answered || end.status == EndStatus::Completed {
                self.begin_run(out);
                is_over = false;
            }
        }
        if end.status == EndStatus::Completed {
            return self.complete(out);
        }
        self.texts.close(None, out);
        self.steps.close(out);
        match end.status {
            // `RUN_FINISHED` may not stand behind another one, and old clients take it for success.
            EndStatus::Cancelled if self.run.has_protocol_version && !is_over => {
                out.finish_run(Some(RunOutcome::Cancelled));
            }
            EndStatus::Cancelled => out.fail_run("run canceled by user", "RUN_CANCELED"),
            EndStatus::Blocked => self.fail(end, "blocked", out),
            EndStatus::Failed | EndStatus::Completed => self.fail(end, "backend-failed", out),
        }
    }

    fn complete(&mut self, out: &mut FrameWriter) {
        let ui_schema = self.ui_hints.as_ref().and_then(crate::compile_ui);
        let mut metadata = json!({ "agentrun": { "status": "completed" } });
        if let Some(document) = &ui_schema {
            metadata["agentrun"]["ui_schema"] = document.clone();
        }
        self.texts.close(Some(&metadata), out);
        self.steps.complete(out);
        if let Some(value) = &ui_schema {
            out.say(&AgUiEvent::Custom { name: "ui_schema", value });
        }
        out.finish_run(None);
    }

    fn fail(&self, end: &CommandEnd, kind: &str, out: &mut FrameWriter) {
        let code = end.failure_kind.as_deref().unwrap_or(kind);
        let message = end.message.as_deref().or(self.failure.as_deref()).unwrap_or(code);
        out.fail_run(message, code);
    }
}

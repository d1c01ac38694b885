//! The two stages of a turn, as steps. Both are always shown, `router` and then `worker`; a back end that has no stages has an empty
//! `router`, and works in `worker`.

use super::event::AgUiEvent;
use super::frame::FrameWriter;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Router,
    Worker,
}

impl Stage {
    pub fn of_word(word: &str) -> Option<Stage> {
        match word {
            "router" => Some(Stage::Router),
            "worker" => Some(Stage::Worker),
            _ => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Stage::Router => "router",
            Stage::Worker => "worker",
        }
    }
}

/// How far a command has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reached {
    #[default]
    Nothing,
    Router,
    AfterRouter,
    Worker,
    AfterWorker,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    reached: Reached,
    /// The step that is open in this run. A question closes it, and the first thing that is shown after the answer opens it again.
    open: Option<Stage>,
}

impl Steps {
    /// A stage of the back end has begun or ended. Each counts once.
    pub fn stage(&mut self, stage: Stage, is_finished: bool, out: &mut FrameWriter) {
        match (stage, is_finished, self.reached) {
            (Stage::Router, false, Reached::Nothing) => self.enter(Stage::Router, out),
            (Stage::Router, true, Reached::Router) => self.leave(Reached::AfterRouter, out),
            (Stage::Worker, false, Reached::Nothing | Reached::Router | Reached::AfterRouter) => {
                self.enter_worker(out);
            }
            (Stage::Worker, true, Reached::Worker) => self.leave(Reached::AfterWorker, out),
            _ => {}
        }
    }

    /// Something is about to be shown.
    pub fn show(&mut self, out: &mut FrameWriter) {
        match self.reached {
            Reached::Nothing | Reached::AfterRouter => self.enter_worker(out),
            Reached::Router if self.open.is_none() => self.enter(Stage::Router, out),
            Reached::Worker if self.open.is_none() => self.enter(Stage::Worker, out),
            Reached::Router | Reached::Worker | Reached::AfterWorker => {}
        }
    }

    /// The run ends here: nothing may stay open.
    pub fn close(&mut self, out: &mut FrameWriter) {
        if let Some(stage) = self.open.take() {
            out.say(&AgUiEvent::StepFinished { step_name: stage.word() });
        }
    }

    /// The command has completed, and so both stages have passed.
    pub fn complete(&mut self, out: &mut FrameWriter) {
        if matches!(self.reached, Reached::Nothing | Reached::Router | Reached::AfterRouter) {
            self.enter_worker(out);
        }
        self.leave(Reached::AfterWorker, out);
    }

    fn enter_worker(&mut self, out: &mut FrameWriter) {
        if self.reached == Reached::Nothing {
            self.enter(Stage::Router, out);
        }
        self.leave(Reached::AfterRouter, out);
        self.enter(Stage::Worker, out);
    }

    fn enter(&mut self, stage: Stage, out: &mut FrameWriter) {
        out.say(&AgUiEvent::StepStarted { step_name: stage.word() });
        self.open = Some(stage);
        self.reached = match stage {
            Stage::Router => Reached::Router,
            Stage::Worker => Reached::Worker,
        };
    }

    fn leave(&mut self, reached: Reached, out: &mut FrameWriter) {
        self.close(out);
        self.reached = reached;
    }
}

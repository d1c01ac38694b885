//! What news of the manager mean.

use super::{WorkAction, WorkEnd, WorkState};
use crate::back_end::turn::text_of;
use crate::manager::{RunNews, WorkOver, WorkSignal};
use crate::work::turn_end::{EndReason, TurnReport};
use proto_schemas::requests::run::{CommandRecord, CommandType};
use proto_schemas::requests::runner::ReportedStatus;
use tokio::time::Instant;

/// A page of the poll that is full may go on.
const FULL_PAGE: usize = 20;

impl WorkState {
    pub fn hear(&mut self, signal: WorkSignal, now: Instant) {
        match signal {
            WorkSignal::Polled { commands, news } => {
                self.polled(commands, now);
                self.hear_news(news, now);
            }
            WorkSignal::Renewed { news } => self.hear_news(news, now),
            WorkSignal::Acknowledged { command } => self.acknowledged(*command, now),
            WorkSignal::Reported => {}
            WorkSignal::CommandOver { command_id } => self.command_is_over(&command_id, now),
            WorkSignal::EventRefused { command_id, why } => {
                if self.turn.as_ref().is_some_and(|turn| command_id.as_ref() == Some(&turn.command_id)) {
                    self.end_turn(EndReason::Refused(why), now);
                }
            }
            WorkSignal::Released { is_released } => self.released(is_released, now),
            WorkSignal::RunEnded => self.end(WorkEnd::RunEnded),
            // Of a lease that is being given back the poll and the heartbeat hear before the one who does it.
            WorkSignal::Over(WorkOver::LeaseLost) if self.is_releasing => {}
            WorkSignal::Over(over) => self.end(WorkEnd::Over(over)),
        }
    }

    fn released(&mut self, is_released: bool, now: Instant) {
        match (is_released, self.stop_until) {
            (_, Some(_)) => self.end(WorkEnd::Stopped),
            (true, None) => self.end(WorkEnd::Released),
            // A command has come: the poll brings it.
            (false, None) => (self.is_releasing, self.idle_since) = (false, now),
        }
    }

    fn polled(&mut self, commands: Vec<CommandRecord>, now: Instant) {
        if !self.has_polled {
            self.has_polled = true;
            self.idle_since = now;
            let is_there = commands.len() >= FULL_PAGE
                || commands
                    .iter()
                    .any(|command| Some(&command.command_id) == self.rules.started_for.as_ref());
            if self.rules.started_for.is_some() && !is_there && commands.is_empty() {
                self.rules.idle = std::time::Duration::ZERO;
            }
        }
        if self.stop_until.is_some() {
            return;
        }
        for command in commands {
            self.command_came(command);
        }
        self.begin_next();
    }

    /// Every command comes once, in its order.
    fn command_came(&mut self, command: CommandRecord) {
        let command_id = command.command_id.clone();
        let is_of_earlier = command.acknowledged_epoch.is_some_and(|epoch| epoch != self.rules.epoch);
        match (command.kind, is_of_earlier) {
            (CommandType::Turn, true) => self.actions.push_back(WorkAction::AskPast { command_id }),
            (CommandType::Steer | CommandType::Interrupt, true) => {
                let why = "the runner that took it has died, and whether it was delivered is unknown";
                let report = TurnReport::failed("backend-failed", why);
                self.actions.push_back(WorkAction::Report { command_id, report });
            }
            (CommandType::Turn, false) => {
                self.waiting_bytes += command.payload.get().len();
                self.waiting.push_back(command);
            }
            (CommandType::Steer | CommandType::Interrupt, false) => {
                // A turn that came before it is taken before it.
                self.begin_next();
                self.actions.push_back(WorkAction::Acknowledge { command_id: command_id.clone() });
                self.controls.insert(command_id, command);
            }
        }
    }

    fn acknowledged(&mut self, command: CommandRecord, now: Instant) {
        if let Some(control) = self.controls.remove(&command.command_id) {
            return self.control(&control, now);
        }
        if self.turn.as_ref().is_some_and(|turn| turn.command_id == command.command_id) {
            self.turn_taken(&command, now);
        }
    }

    /// A steer or an interrupt is for the turn under way, if there is one.
    pub(super) fn control(&mut self, control: &CommandRecord, now: Instant) {
        let command_id = control.command_id.clone();
        let target = self.turn.as_ref().filter(|turn| turn.takes_controls());
        let Some((target, is_fetching)) = target.map(|turn| (turn.command_id.clone(), turn.is_fetching()))
        else {
            let report = TurnReport::of(ReportedStatus::Blocked, "backend-failed", "no turn is under way");
            return self.actions.push_back(WorkAction::Report { command_id, report });
        };
        if control.kind == CommandType::Interrupt {
            self.end_turn(EndReason::Interrupted, now);
            let report = TurnReport { status: ReportedStatus::Completed, failure_kind: None, message: None };
            return self.actions.push_back(WorkAction::Report { command_id, report });
        }
        if is_fetching {
            return self.hold(control.clone());
        }
        self.actions.push_back(match text_of(control) {
            Ok(text) => WorkAction::Steer { command_id, target, text },
            Err(why) => WorkAction::Report { command_id, report: TurnReport::failed("schema-invalid", why) },
        });
    }

    fn hear_news(&mut self, news: RunNews, now: Instant) {
        // An answer may be to cancel: then the back end hears it before it is interrupted.
        for answer in news.answers {
            self.answered(answer);
        }
        let under_way = self.turn.as_ref().map(|turn| turn.command_id.clone());
        if under_way.is_some_and(|id| news.cancel.contains(&id)) {
            self.end_turn(EndReason::Cancelled, now);
        }
    }
}

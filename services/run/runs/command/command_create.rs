//! `run.command_create`: submit a command.

use crate::RunService;
use crate::error::Error;
use crate::ids::new_id;
use crate::model::call::{NewCommand, RunAnswer, RunOperation};
use crate::runs::create::unexpected;
use crate::runs::printable;
use crate::shown::command_record;
use kernel::Caller;
use proto_schemas::requests::run::{CommandCreate, CommandType, CreatedCommand};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

/// What the payload of a command may have in bytes. A page of commands has at most one that makes it larger than a page.
const MOST_PAYLOAD_BYTES: usize = 512 << 10;

/// What a turn says. One of the names has a text.
#[derive(Deserialize)]
struct TurnPayload {
    prompt: Option<serde_json::Value>,
    message: Option<serde_json::Value>,
    text: Option<serde_json::Value>,
}

/// What the hash of a command covers.
#[derive(Serialize)]
struct HashedCommand<'a> {
    #[serde(rename = "type")]
    kind: CommandType,
    payload: &'a RawValue,
}

impl RunService {
    pub(crate) async fn command_create(
        self: Arc<Self>,
        caller: Caller,
        params: CommandCreate,
    ) -> Result<CreatedCommand, Error> {
        let access = self.access(&caller)?;
        let CommandCreate { run_id, kind, payload, idempotency_key } = params;
        if payload.get().len() > MOST_PAYLOAD_BYTES {
            return Err(Error::TooLarge(format!("payload must have at most {MOST_PAYLOAD_BYTES} bytes")));
        }
        says_something(kind, &payload)?;
        if let Some(key) = &idempotency_key {
            printable("idempotencyKey", key)?;
        }
        let payload_hash = self.digest(&caller, &HashedCommand { kind, payload: &payload }).await?;
        let id = new_id(&self.ids, "cmd", self.clock.now_ms());
        let new = NewCommand { id, kind, payload, payload_hash, key: idempotency_key, turn: None };
        let answer = self.change(&access, &run_id, RunOperation::AddCommand(new)).await?;
        let RunAnswer::Command { command_id, created } = answer else { return Err(unexpected()) };
        let run = self.visible_run(&access, &run_id).await?;
        let command = self.command_of(&run, &command_id).await?;
        Ok(CreatedCommand { command: command_record(command, false)?, created })
    }
}

/// A turn and guidance have a text that is not empty.
fn says_something(kind: CommandType, payload: &RawValue) -> Result<(), Error> {
    let not_an_object = || Error::Invalid("payload must be an object".to_owned());
    if !payload.get().starts_with('{') {
        return Err(not_an_object());
    }
    if kind == CommandType::Interrupt {
        return Ok(());
    }
    let TurnPayload { prompt, message, text } =
        serde_json::from_str(payload.get()).map_err(|_| not_an_object())?;
    let names = [("prompt", prompt), ("message", message), ("text", text)];
    for (name, value) in names {
        match value {
            None | Some(serde_json::Value::Null) => {}
            Some(serde_json::Value::String(text)) if !text.trim().is_empty() => return Ok(()),
            Some(_) => return Err(Error::Invalid(format!("payload.{name} must be a non-empty string"))),
        }
    }
    Err(Error::Invalid("payload.prompt is required (or payload.message, or payload.text)".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_a_text_under_one_of_three_names() {
        let says = |kind, payload: &str| {
            says_something(kind, &RawValue::from_string(payload.to_owned()).unwrap())
                .map_err(|error| error.to_string())
        };
        for good in [r#"{"prompt":"x"}"#, r#"{"message":"x","more":1}"#, r#"{"text":"x","prompt":null}"#] {
            assert_eq!(says(CommandType::Turn, good), Ok(()), "{good}");
            assert_eq!(says(CommandType::Steer, good), Ok(()), "{good}");
        }
        assert_eq!(says(CommandType::Interrupt, "{}"), Ok(()));
        for (bad, sentence) in [
            ("{}", "payload.prompt is required (or payload.message, or payload.text)"),
            (r#"{"prompt":"  "}"#, "payload.prompt must be a non-empty string"),
            (r#"{"text":7}"#, "payload.text must be a non-empty string"),
            ("[]", "payload must be an object"),
        ] {
            assert_eq!(says(CommandType::Steer, bad), Err(sentence.to_owned()), "{bad}");
        }
    }
}

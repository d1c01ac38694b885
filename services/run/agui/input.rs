//! The input of a run: checked, with what the server knows of its caller.

use super::front_end;
use crate::RunService;
use crate::error::Error;
use crate::settings::ClientTimeSetting;
use ag_ui::{ClientTimeRule, InputRules, MOST_INPUT_BYTES, RunInput};
use kernel::{Caller, CpuOwner, RpcError};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// An input that passed every check for which nothing stored is needed.
pub(super) struct CheckedInput {
    pub input: RunInput,
    pub hash: String,
    /// What is kept of it.
    pub text: String,
    /// The paths of its pictures, as they are stored.
    pub pictures: Vec<String>,
}

/// Up to this size it is read where it came.
const SMALL: usize = 16 << 10;

impl RunService {
    pub(super) async fn checked_input(
        self: &Arc<Self>,
        caller: &Caller,
        json: Vec<u8>,
        rules: InputRules,
    ) -> Result<CheckedInput, Error> {
        let aid = front_end(caller)?.aid.clone();
        if json.len() > MOST_INPUT_BYTES {
            return Err(Error::RunInput("RunAgentInput payload exceeds size limit".to_owned()));
        }
        let client_time = match self.settings.agui.client_time {
            ClientTimeSetting::Strict => ClientTimeRule::Strict,
            ClientTimeSetting::Lenient => ClientTimeRule::Lenient,
        };
        let (key, now) = (self.front_ends.key.clone(), self.clock.now_ms());
        let is_small = json.len() <= SMALL;
        let check = move || {
            let mut pictures = Vec::new();
            let input = RunInput::parse(&json, rules, client_time, &mut |picture| {
                let path = key.verified(&picture.url, now).filter(|path| path.owner() == aid.as_str());
                let is_known = path.is_some();
                pictures.extend(path.map(|path| path.to_string()));
                is_known
            });
            let mut input = input.map_err(Error::RunInputForm)?;
            // The same input with URLs that were signed again is the same.
            let urls = input.turn.iter().flat_map(|turn| &turn.attachments).map(|picture| &picture.url);
            let paths: HashMap<&str, &String> = urls.map(String::as_str).zip(&pictures).collect();
            if let Some(messages) = input.normalized.get_mut("messages") {
                name_pictures(messages, &paths);
            }
            let text = serde_json::to_string(&input.normalized).map_err(RpcError::internal)?;
            let hash = manifest::digest(&input.normalized);
            Ok(CheckedInput { input, hash, text, pictures })
        };
        match is_small {
            true => check(),
            false => self.cpu.run(CpuOwner::of(caller), check).await?,
        }
    }
}

/// What is stored of a picture is its path, and not a URL that ends.
fn name_pictures(value: &mut Value, paths: &HashMap<&str, &String>) {
    match value {
        Value::String(text) => {
            if let Some(path) = paths.get(text.as_str()) {
                *text = (*path).clone();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| name_pictures(item, paths)),
        Value::Object(members) => members.values_mut().for_each(|member| name_pictures(member, paths)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

//! `forwardedProps`: the mode of a run, and when and where the person is.

use super::refusal::{InputRefused, sentence};
use super::{ClientTimeRule, InputRules, RuntimeMode};
use crate::days::{is_zone, rfc3339_ms};
use serde_json::{Map, Value};

/// Clocks that are further apart than this are worth a warning.
const DAY_MS: u64 = 86_400_000;

/// When and where the person is, according to the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTime {
    /// The IANA name of a time zone.
    pub device_timezone: String,
    /// The device's time, as it was written.
    pub client_now_iso: String,
    /// The same as Unix time in milliseconds.
    pub client_now_ms: i64,
    /// What the device says is that Unix time.
    pub client_epoch_ms: i64,
}

pub(super) struct ForwardedProps {
    pub mode: RuntimeMode,
    pub client_time: Option<ClientTime>,
    pub client_time_ignored: bool,
}

impl ForwardedProps {
    pub fn read(
        given: Option<&Value>,
        rules: InputRules,
        client_time: ClientTimeRule,
    ) -> Result<ForwardedProps, InputRefused> {
        let none = Map::new();
        let members = match (given, rules) {
            (Some(Value::Object(members)), _) => members,
            (None, InputRules::Lenient) => &none,
            _ => return Err(sentence::FORWARDED_PROPS.into()),
        };
        let is_known = |name: &String| ["runtime_mode", "client_time"].contains(&name.as_str());
        if rules == InputRules::Strict && !members.keys().all(is_known) {
            return Err(sentence::FORWARDED_PROPS.into());
        }
        let mode = match (members.get("runtime_mode"), rules) {
            (None, InputRules::Lenient) => Some(RuntimeMode::Chat),
            (mode, _) => mode.and_then(Value::as_str).and_then(RuntimeMode::parse),
        };
        let mode = mode.ok_or(sentence::FORWARDED_PROPS)?;
        let (client_time, client_time_ignored) = match members.get("client_time").map(ClientTime::read) {
            Some(Err(_)) if client_time == ClientTimeRule::Lenient => (None, true),
            Some(read) => (Some(read?), false),
            None => (None, false),
        };
        Ok(ForwardedProps { mode, client_time, client_time_ignored })
    }
}

impl ClientTime {
    fn read(given: &Value) -> Result<ClientTime, &'static str> {
        let members = given.as_object().ok_or(sentence::FORWARDED_PROPS)?;
        let text = |name| members.get(name).and_then(Value::as_str);
        let zone = text("device_timezone").filter(|zone| is_zone(zone));
        let device_timezone = zone.ok_or(sentence::DEVICE_TIMEZONE)?.to_owned();
        let client_now_iso = text("client_now_iso").ok_or(sentence::CLIENT_NOW_ISO)?.to_owned();
        let client_now_ms = rfc3339_ms(&client_now_iso).ok_or(sentence::CLIENT_NOW_ISO)?;
        let client_epoch_ms = members.get("client_epoch_ms").and_then(Value::as_i64);
        let client_epoch_ms = client_epoch_ms.ok_or(sentence::CLIENT_EPOCH_MS)?;
        Ok(ClientTime { device_timezone, client_now_iso, client_now_ms, client_epoch_ms })
    }

    /// Whether its two times are more than a day apart.
    pub fn clocks_disagree(&self) -> bool {
        self.client_now_ms.abs_diff(self.client_epoch_ms) > DAY_MS
    }
}

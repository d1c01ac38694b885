//! What the members of an agent may be.

use crate::Error;
use outbound::OutboundUrl;
use proto_schemas::requests::agent::ConnectionMode;

const MOST_NAME: usize = 120;
const MOST_DESCRIPTION: usize = 2000;

/// A mode as it is stored, if it is offered and has what it needs.
pub(super) fn check_mode(mode: ConnectionMode, webhook_url: Option<&str>) -> Result<&'static str, Error> {
    match mode {
        ConnectionMode::Websocket => Ok("websocket"),
        ConnectionMode::Webhook if webhook_url.is_some() => Ok("webhook"),
        ConnectionMode::Webhook => Err(Error::Bad("connection mode webhook needs a webhook_url")),
        ConnectionMode::Polling => Err(Error::ConnectionMode("polling")),
    }
}

/// Without line breaks: the name is a line of the text that a proof signs.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    let fine =
        !name.trim().is_empty() && name.chars().count() <= MOST_NAME && !name.chars().any(char::is_control);
    match fine {
        true => Ok(()),
        false => Err(Error::Bad(
            "name must have 1 to 120 characters, and no line breaks or other control characters",
        )),
    }
}

/// PostgreSQL stores no NUL in a text.
pub(super) fn check_description(description: Option<&str>) -> Result<(), Error> {
    let fine = |text: &str| text.chars().count() <= MOST_DESCRIPTION && !text.contains('\0');
    match description.is_none_or(fine) {
        true => Ok(()),
        false => Err(Error::Bad("description must have 2000 characters at most, and no NUL")),
    }
}

pub(super) fn check_url(member: &'static str, url: Option<&str>, allow_private: bool) -> Result<(), Error> {
    let Some(url) = url else { return Ok(()) };
    OutboundUrl::parse(url, allow_private).map(drop).map_err(|reason| Error::Url { member, reason })
}

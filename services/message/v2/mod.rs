//! `message.v2.*`: keys, and the rows as the second and third generation of clients read them.

pub(super) mod ack;
pub(super) mod bootstrap;
pub(super) mod pull;
pub(super) mod put_peer_pk;

use super::Error;
use kernel::Aid;

/// The sender a call is about, if it goes sender by sender.
pub(super) fn peer_scope(scope: Option<&str>, sender: Option<Aid>) -> Result<Option<Aid>, Error> {
    match (scope.filter(|scope| !scope.is_empty()), sender) {
        (None | Some("global"), _) => Ok(None),
        (Some("peer"), Some(sender)) => Ok(Some(sender)),
        (Some("peer"), None) => Err(Error::Param("sender_aid is required".to_owned())),
        (Some(other), _) => Err(Error::Param(format!("cursor_scope must be peer or absent, not {other:?}"))),
    }
}

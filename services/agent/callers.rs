//! Who calls, as far as registered agents and relations are concerned.

use super::Error;
use kernel::{Aid, Caller, TokenKind};

/// Who reads: everybody who is logged in, and agents with their own tokens.
pub(super) fn reader(caller: &Caller) -> Result<&Aid, Error> {
    Ok(&caller.speaker()?.aid)
}

/// Who changes something: everybody who is logged in. An agent token is not the owner's, even where the AID is the same.
pub(super) fn writer(caller: &Caller) -> Result<&Aid, Error> {
    match caller {
        Caller::Token(_, TokenKind::Agent) => Err(Error::OnlyReads),
        _ => reader(caller),
    }
}

//! Who calls, as far as registered agents and relations are concerned.

use super::Error;
use kernel::{Aid, Caller};

/// Everybody who is logged in, and agents with their own tokens where the route of the method accepts them.
pub(super) fn calling_aid(caller: &Caller) -> Result<&Aid, Error> {
    Ok(&caller.calling_agent()?.aid)
}

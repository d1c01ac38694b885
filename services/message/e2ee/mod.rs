//! `message.e2ee.*`: what clients of the first generation need to encrypt to each other.

pub(super) mod check_replay_guard;
pub(super) mod get_prekey;
pub(super) mod keys;
pub(super) mod put_prekey;
pub(super) mod record_replay_guard;
#[cfg(test)]
mod tests;

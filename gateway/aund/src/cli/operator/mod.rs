//! The commands of operators: about a server that runs, or about the data folder of one that does not.

pub(super) mod accounts;
mod ask;
pub(super) mod certs;
pub(super) mod doctor;
pub(super) mod health;
pub(super) mod peers;
pub(super) mod top;

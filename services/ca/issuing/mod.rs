//! Certificates that are made: for agents, for services, and again for those who have one.

pub(crate) mod issue_cert;
pub(crate) mod issue_service_cert;
pub(crate) mod rekey_cert;
pub(crate) mod renew_cert;

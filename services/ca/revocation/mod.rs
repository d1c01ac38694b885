//! Certificates that are revoked: by whom, and how others learn of it.

pub(crate) mod ended_agents;
pub(crate) mod get_crl;
pub(crate) mod ocsp_query;
pub(crate) mod revoke_cert;

//! Which certificates are revoked: the lists and OCSP answers that say so, and what is believed of them.

pub(crate) mod ocsp;
pub(crate) mod ocsp_request;
pub(crate) mod revocation_answer;
pub(crate) mod revoke;

//! How things are written: DER, PEM, and JSON in its canonical form.

pub(crate) mod der;
pub(crate) mod json;
pub(crate) mod pem;

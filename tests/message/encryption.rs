//! Encrypted messages of both generations, and the keys for them.

mod device_copies;
mod encrypted;
mod keys;
mod refused;

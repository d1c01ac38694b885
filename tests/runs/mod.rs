//! Runs over HTTP, as back ends and runners meet them: real sockets, one process or many, both stores.
//!
//! Which refusal is produced where, so that whoever changes one knows which test is about it:
//!
//! | status and kind | from | test |
//! |---|---|---|
//! | 401 `unauthorized` | gateway, before the body is read | `refusals` |
//! | 403 `forbidden` | gateway: a token of a kind that the route does not take | `refusals` |
//! | 403 `forbidden` | service: the token of a runner of another run, an agent without a tenant | `refusals` |
//! | 404 `not-found` | gateway: no such path; service: nothing that exists for the caller | `refusals` |
//! | 405 `method-not-allowed`, 413 `payload-too-large` of a body | gateway | `refusals` |
//! | 413 `payload-too-large` of an event | service, after it was redacted | `refusals` |
//! | 400 `schema-invalid` | service: the schema first, in its order, then rules that no schema can say | `refusals` |
//! | 403 `tenant-policy-denied`, 409 `secret-unavailable` | service, before anything is stored | `seed`, `refusals` |
//! | 409 `runner-lease-conflict` | the decision: nobody but the owner of the lease changes a run | `seed`, `races` |
//! | 409 `idempotency-conflict`, `session-busy`, `job-already-active` | the decision | `seed`, `contract`, `refusals` |
//! | 409 `schema-invalid`, or the failure of what has ended | the decision: transitions that the state does not allow | `refusals` |
//! | 409 `session-store-evicted` | the decision, when a runner job is asked for | `contract`, `races` |
//! | 429 `rate-limited` | gateway: calls per second; service: commands that wait, runs that are active, bytes | `limits` of the service's own tests, `questions` |
//! | 503 `infra-failed` | service: a launcher that it does not have | `refusals` |
//! | 503, 504 `infra-failed` | gateway: no process of the service answers; service: its store does not, or not in time | `store_down` |

pub mod client;
mod contract;
pub mod kill;
mod model;
mod questions;
mod races;
mod redaction;
mod refusals;
mod result;
mod seed;
mod store_down;
mod streams;
mod watching;

//! Integration tests: the real `aund`, real TLS, real sockets, agents with real keys.
//!
//! Every test is a sentence about what a client or an operator can see. The suite runs on SQLite, or on PostgreSQL with
//! `AUND_TEST_STORE=postgres` and `AUND_TEST_POSTGRES_URL`; the tests do not change.
//!
//! Where each code is produced over a real socket:
//!
//! | error | test |
//! |---|---|
//! | -32700, -32600 | `jsonrpc` |
//! | -32601 | `jsonrpc`, `schema` (methods for the inside) |
//! | -32602 | `auth`, `jsonrpc`, `message`, `schema` |
//! | -32603 | none: it is the code of our own bugs, and a bug that can be called up is fixed instead |
//! | -32000 | `connect` |
//! | -32001 | none: every method that needs a session is refused with -32013 first |
//! | -32002, -32003 | `auth` |
//! | -32004 | `auth` (a certificate for somebody else), `store_down` (a call that takes too long) |
//! | -32005 | none: an exhausted refresh chain is a result, not an error (`auth`) |
//! | -32008 | `auth` (`auth.download_cert`), `message` (an unknown recipient) |
//! | -32009 | `agents_http` (a manifest that has changed meanwhile); `agent_md` sees it as HTTP 412 |
//! | -32010 | `message` (a recipient of another domain), `federation` |
//! | -32011, -32012 | `federation` |
//! | -32013 | `connect` |
//! | -32020 | `drain` |
//! | -32029 | `limits`, `attacks` (quotas, certificates), `message` (tool calls); its other spellings -32429, 429 and 4290 are read by clients and never sent by us |
//! | -32050 | `revocation`, `signature` |
//! | -32051 | `signature` |
//! | -32160 | `search` (a directory that is turned off) |
//! | -32161, -32162, -32163, -32164 | `schema`, `search` |
//! | -32170, -32171, -32175, -32176, -32178 | `schema`, `task` |
//! | -32172, -32173, -32174, -32177, -32179, -32185, -32186 | `task` |
//! | -33011, -33050, -33051, -33053 | `message` (envelopes that are refused) |
//! | 4000, 4001, 4010 | `connect`; 4001 also `auth` (not registered) |
//! | 4013 | `sessions` |
//! | 4030, 4040, 4500 | none: -32004, -32008 and 5003 say the same here |
//! | 4090 | `auth` (names that already exist), `connect` (`delivery_mode_conflict`) |
//! | 5003 | `store_down`, `free_space`, `message` |
//!
//! | close | test |
//! |---|---|
//! | 1001, 1008 | `connect` |
//! | 1002, 1003, 1007, 1009 | `jsonrpc` |
//! | 1012 | `drain` |
//! | 1013 | `attacks`, `limits`, `message` |
//! | 4001 | `revocation` |
//! | 4003 | none: an AID that is not one never gets a token, so no socket can speak for it |
//! | 4008, 4010 | `connect` |
//! | 4009, 4013, 4014, 4015 | `sessions` |
//! | 4011 | none: it belongs to federation |
//! | 4012 | none: a new session replaces the old one of its slot under one lock, so the race it reports cannot happen |

test_modules::integration_tests!();

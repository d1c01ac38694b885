//! Tasks across domains.
//!
//! A tree of tasks is in the domain of the owner of its root, its home, and nowhere else: so what may happen to it is decided in one
//! place. The domains of others who take part are told of every change (`task.relay_event`), and keep a stub of the task for each of
//! their agents. By the stub they know where to pass a call on to, and it is shown in lists. A stub decides nothing: whether a call
//! is allowed is said by the home, which knows the caller from the peer link.
//!
//! What a domain has yet to learn is a mark in the outbox, written with the change itself. The events that go with it are only in
//! memory, as events are everywhere: they are sent once, and a domain that was away gets the tasks as they are, with one event each.

mod calls;
mod draft;
mod offered;
mod queues;
mod relay_event;
mod settle;
mod tell;

pub(super) use calls::HomeCall;
pub(super) use draft::RelayDrafts;
pub(super) use queues::RelayQueues;

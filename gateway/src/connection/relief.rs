//! Who is closed when outboxes hold too much together: the largest holders, until there is space again.
//!
//! More is freed than the frame in question needs. Otherwise somebody who holds little on many connections would have them
//! all looked at for every frame.

use super::Connection;
use super::outbox_budget::{AgentOutboxes, OutboxBudget, OutboxOverflow};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// Closes the connections with the fullest outboxes of an agent, or all that hold something of the agents that hold most.
pub(super) fn relieve(connections: &[Arc<Connection>], budget: &OutboxBudget, overflow: &OutboxOverflow) {
    match overflow {
        OutboxOverflow::Agent(agent) => relieve_agent(connections, budget, agent),
        OutboxOverflow::Total => relieve_all(connections, budget),
    }
}

/// Down to three quarters of what an agent may have.
fn relieve_agent(connections: &[Arc<Connection>], budget: &OutboxBudget, agent: &Arc<AgentOutboxes>) {
    let is_own = |connection: &&Arc<Connection>| {
        connection.outbox.agent().is_some_and(|other| Arc::ptr_eq(&other, agent))
    };
    let mut own: Vec<(usize, &Arc<Connection>)> =
        connections.iter().filter(is_own).map(|connection| (connection.outbox.held(), connection)).collect();
    own.sort_unstable_by_key(|(held, _)| Reverse(*held));
    let (mut used, enough) = (agent.used(), budget.per_agent / 4 * 3);
    for (held, connection) in own {
        if used <= enough || held == 0 {
            return;
        }
        connection.outbox.close_full("slow reader: too much data waits for this agent");
        used = used.saturating_sub(held);
    }
}

/// What one agent holds, or one connection that has none, and where.
#[derive(Default)]
struct OutboxHolder<'a> {
    held: usize,
    connections: Vec<&'a Arc<Connection>>,
}

/// Down to seven eighths of what all may have.
fn relieve_all(connections: &[Arc<Connection>], budget: &OutboxBudget) {
    let mut agents: HashMap<usize, OutboxHolder<'_>> = HashMap::new();
    let mut holders = Vec::new();
    for connection in connections {
        let held = connection.outbox.held();
        if held == 0 {
            continue;
        }
        let Some(agent) = connection.outbox.agent() else {
            holders.push(OutboxHolder { held, connections: vec![connection] });
            continue;
        };
        let holder = agents.entry(Arc::as_ptr(&agent).addr()).or_default();
        holder.held += held;
        holder.connections.push(connection);
    }
    holders.extend(agents.into_values());
    holders.sort_unstable_by_key(|holder| Reverse(holder.held));
    let (mut used, enough) = (budget.used(), budget.total / 8 * 7);
    for holder in holders {
        if used <= enough {
            return;
        }
        for connection in holder.connections {
            connection.outbox.close_full("slow reader: too much data waits, and most of it for this agent");
        }
        used = used.saturating_sub(holder.held);
    }
}

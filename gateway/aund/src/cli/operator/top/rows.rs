//! The cells in the rows of each table.

use super::cells::{StyledText, bad, bytes, number, state, time, times, trouble};
use super::methods::{MethodRow, TopServiceRow};
use super::model::{BusRow, LinkRow, ProcessRow};
use super::stores::StoreRow;

pub fn of_process(row: &ProcessRow) -> Vec<StyledText> {
    if !row.up {
        return [row.name.clone(), "does not answer".to_owned()]
            .map(|text| StyledText { text, style: bad() })
            .into();
    }
    vec![
        row.name.clone().into(),
        row.services.clone().into(),
        number(row.sockets).into(),
        number(row.sessions).into(),
        bytes(row.outbox_bytes).into(),
        number(row.calls).into(),
        trouble(row.errors),
    ]
}

pub fn of_method(row: &MethodRow) -> Vec<StyledText> {
    let ((p50, p99), (service_p50, service_p99)) = (times(row.gateway), times(row.service));
    vec![
        row.name.clone().into(),
        number(row.calls).into(),
        trouble(row.errors),
        p50.into(),
        p99.into(),
        service_p50.into(),
        service_p99.into(),
    ]
}

pub fn of_service(row: &TopServiceRow) -> Vec<StyledText> {
    let (p50, p99) = times(row.times);
    vec![
        row.namespace.clone().into(),
        number(row.calls).into(),
        trouble(row.unavailable),
        p50.into(),
        p99.into(),
    ]
}

pub fn of_store(row: &StoreRow) -> Vec<StyledText> {
    let (p50, p99) = times(row.times);
    vec![
        row.process.clone().into(),
        row.service.clone().into(),
        number(row.commits).into(),
        row.rows_each.map_or_else(|| "-".to_owned(), number).into(),
        p50.into(),
        p99.into(),
        bytes(row.queue_bytes).into(),
        trouble(row.failures),
        trouble(row.busy),
    ]
}

pub fn of_link(row: &LinkRow) -> Vec<StyledText> {
    vec![
        row.from.clone().into(),
        row.namespace.clone().into(),
        row.address.clone().into(),
        state(row.up),
        number(row.calls).into(),
        number(row.pending).into(),
        number(row.redials).into(),
    ]
}

pub fn of_bus(row: &BusRow) -> Vec<StyledText> {
    vec![
        row.process.clone().into(),
        state(row.up),
        time(row.lag_seconds).into(),
        bytes(row.queue_bytes).into(),
        trouble(row.dropped),
        trouble(row.errors),
        number(row.sessions).into(),
    ]
}

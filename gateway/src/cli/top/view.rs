//! How `aund top` looks, on a terminal and as plain text.

use super::cells::{bytes, number, right, state, time, times, trouble};
use super::model::{Bus, Link, Method, Model, Order, Process, Room, Store};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::widgets::{Cell, Row, Table, Widget as _};

/// What one line of a snapshot holds.
const WIDTH: u16 = 120;

/// Draws as much as there is room for; the methods give way first.
pub fn draw(model: &Model, order: Order, area: Rect, buffer: &mut Buffer) {
    let tables = tables(model, order, area.width);
    let heights = tables.iter().enumerate().map(|(place, (_, rows))| match place {
        METHODS => Constraint::Min(height(*rows).min(4)),
        _ => Constraint::Length(height(*rows)),
    });
    let areas = Layout::vertical(heights).split(area);
    for ((table, _), area) in tables.into_iter().zip(areas.iter()) {
        table.render(*area, buffer);
    }
}

/// The same as text, without colours and however long it is.
pub fn text(model: &Model, order: Order) -> String {
    let rows: u16 = tables(model, order, WIDTH).iter().map(|(_, rows)| height(*rows)).sum();
    let area = Rect::new(0, 0, WIDTH, rows);
    let mut buffer = Buffer::empty(area);
    draw(model, order, area, &mut buffer);
    let mut text = String::new();
    for line in buffer.content.chunks(usize::from(WIDTH)) {
        let line: String = line.iter().map(ratatui::buffer::Cell::symbol).collect();
        text += line.trim_end();
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

/// Where the table stands that may be cut short.
const METHODS: usize = 1;

/// A table takes its rows, its head and a line below; an empty one takes nothing.
fn height(rows: usize) -> u16 {
    if rows == 0 { 0 } else { u16::try_from(rows).unwrap_or(u16::MAX - 2) + 2 }
}

fn tables(model: &Model, order: Order, width: u16) -> Vec<(Table<'static>, usize)> {
    let unit = if model.per_second { "/s" } else { "" };
    let (calls, errors) = (format!("calls{unit}"), format!("errors{unit}"));
    let sorted = format!("method (by {})", order.name());
    vec![
        table(
            &["process", "runs", "sockets", "sessions", "outbox", &calls, &errors],
            &[24, 30, 9, 9, 9, 11, 11],
            width,
            model.processes.iter().map(of_process).collect(),
        ),
        table(
            &[&sorted, &calls, &errors, "p50", "p99", "room p50", "room p99"],
            &[36, 11, 11, 9, 9, 9, 9],
            width,
            model.methods.iter().map(of_method).collect(),
        ),
        table(
            &["room", &calls, "unavailable", "p50", "p99"],
            &[36, 11, 11, 9, 9],
            width,
            model.rooms.iter().map(of_room).collect(),
        ),
        stores(model, width),
        table(
            &["link from", "to", "at", "state", &calls, "pending", "redials"],
            &[24, 10, 28, 7, 11, 9, 9],
            width,
            model.links.iter().map(of_link).collect(),
        ),
        table(
            &["bus of", "state", "lag", "queue", "dropped", "errors", "seats"],
            &[24, 7, 9, 9, 9, 9, 9],
            width,
            model.buses.iter().map(of_bus).collect(),
        ),
    ]
}

/// Where it is narrow the median gives way: it is the slow commits that senders wait for.
fn stores(model: &Model, width: u16) -> (Table<'static>, usize) {
    let commits = if model.per_second { "commits/s" } else { "commits" };
    let mut head = vec!["store of", "room", commits, "rows each", "p50", "p99", "waiting", "failed", "busy"];
    let mut widths = vec![24, 8, 11, 11, 9, 9, 9, 9, 9];
    let median = 4;
    if width < WIDTH {
        head.remove(median);
        widths.remove(median);
    }
    let rows = model.stores.iter().map(|row| {
        let mut cells = of_store(row);
        if width < WIDTH {
            cells.remove(median);
        }
        Row::new(cells)
    });
    table(&head, &widths, width, rows.collect())
}

/// Words stand at the left, numbers at the right. Where it is narrow, numbers first do without the space between them, and
/// then it is words that are cut short: half a number would be another one.
fn table(head: &[&str], widths: &[u16], width: u16, rows: Vec<Row<'static>>) -> (Table<'static>, usize) {
    let many = rows.len();
    let widths = head.iter().zip(widths).map(|(word, widest)| match is_word(word) {
        // The protocol's own words are short and never cut.
        true if *widest <= 8 => Constraint::Length(*widest),
        true => Constraint::Max(*widest),
        false if width < WIDTH => Constraint::Length(narrow(word).min(*widest)),
        false => Constraint::Length(*widest),
    });
    let widths: Vec<Constraint> = widths.collect();
    let words = head.iter().map(|word| match is_word(word) {
        true => Cell::from((*word).to_owned()),
        false => right((*word).to_owned()),
    });
    let head = Row::new(words.collect::<Vec<_>>()).bold();
    (Table::new(rows, widths).header(head).column_spacing(1), many)
}

/// Room for a number of any size there is, and for what stands above it.
fn narrow(head: &str) -> u16 {
    u16::try_from(head.len()).unwrap_or(u16::MAX).max(8)
}

fn is_word(head: &str) -> bool {
    head == "room"
        || ["process", "runs", "method", "store", "link", "to", "at", "state", "bus"]
            .iter()
            .any(|word| head.starts_with(word))
}

fn of_process(row: &Process) -> Row<'static> {
    if !row.up {
        return Row::new([row.name.clone(), "does not answer".to_owned()]).style(Style::new().fg(Color::Red));
    }
    Row::new([
        Cell::from(row.name.clone()),
        Cell::from(row.parts.clone()),
        right(number(row.sockets)),
        right(number(row.sessions)),
        right(bytes(row.outbox_bytes)),
        right(number(row.calls)),
        trouble(row.errors),
    ])
}

fn of_method(row: &Method) -> Row<'static> {
    let ((p50, p99), (room_p50, room_p99)) = (times(row.door), times(row.room));
    Row::new([
        Cell::from(row.name.clone()),
        right(number(row.calls)),
        trouble(row.errors),
        right(p50),
        right(p99),
        right(room_p50),
        right(room_p99),
    ])
}

fn of_room(row: &Room) -> Row<'static> {
    let (p50, p99) = times(row.times);
    Row::new([
        Cell::from(row.namespace.clone()),
        right(number(row.calls)),
        trouble(row.unavailable),
        right(p50),
        right(p99),
    ])
}

fn of_store(row: &Store) -> Vec<Cell<'static>> {
    let (p50, p99) = times(row.times);
    vec![
        Cell::from(row.process.clone()),
        Cell::from(row.room.clone()),
        right(number(row.commits)),
        right(row.rows_each.map_or_else(|| "-".to_owned(), number)),
        right(p50),
        right(p99),
        right(bytes(row.queue_bytes)),
        trouble(row.failures),
        trouble(row.busy),
    ]
}

fn of_link(row: &Link) -> Row<'static> {
    Row::new([
        Cell::from(row.from.clone()),
        Cell::from(row.namespace.clone()),
        Cell::from(row.address.clone()),
        state(row.up),
        right(number(row.calls)),
        right(number(row.pending)),
        right(number(row.redials)),
    ])
}

fn of_bus(row: &Bus) -> Row<'static> {
    Row::new([
        Cell::from(row.process.clone()),
        state(row.up),
        right(time(row.lag_seconds)),
        right(bytes(row.queue_bytes)),
        trouble(row.dropped),
        trouble(row.errors),
        right(number(row.seats)),
    ])
}

#[cfg(test)]
mod tests;

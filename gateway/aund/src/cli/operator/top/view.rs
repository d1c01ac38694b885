//! The tables of `aund top`, on a terminal and as plain text.

use super::cells::StyledText;
use super::methods::SortOrder;
use super::model::TopModel;
use super::rows::{of_bus, of_link, of_method, of_process, of_service, of_store};
use client::OthersText;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table, Widget as _};

/// The width of the text output.
const WIDTH: u16 = 120;

/// Draws as much as there is space for; the table of methods is cut short first.
pub fn draw(model: &TopModel, order: SortOrder, area: Rect, buffer: &mut Buffer) {
    let tables = tables(model, order, area.width);
    let heights = tables.iter().enumerate().map(|(position, (_, rows))| match position {
        METHODS => Constraint::Min(height(*rows).min(4)),
        _ => Constraint::Length(height(*rows)),
    });
    let areas = Layout::vertical(heights).split(area);
    for ((table, _), area) in tables.into_iter().zip(areas.iter()) {
        table.render(*area, buffer);
    }
}

/// The same as text, without colours and of any length.
pub fn text(model: &TopModel, order: SortOrder) -> String {
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

/// The position of the table that may be cut short.
const METHODS: usize = 1;

/// A table takes its rows, its head and a line below; an empty one takes nothing.
fn height(rows: usize) -> u16 {
    if rows == 0 { 0 } else { u16::try_from(rows).unwrap_or(u16::MAX - 2) + 2 }
}

fn tables(model: &TopModel, order: SortOrder, width: u16) -> Vec<(Table<'static>, usize)> {
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
            &[&sorted, &calls, &errors, "p50", "p99", "svc p50", "svc p99"],
            &[36, 11, 11, 9, 9, 9, 9],
            width,
            model.methods.iter().map(of_method).collect(),
        ),
        table(
            &["service", &calls, "unavailable", "p50", "p99"],
            &[36, 11, 11, 9, 9],
            width,
            model.services.iter().map(of_service).collect(),
        ),
        stores(model, width),
        table(
            &["link from", "to", "at", "state", &calls, "pending", "redials"],
            &[24, 10, 28, 7, 11, 9, 9],
            width,
            model.links.iter().map(of_link).collect(),
        ),
        table(
            &["bus of", "state", "lag", "queue", "dropped", "errors", "sessions"],
            &[24, 7, 9, 9, 9, 9, 9],
            width,
            model.buses.iter().map(of_bus).collect(),
        ),
    ]
}

/// Where it is narrow the median is left out: it is the slow commits that senders wait for.
fn stores(model: &TopModel, width: u16) -> (Table<'static>, usize) {
    let commits = if model.per_second { "commits/s" } else { "commits" };
    let mut head =
        vec!["store of", "service", commits, "rows each", "p50", "p99", "waiting", "failed", "busy"];
    let mut widths = vec![24, 8, 11, 11, 9, 9, 9, 9, 9];
    let median = 4;
    if width < WIDTH {
        head.remove(median);
        widths.remove(median);
    }
    let rows = model.stores.iter().map(|row| {
        let mut shown = of_store(row);
        if width < WIDTH {
            shown.remove(median);
        }
        shown
    });
    table(&head, &widths, width, rows.collect())
}

/// Words are aligned left, figures right. Where it is narrow, figures first do without the space between them, and then
/// words are cut short: half a figure would be another one.
fn table(head: &[&str], widths: &[u16], width: u16, rows: Vec<Vec<StyledText>>) -> (Table<'static>, usize) {
    let many = rows.len();
    let is_long = |at: usize| is_word(head[at]) && widths[at] > SHORT;
    // Where two columns of words share what is left, none is wider than its text.
    let shared = width < WIDTH && (0..head.len()).filter(|at| is_long(*at)).count() > 1;
    let constraint = |at: usize| match is_word(head[at]) {
        true if !is_long(at) => Constraint::Length(widths[at]),
        true if shared => Constraint::Max(longest(head[at], at, &rows).min(widths[at])),
        true => Constraint::Max(widths[at]),
        false if width < WIDTH => Constraint::Length(narrow(head[at]).min(widths[at])),
        false => Constraint::Length(widths[at]),
    };
    let constraints: Vec<Constraint> = (0..head.len()).map(constraint).collect();
    let cell = |at: usize, text: String, style: Style| {
        let text = OthersText(&text).to_string();
        match is_word(head[at]) {
            true => Cell::from(text).style(style),
            false => Cell::from(Line::from(text).right_aligned()).style(style),
        }
    };
    let words = head.iter().enumerate().map(|(at, word)| cell(at, (*word).to_owned(), Style::new()));
    let words = Row::new(words.collect::<Vec<_>>()).bold();
    let rows = rows.into_iter().map(|row| {
        let cells = row.into_iter().enumerate().map(|(at, shown)| cell(at, shown.text, shown.style));
        Row::new(cells.collect::<Vec<_>>())
    });
    (Table::new(rows.collect::<Vec<_>>(), constraints).header(words).column_spacing(1), many)
}

/// The longest name of a namespace, which is never cut.
const SHORT: u16 = 8;

/// The longest text in a column of words.
fn longest(head: &str, at: usize, rows: &[Vec<StyledText>]) -> u16 {
    let lengths = rows.iter().filter_map(|row| Some(row.get(at)?.text.chars().count()));
    u16::try_from(lengths.fold(head.len(), usize::max)).unwrap_or(u16::MAX)
}

/// Space for any figure, and for the head above it.
fn narrow(head: &str) -> u16 {
    u16::try_from(head.len()).unwrap_or(u16::MAX).max(8)
}

fn is_word(head: &str) -> bool {
    head.starts_with("method")
        || ["process", "runs", "service", "store of", "link from", "to", "at", "state", "bus of"]
            .contains(&head)
}

#[cfg(test)]
mod tests;

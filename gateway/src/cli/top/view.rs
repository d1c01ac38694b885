//! How `aund top` looks, on a terminal and as plain text.

use super::model::{Bus, Link, Method, Model, Order, Process, Room, Times};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Text};
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
            &["room and store", &calls, "unavailable", "p50", "p99"],
            &[36, 11, 11, 9, 9],
            width,
            model.rooms.iter().map(of_room).collect(),
        ),
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

/// Words stand at the left, numbers at the right. Where it is narrow, numbers first do without the space between them, and
/// then it is words that are cut short: half a number would be another one.
fn table(head: &[&str], widths: &[u16], width: u16, rows: Vec<Row<'static>>) -> (Table<'static>, usize) {
    let many = rows.len();
    let widths = head.iter().zip(widths).map(|(word, widest)| match is_word(word) {
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
    ["process", "runs", "method", "room and", "link", "to", "at", "state", "bus"]
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

fn right(text: String) -> Cell<'static> {
    Cell::from(Text::from(Line::from(text).right_aligned()))
}

fn state(up: bool) -> Cell<'static> {
    if up { Cell::from("up") } else { Cell::from("DOWN").style(Style::new().fg(Color::Red).bold()) }
}

fn trouble(count: f64) -> Cell<'static> {
    let cell = right(number(count));
    if count > 0.0 { cell.style(Style::new().fg(Color::Yellow)) } else { cell }
}

fn number(value: f64) -> String {
    if value < 10.0 && value.fract() != 0.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn bytes(value: f64) -> String {
    match value {
        0.0..1024.0 => format!("{value:.0} B"),
        1024.0..1_048_576.0 => format!("{:.1} KiB", value / 1024.0),
        _ => format!("{:.1} MiB", value / 1_048_576.0),
    }
}

fn times(times: Times) -> (String, String) {
    times.map_or_else(|| ("-".to_owned(), "-".to_owned()), |(p50, p99)| (time(p50), time(p99)))
}

fn time(seconds: f64) -> String {
    match seconds {
        0.0..0.001 => format!("{:.0} µs", seconds * 1e6),
        0.001..1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Look;
    use super::super::numbers::Numbers;
    use super::*;
    use std::time::{Duration, Instant};

    fn look(process: &str, text: &str, at: Instant) -> Look {
        Look { process: process.to_owned(), numbers: Some(Numbers::parse(text)), at }
    }

    fn line<'a>(text: &'a str, begins: &str) -> Vec<&'a str> {
        let line = text.lines().find(|line| line.starts_with(begins));
        line.unwrap_or_else(|| panic!("no line {begins:?} in\n{text}")).split_whitespace().collect()
    }

    const DOOR: &str = r#"aund_part{part="gateway"} 1
aund_sockets 3
aund_sessions 2
aund_requests_total{method="message.send",code="0"} 100
aund_requests_total{method="message.send",code="5003"} 10
aund_request_duration_seconds_bucket{le="0.001",method="message.send"} 110
aund_request_duration_seconds_bucket{le="+Inf",method="message.send"} 110
aund_mesh_link_up{namespace="message",address="10.0.0.2:7443"} 0
aund_mesh_calls_total{namespace="message",address="10.0.0.2:7443"} 110
aund_mesh_pending{namespace="message",address="10.0.0.2:7443"} 4
aund_mesh_redials_total{namespace="message",address="10.0.0.2:7443"} 5
aund_bus_up 1
aund_bus_lag_seconds 0.002
"#;
    const ROOM: &str = r#"aund_part{part="message"} 1
aund_requests_total{method="message.send",code="0"} 100
aund_request_duration_seconds_bucket{le="0.0001",method="message.send"} 100
aund_request_duration_seconds_bucket{le="+Inf",method="message.send"} 100
"#;

    #[test]
    fn one_look_shows_what_happened_since_the_start() {
        let at = Instant::now();
        let mut looks = vec![look("door:1", DOOR, at), look("room:1", ROOM, at)];
        looks.push(Look { process: "gone:1".to_owned(), numbers: None, at });
        let text = text(&Model::new(None, &looks, Order::default()), Order::default());
        assert_eq!(line(&text, "door:1"), ["door:1", "gateway", "3", "2", "0", "B", "110", "10"]);
        assert!(text.contains("gone:1                   does not answer"), "{text}");
        // Told by both, counted once; the door's time and the room's time apart.
        assert_eq!(
            line(&text, "message.send"),
            ["message.send", "110", "10", "500", "µs", "990", "µs", "50", "µs", "99", "µs"]
        );
        assert_eq!(line(&text, "message "), ["message", "100", "10", "50", "µs", "99", "µs"]);
        assert!(text.contains("10.0.0.2:7443                DOWN"), "{text}");
        assert!(text.contains("2.0 ms"), "{text}");
    }

    #[test]
    fn two_looks_show_what_happened_between_them() {
        let at = Instant::now();
        let later = DOOR.replace("\"0\"} 100", "\"0\"} 300").replace(" 110", " 310");
        let (first, second) = ([look("d", DOOR, at)], [look("d", &later, at + Duration::from_secs(2))]);
        let text = text(&Model::new(Some(&first), &second, Order::Name), Order::Name);
        assert_eq!(line(&text, "message.send")[..3], ["message.send", "100", "0"]);
        assert!(text.contains("calls/s") && text.contains("(by name)"), "{text}");
    }

    #[test]
    fn a_narrow_terminal_cuts_words_short_and_never_numbers() {
        let at = Instant::now();
        let door = DOOR.replace("message.send", "message.v2.get_statistics");
        let model = Model::new(None, &[look("somebody.far.away.example:7443", &door, at)], Order::default());
        for (width, name) in [(80, "message.v2.get_statistics "), (62, "message.")] {
            let mut buffer = Buffer::empty(Rect::new(0, 0, width, 12));
            draw(&model, Order::default(), buffer.area, &mut buffer);
            let lines = buffer.content.chunks(usize::from(width));
            let lines = lines.map(|line| line.iter().map(ratatui::buffer::Cell::symbol).collect::<String>());
            let text = lines.collect::<Vec<_>>().join("\n");
            for whole in [" sessions ", "errors", "room p50 room p99", "110", "500 µs", "990 µs", name] {
                assert!(text.contains(whole), "no {whole:?} at {width} in\n{text}");
            }
        }
    }
}

//! Whether a command printed what its guide prints.
//!
//! Ids, times and durations differ from run to run, and only their form is compared; so is white space, as wide as it may be. A `…`
//! stands for anything in a line, and alone in a line for any lines.

/// Whether these are the lines of the guide. A line of either is compared in its [`form`].
pub fn matches(printed: &[String], guide: &[String]) -> bool {
    match guide.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first.trim() == "…" => {
            (0..=printed.len()).any(|skipped| matches(&printed[skipped..], rest))
        }
        Some((first, rest)) => printed
            .split_first()
            .is_some_and(|(line, others)| line_matches(&form(line), &form(first)) && matches(others, rest)),
    }
}

fn line_matches(printed: &str, guide: &str) -> bool {
    let Some((begin, rest)) = guide.split_once('…') else { return printed == guide };
    let Some(printed) = printed.strip_prefix(begin) else { return false };
    let starts = printed.char_indices().map(|(start, _)| start).chain([printed.len()]);
    starts.into_iter().any(|start| line_matches(&printed[start..], rest))
}

/// A line with what differs each time replaced by what it is.
fn form(line: &str) -> String {
    let is_word = |next: char| next.is_alphanumeric() || "-_:.".contains(next);
    let mut formed = String::new();
    let mut rest = line.trim_end();
    while let Some(first) = rest.chars().next() {
        let same = |next: char| match first {
            ' ' => next != ' ',
            first => !is_word(first) || !is_word(next),
        };
        let end = rest.find(same).unwrap_or(rest.len()).max(first.len_utf8());
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        match first {
            ' ' => formed.push(' '),
            first if is_word(first) => formed.push_str(&word_form(piece)),
            _ => formed.push_str(piece),
        }
    }
    formed
}

fn word_form(word: &str) -> String {
    let bare = word.trim_end_matches(['.', ':']);
    let behind = &word[bare.len()..];
    // `task_01a1…`, `run_0190…`: what an id is of does not differ.
    let (of, id) = bare.rsplit_once('_').map_or(("", bare), |(of, id)| (of, id));
    let formed = if is_id(id) {
        return format!("{of}ID{behind}");
    } else if is_time(bare) {
        "TIME"
    } else if is_duration(bare) {
        "DURATION"
    } else {
        return with_short_ids(word);
    };
    format!("{formed}{behind}")
}

/// Sixteen hexadecimal digits or more, as a UUID has them or without its hyphens.
fn is_id(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_hexdigit).count();
    digits >= 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// `2026-11-16T18:49:35Z` or `18:49:35Z`.
fn is_time(word: &str) -> bool {
    let day_and_time = word.split_once('T').map_or(word, |(_, time)| time);
    let Some(time) = day_and_time.strip_suffix('Z') else { return false };
    let parts: Vec<&str> = time.split(':').collect();
    parts.len() == 3
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// `15ms`, `0.4s`.
fn is_duration(word: &str) -> bool {
    let number = word.trim_end_matches("ms").trim_end_matches("µs").trim_end_matches('s');
    number.len() < word.len() && number.parse::<f64>().is_ok()
}

/// `alice-67a0.agents.localhost` has four digits that the demo chose.
fn with_short_ids(word: &str) -> String {
    let parts = word.split('.').map(|part| match part.rsplit_once('-') {
        Some((name, end)) if end.len() == 4 && end.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            format!("{name}-ID")
        }
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join(".")
}

#[test]
fn only_what_differs_each_time_may_differ() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    for (printed, guide, same) in [
        ("a\nb", "a\nb", true),
        ("a\nb", "a", false),
        ("a", "a\nb", false),
        ("a\nb\nc", "a\n…", true),
        ("a\nb\nc", "a\n…\nd", false),
        (
            "working  task_01a1e5b1-78fd-7001-8861-9bc80f90c00d",
            "working task_01a1e5b1-79bb-7000-998b-ce16f4a3f09c",
            true,
        ),
        (
            "working  task_01a1e5b1-78fd-7001-8861-9bc80f90c00d",
            "failed  task_01a1e5b1-78fd-7001-8861-9bc80f90c00d",
            false,
        ),
        ("at 2026-11-16T18:49:35Z, in 3ms.", "at 2026-12-16T00:00:00Z, in 250ms.", true),
        ("18:49:35Z alice: one", "18:49:36Z alice: two", false),
        (
            r#"{"runId":"run_0190163d868b7ce2a5f1c1b6d0b3a7e4"}"#,
            r#"{"runId":"run_caec494a0a6ce5631d5c43ac6ba492db"}"#,
            true,
        ),
        ("run_0190163d868b7ce2a5f1c1b6d0b3a7e4", "cmd_0190163d868b7ce2a5f1c1b6d0b3a7e4", false),
        ("seq 5", "seq 6", false),
        ("ok: all that runs", "ok: …", true),
        ("is alice-67a0.agents.localhost", "is alice-0ddc.agents.localhost", true),
    ] {
        assert_eq!(matches(&lines(printed), &lines(guide)), same, "{printed:?} and {guide:?}");
    }
}

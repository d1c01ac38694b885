//! What is wrong with a file of settings, in words of its own: the parser's sentences name types of Rust.

/// A sentence about an error, with the name of the setting and the line where they are known. `table` is the table that was read, if it
/// is not the whole file.
pub(super) fn sentence(error: &toml::de::Error, text: Option<&str>, table: Option<&str>) -> String {
    let (shown, message) = (error.to_string(), error.message().lines().next().unwrap_or_default());
    let setting = match (text, error.span()) {
        (Some(text), Some(span)) => setting_at(text, span.start),
        _ => setting_in(&shown),
    };
    let setting = match (table, setting) {
        (Some(table), Some(setting)) => Some(format!("{table}.{setting}")),
        (table, setting) => setting.or(table.map(str::to_owned)),
    };
    let said = match unknown(message) {
        Some(said) => said,
        None => {
            let named = setting.map_or_else(String::new, |setting| format!("{setting}: "));
            format!("{named}{}", in_words(message))
        }
    };
    match text.and_then(|_| position(&shown)) {
        Some(line) => format!("{line}: {said}"),
        None => said,
    }
}

/// From "TOML parse error at line 3, column 1".
fn position(shown: &str) -> Option<&str> {
    let (_, position) = shown.lines().next()?.split_once(" at ")?;
    Some(position)
}

/// From the line "in `limits.sockets`" of an error without a position.
fn setting_in(shown: &str) -> Option<String> {
    let named = |line: &str| Some(line.strip_prefix("in `")?.strip_suffix('`')?.to_owned());
    shown.lines().find_map(named)
}

/// The setting of the line that has this byte, with the table it stands in.
fn setting_at(text: &str, at: usize) -> Option<String> {
    let (mut table, mut begin) = (None, 0);
    for line in text.split_inclusive('\n') {
        begin += line.len();
        let bare = line.trim();
        if let Some(name) = bare.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            table = Some(name.trim_matches(['[', ']', ' ']));
        }
        if at < begin {
            let (key, _) = bare.split_once('=')?;
            let table = table.map_or_else(String::new, |table| format!("{table}."));
            return Some(format!("{table}{}", key.trim()));
        }
    }
    None
}

/// "unknown field `isuer`, expected one of `issuer`, `listen`" with the nearest name, or all if none is near.
fn unknown(message: &str) -> Option<String> {
    let mut names = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    let written = names.next()?;
    let names: Vec<&str> = names.collect();
    let near = names
        .iter()
        .map(|name| (strsim::damerau_levenshtein(written, name), *name))
        .filter(|(distance, name)| *distance <= name.len().max(written.len()) / 2)
        .min();
    Some(match near {
        Some((_, name)) => format!("unknown setting {written}; did you mean {name}?"),
        None => format!("unknown setting {written}; the settings here are {}", names.join(", ")),
    })
}

/// "invalid type: string "many", expected usize" as `must be a whole number of 0 or more, not "many"`.
fn in_words(message: &str) -> String {
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let words: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
        let (written, known) = words.split_first().unwrap_or((&"", &[]));
        return format!("must be {}, not {written:?}", known.join(" or "));
    }
    if let Some(name) = message.strip_prefix("missing field ") {
        return format!("{} is missing", name.trim_matches('`'));
    }
    let invalid = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    match invalid.and_then(|rest| rest.split_once(", expected ")) {
        Some((given, wanted)) => format!("must be {}, not {}", kind(wanted), value(given)),
        None => message.to_owned(),
    }
}

fn kind(wanted: &str) -> &str {
    match wanted {
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "a table",
        "socket address" => "an address such as 127.0.0.1:7101",
        wanted if wanted.starts_with("struct ") => "a table",
        wanted => wanted,
    }
}

/// "integer `1`" as 1, "string "x"" as "x", "sequence" as a list.
fn value(given: &str) -> String {
    match given {
        "sequence" => "a list".to_owned(),
        "map" => "a table".to_owned(),
        given => match given.split_once('`') {
            Some((_, value)) => value.trim_end_matches('`').to_owned(),
            None => given.trim_start_matches("string ").to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, test_services};

    #[test]
    fn a_setting_that_cannot_be_read_is_named_with_what_it_must_be() {
        for (text, sentence) in [
            ("issuer = 1", "line 1, column 10: issuer: must be a string, not 1"),
            (
                "[limits]\nsockets = 'many'",
                "line 2, column 11: limits.sockets: must be a whole number of 0 or more, not \"many\"",
            ),
            ("listen = 'x'", "line 1, column 10: listen: must be a list, not \"x\""),
            ("share_port = 1", "line 1, column 14: share_port: must be true or false, not 1"),
            ("tls = 1", "line 1, column 7: tls: must be a table, not 1"),
            ("isuer = 'x'", "line 1, column 1: unknown setting isuer; did you mean issuer?"),
        ] {
            assert_eq!(Config::parse(text, &test_services()).unwrap_err().to_string(), sentence);
        }
        let far = Config::parse("tls.qqqqqqqqqq = 1", &test_services()).unwrap_err().to_string();
        assert!(far.ends_with("unknown setting qqqqqqqqqq; the settings here are cert, key"), "{far}");
    }

    #[test]
    fn no_word_of_the_parser_gets_out() {
        for text in
            ["limits.sockets = -1", "message.limit = 'x'", "message = 3", "mesh.listen = 3", "proxies = [3]"]
        {
            let sentence = Config::parse(text, &test_services()).unwrap_err().to_string();
            for word in ["expected", "invalid type", "invalid value", "usize", "u64", "i64", "struct"] {
                assert!(!sentence.contains(word), "{text}: {sentence}");
            }
        }
    }
}

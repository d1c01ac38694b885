//! What is read, what is refused, and that the plain reader never differs from the full parser.

use super::*;
use proptest::prelude::*;

fn code(text: &str) -> i32 {
    match read(text) {
        Err(refusal) => refusal.error.code(),
        Ok(RequestFrame::One(_)) => 0,
        Ok(RequestFrame::Batch(members)) => {
            members.into_iter().find_map(Result::err).map_or(0, |refusal| refusal.error.code())
        }
    }
}

#[test]
fn requests_of_the_right_shape_are_read() {
    let Ok(RequestFrame::One(request)) =
        read(r#"{"jsonrpc":"2.0","id":"a","method":"meta.ping","params":{}}"#)
    else {
        panic!("not read")
    };
    assert_eq!((request.id.unwrap().get(), &*request.method), ("\"a\"", "meta.ping"));
    for text in [
        r#"{"jsonrpc":"2.0","method":"x"}"#,
        r#"{"jsonrpc":"2.0","method":"x","id":null}"#,
        r#"{"jsonrpc":"2.0","method":"x","id":-1.5,"more":1}"#,
    ] {
        assert_eq!(code(text), 0, "{text}");
    }
}

#[test]
fn everything_else_gets_its_code() {
    for (text, expected) in [
        ("{", -32700),
        ("5", -32600),
        ("[]", -32600),
        (r#"{"id":1,"method":"x"}"#, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":true,"method":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":5}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":9007199254740992,"method":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":"\ud800","method":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","x":1,"x":1}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","x":{"y":1,"y":1}}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"y":1,"y":1}}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"y":1e17}}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"y":"\udc00"}}"#, -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x"} {}"#, -32700),
        ("[1,", -32700),
        (r#"[1,{"jsonrpc":"2.0","id":1,"method":"x"}]"#, -32600),
    ] {
        assert_eq!(code(text), expected, "{text}");
    }
    let many = vec![r#"{"jsonrpc":"2.0","method":"x"}"#; 51].join(",");
    assert_eq!(code(&format!("[{many}]")), -32600);
}

fn shown(read: Result<RpcRequest<'_>, InvalidRequest>) -> String {
    match read {
        Ok(RpcRequest { id, method, params }) => {
            format!("{:?} {method} {:?}", id.map(RawValue::get), params.map(RawValue::get))
        }
        Err(InvalidRequest { id, error }) => {
            format!("{:?} {} {error}", id.as_deref().map(RawValue::get), error.code())
        }
    }
}

/// Frames that are nearly right: a member more or less, twice, in another order, with spaces, with odd values.
fn frames() -> impl Strategy<Value = String> {
    let values = [
        "\"2.0\"",
        "2.0",
        "\"a.b\"",
        "\"a\\u0062\"",
        "\"\u{e9}\"",
        "7",
        "-1",
        "07",
        "1.5",
        "null",
        "{}",
        " { } ",
        "{\"a\":[1,{}]}",
        "[]",
        "{\"a\":1,\"a\":2}",
        "\"",
        "",
        "9007199254740993",
        "{\"a\":9007199254740993}",
        "\"\t\"",
    ];
    let key = prop::sample::select(vec!["jsonrpc", "id", "method", "params", "other", "i\\u0064"]);
    let space = || prop::sample::select(vec!["", "", "", " ", "\n\t"]);
    let member = (space(), key, space(), prop::sample::select(values.to_vec()), space());
    let member = member.prop_map(|(a, key, b, value, c)| format!("{a}\"{key}\"{b}:{value}{c}"));
    let good = prop::sample::select(vec![
        "\"jsonrpc\":\"2.0\"",
        "\"jsonrpc\" : \"2.0\"",
        "\"id\":\"x-1\"",
        "\"id\": 12",
        "\"method\":\"a.b\"",
        "\"params\": {\"a\":{\"b\":\"}\"}}",
    ]);
    let members = prop::collection::vec(prop_oneof![1 => member, 3 => good.prop_map(str::to_owned)], 0..6);
    let ends = prop::sample::select(vec!["}", "}", "}", "} ", "", "}}", ",}", "} {}"]);
    (members, ends).prop_map(|(members, end)| format!("{{{}{end}", members.join(",")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]
    #[test]
    fn the_plain_reader_reads_what_the_full_parser_reads(text in frames()) {
        prop_assert_eq!(shown(read_one(&text)), shown(read_carefully(&text)));
    }
}

#[test]
fn what_clients_write_is_read_by_the_plain_reader() {
    for text in [
        r#"{"jsonrpc":"2.0","id":"rpc-1","method":"meta.ping","params":{}}"#,
        r#"{"jsonrpc": "2.0", "id": 7, "method": "message.send", "params": {"to": "x", "payload": {"a": [1]}}}"#,
        r#"{"method":"meta.ping","jsonrpc":"2.0"}"#,
    ] {
        assert!(plain::request(text).is_some(), "{text}");
    }
}

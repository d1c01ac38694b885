//! `aund agent manifest` and `aund tool`, without any server.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use client::{Aid, Home};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{aund, printed};

fn sample() -> Value {
    let tool = |name: &str, scope: &str| {
        json!({
            "name": name, "description_i18n_key": "agent.cap.tool", "permission_scope": scope,
            "input_schema": {
                "type": "object", "properties": { "path": { "type": "string" } }, "additionalProperties": false
            }
        })
    };
    json!({
        "schema_version": "1.0", "agent_version": "1.0.0", "capability_flags": { "supports_artifacts": true },
        "tools": [tool("notify", "notification:send"), tool("locate", "location:read"), tool("read_file", "filesystem:read")],
        "permission_scopes": [
            { "id": "notification:send", "label_i18n_key": "scope.notify", "sensitivity": "low" },
            { "id": "location:read", "label_i18n_key": "scope.location", "sensitivity": "high" },
            { "id": "filesystem:read", "label_i18n_key": "scope.files", "sensitivity": "medium", "label_fallback": "Nothing at all" },
            { "id": "shell:exec", "label_i18n_key": "scope.shell", "sensitivity": "high", "label_fallback": "Run commands",
              "description_fallback": "Run them in a shell" }
        ]
    })
}

fn write(folder: &TempDir, name: &str, content: &Value) {
    fs::write(folder.path().join(name), content.to_string()).expect("the folder can be written");
}

/// What a person sees whose terminal has this locale.
fn check_in(locale: &str, noun: &str, folder: &Path) -> Output {
    let words = [noun, "manifest", "check", "good.json"];
    let mut command = Command::new(crate::support::program());
    command.args(words).current_dir(folder).env("LC_ALL", locale).output().expect("aund can be started")
}

#[test]
fn check_shows_the_scopes_or_every_violation() {
    let here = tempfile::tempdir().unwrap();
    write(&here, "good.json", &sample());
    for noun in ["agent", "agents"] {
        let output = check_in("C.UTF-8", noun, here.path());
        assert!(output.status.success(), "{}", printed(&output.stderr));
        let said = printed(&output.stdout);
        for word in [
            "accepted",
            "Send notifications  low  notification:send\n    Show notifications on this device\n",
            "Read location  high  location:read\n    Read where this device is\n",
            "Read local files  medium  filesystem:read\n    Read the contents of files on this device\n",
            "Run commands  high  shell:exec\n    Run them in a shell\n",
            "for read_file",
        ] {
            assert!(said.contains(word), "{word} in {said}");
        }
        assert!(!said.contains("scope."), "no key of a translation: {said}");
    }
    let said = printed(&check_in("zh_CN.UTF-8", "agent", here.path()).stdout);
    for word in [
        "发送系统通知  low  notification:send\n    在此设备上显示系统通知\n",
        "读取位置  high  location:read\n    读取此设备的当前位置\n",
        "读取本地文件  medium  filesystem:read\n    读取此设备上的文件内容\n",
        "Run commands  high  shell:exec",
    ] {
        assert!(said.contains(word), "{word} in {said}");
    }
    let output = aund(&["agent", "manifest", "check", "good.json", "--json"], here.path());
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    assert_eq!((said["accepted"].as_bool(), said["hash"].as_str().map(str::len)), (Some(true), Some(64)));
    assert_eq!(
        said["scope_texts"]["location:read"]["zh"],
        json!({ "label": "读取位置", "description": "读取此设备的当前位置" })
    );
    assert_eq!(said["scope_texts"]["shell:exec"][""]["label"], "Run commands");

    let mut bad = sample();
    bad["tools"][0]["name"] = json!("N");
    bad["tools"][1]["input_schema"]["properties"]["path"] = json!({ "$ref": "http://127.0.0.1:9/" });
    bad["permission_scopes"][1]["sensitivity"] = json!("low");
    write(&here, "bad.json", &bad);
    let output = aund(&["agent", "manifest", "check", "bad.json"], here.path());
    assert_eq!(output.status.code(), Some(1));
    let said = printed(&output.stdout);
    let paths: Vec<&str> = said.lines().filter_map(|line| line.split_whitespace().next()).collect();
    // In the order of the file, which serde_json wrote in alphabetical order.
    let expected =
        ["/permission_scopes/1/sensitivity", "/tools/0/name", "/tools/1/input_schema/properties/path/$ref"];
    assert_eq!(paths, expected);
    assert!(printed(&output.stderr).contains("MANIFEST_INVALID"), "{}", printed(&output.stderr));

    fs::write(here.path().join("twice.json"), r#"{"tools":[],"tools":[]}"#).unwrap();
    let output = aund(&["agent", "manifest", "check", "twice.json"], here.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(printed(&output.stderr).contains("\"tools\" twice"), "{}", printed(&output.stderr));
    assert_eq!(aund(&["agent", "manifest", "check", "none.json"], here.path()).status.code(), Some(1));
}

#[test]
fn diff_ends_with_three_if_a_change_is_breaking() {
    let here = tempfile::tempdir().unwrap();
    let (old, mut fewer, mut more) = (sample(), sample(), sample());
    fewer["tools"].as_array_mut().unwrap().remove(0);
    more["tools"][2]["input_schema"]["required"] = json!(["path"]);
    for (name, content) in [("old.json", &old), ("fewer.json", &fewer), ("more.json", &more)] {
        write(&here, name, content);
    }
    let diff = |new: &str| aund(&["agent", "manifest", "diff", "old.json", new], here.path());
    let same = diff("old.json");
    assert_eq!((same.status.code(), printed(&same.stdout).as_str()), (Some(0), "nothing changed\n"));
    let output = diff("fewer.json");
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output.stderr));
    assert_eq!(printed(&output.stdout), "harmless R7   notify was removed\n");
    let output = diff("more.json");
    assert_eq!(output.status.code(), Some(3));
    let line = "breaking R1   read_file /input_schema/properties/path filesystem:read is required now\n";
    assert_eq!(printed(&output.stdout), line);
    assert!(
        printed(&output.stderr).contains("asked to grant filesystem:read"),
        "{}",
        printed(&output.stderr)
    );
    assert_eq!(diff("none.json").status.code(), Some(1));
    let output = aund(&["agent", "manifest", "diff", "old.json", "more.json", "--json"], here.path());
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    assert_eq!(
        (&said["breaking"], &said["scopes_requiring_reauth"]),
        (&json!(true), &json!(["filesystem:read"]))
    );
}

/// `aund tool decide` as alice, with a call on standard input.
fn decide(folder: &Path, call: &Value, words: &[&str]) -> Output {
    let mut child = Command::new(crate::support::program())
        .args(["tool", "decide", "--home", "home", "--manifest", "manifest.json"])
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("aund can be started");
    child.stdin.take().expect("a pipe").write_all(call.to_string().as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

fn call(id: &str, tool: &str, scope: &str) -> Value {
    json!({
        "from": "reader.agents.localhost", "msg_subtype": "artifact_tool_call", "content_type": "artifact",
        "payload": { "type": "artifact", "artifact": {
            "subtype": "tool_call", "call_id": id, "tool_name": tool, "permission_scope": scope,
            "arguments": { "path": "/secret/notes.md" }
        } }
    })
}

#[test]
fn decide_answers_as_an_honest_client() {
    let here = tempfile::tempdir().unwrap();
    write(&here, "manifest.json", &sample());
    Home::new(here.path().join("home")).create(&Aid::parse("alice.agents.localhost").unwrap()).unwrap();
    let answer = |call: &Value, words: &[&str]| {
        let output = decide(here.path(), call, words);
        assert_eq!(output.status.code(), Some(0), "{}", printed(&output.stderr));
        let payload: Value = serde_json::from_slice(&output.stdout).expect("one payload");
        assert_eq!(payload["type"], "artifact");
        payload["artifact"].clone()
    };
    let granted =
        ["--granted", "notification:send", "--granted", "location:read", "--granted", "filesystem:read"];
    let with = |words: &[&'static str]| [&granted[..], words].concat();

    let denied = |id: &str, reason: &str| json!({ "subtype": "tool_response", "call_id": id, "status": "denied", "reason": reason });
    assert_eq!(answer(&call("a", "locate", "location:read"), &[]), denied("a", "scope_not_granted"));
    assert_eq!(answer(&call("b", "shell", "shell:exec"), &with(&[])), denied("b", "tool_not_declared"));
    assert_eq!(answer(&call("c", "locate", "location:read"), &with(&["--no"])), denied("c", "user_refused"));
    let confirmed = with(&["--yes", "--result", r#"{"lat":1}"#]);
    assert_eq!(
        answer(&call("d", "locate", "location:read"), &confirmed),
        json!({ "subtype": "tool_response", "call_id": "d", "status": "ok", "result": { "lat": 1 } })
    );
    let unavailable = answer(&call("e", "notify", "notification:send"), &with(&[]));
    assert_eq!(
        (&unavailable["status"], &unavailable["error_code"]),
        (&json!("error"), &json!("TOOL_UNAVAILABLE"))
    );
    let mut invalid = call("f", "notify", "notification:send");
    invalid["payload"]["artifact"]["arguments"] = json!({ "path": 1 });
    assert_eq!(answer(&invalid, &with(&[]))["error_code"], "TOOL_INVALID_ARGUMENTS");
    assert_eq!(answer(&call("g", "read_file", "filesystem:read"), &with(&["--yes"]))["status"], "error");
    let silent = answer(&call("h", "read_file", "filesystem:read"), &with(&["--no", "--result", "{}"]));
    assert_eq!(silent["status"], "ok", "medium is not asked about again for a day");

    let mut disguised = call("i", "notify", "notification:send");
    disguised.as_object_mut().unwrap().remove("msg_subtype");
    for (message, why) in [(call("d", "locate", "location:read"), "already decided"), (disguised, "envelope")]
    {
        let output = decide(here.path(), &message, &with(&["--yes"]));
        assert_eq!((output.status.code(), printed(&output.stdout).as_str()), (Some(0), ""));
        assert!(printed(&output.stderr).contains(why), "{}", printed(&output.stderr));
    }
    for nonsense in [json!({}), json!({ "payload": { "type": "text", "text": "hello" } })] {
        assert_eq!(decide(here.path(), &nonsense, &with(&[])).status.code(), Some(1));
    }

    let tools = here.path().join("home/agents/alice.agents.localhost/tools");
    let trail = fs::read_to_string(tools.join("audit.jsonl")).unwrap();
    assert_eq!(trail.lines().count(), 8, "{trail}");
    assert!(trail.contains("arguments_digest") && !trail.contains("secret"), "{trail}");
}

//! Work that one agent gives another, on the command line: `aund tasks`.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::HIGH_LIMITS;
use super::agent_cli::AgentCli;
use crate::support::{TestServer, printed, within};

/// What the commands print last in the line: the id of the task.
pub(super) fn id_in(line: &str) -> String {
    let id = line.split_whitespace().last().expect("a line has words");
    assert!(id.starts_with("task_"), "{line}");
    id.to_owned()
}

pub(super) async fn create(cli: &AgentCli, more: &[&str]) -> String {
    let words = [&["tasks", "create", "--as", "alice", "--to", "bobb"][..], more].concat();
    let said = cli.run(&words).await;
    assert!(said.starts_with(&format!("submitted to {}  task_", cli.aid("bobb"))), "{said}");
    id_in(&said)
}

pub(super) async fn as_json(cli: &AgentCli, words: &[&str]) -> Value {
    let said = cli.run(&[words, &["--json"]].concat()).await;
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[tokio::test]
async fn a_task_is_given_done_and_read_on_the_command_line() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    let task = create(&cli, &["--title", "Review", "--input", "please review this"]).await;

    let listed =
        cli.run(&["tasks", "list", "--as", "bobb", "--role", "assignee", "--status", "submitted"]).await;
    let (alice, bobb) = (cli.name("alice"), cli.name("bobb"));
    let (begin, end) = (format!("{task}  submitted       20"), format!("Z  {alice} → {bobb}  Review\n"));
    assert!(listed.starts_with(&begin) && listed.ends_with(&end), "{listed}");
    assert_eq!(cli.run(&["tasks", "accept", &task, "--as", "bobb"]).await, format!("working  {task}\n"));
    let asked = cli.run(&["tasks", "input", &task, "Which one?", "--ask", "--as", "bobb"]).await;
    assert_eq!(asked, format!("input_required  {task}\n"));
    let answered = cli.run(&["tasks", "input", &task, "Number 7", "--as", "alice"]).await;
    assert_eq!(answered, format!("working  {task}\n"));

    fs::write(cli.folder.join("review.md"), "# No risk\nat all").unwrap();
    let complete =
        ["tasks", "complete", &task, "--artifact", "review.md", "--text", "note=ok", "--as", "bobb"];
    assert_eq!(cli.run(&complete).await, format!("completed  {task}\n"));

    let shown = cli.run(&["tasks", "show", &task, "--as", "alice"]).await;
    for part in [
        format!("Review\ntask      {task}\nstatus    completed, version 5\n"),
        format!("owner     {}\nassignee  {}\n", cli.aid("alice"), cli.aid("bobb")),
        "input     please review this\n".to_owned(),
        format!("Z {bobb} asks: Which one?\n"),
        format!("Z {alice}: Number 7\n"),
        format!("artifact review.md (text/markdown, 16 bytes) by {bobb}\n    # No risk\n    at all\n"),
        format!("artifact note (text/plain, 2 bytes) by {bobb}\n    ok\n"),
    ] {
        assert!(shown.contains(&part), "{part:?} in\n{shown}");
    }
    let alone = cli.run(&["tasks", "show", &task, "--artifact", "review.md", "--as", "alice"]).await;
    assert_eq!(alone, "# No risk\nat all", "as it was handed in");
    let object = as_json(&cli, &["tasks", "show", &task, "--as", "bobb"]).await;
    assert_eq!((&object["status"], &object["artifacts"][1]["id"]), (&json!("completed"), &json!("note")));
}

#[tokio::test]
async fn a_tree_is_drawn_from_any_task_of_it() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb", "carol", "dave"]).await;
    let root = create(&cli, &["--title", "Everything", "--visibility", "shared"]).await;
    cli.run(&["tasks", "accept", &root, "--as", "bobb"]).await;
    let delegate = ["tasks", "delegate", &root, "--as", "bobb", "--input", "a part", "--to"];
    let part = cli.run(&[&delegate[..], &["carol"]].concat()).await;
    assert!(part.starts_with(&format!("submitted to {}  task_", cli.aid("carol"))), "{part}");
    let part = id_in(&part);
    let optional = id_in(&cli.run(&[&delegate[..], &["dave", "--optional"]].concat()).await);
    cli.run(&["tasks", "accept", &part, "--as", "carol"]).await;
    let delegate = ["tasks", "delegate", &part, "--as", "carol", "--input", "a part of it", "--to", "dave"];
    let leaf = id_in(&cli.run(&delegate).await);

    let [bobb, carol, dave] = ["bobb", "carol", "dave"].map(|name| cli.name(name));
    let expected = format!(
        "working         {bobb}  Everything  {root}\n\
         ├─ working         {carol}  {part}\n\
         │  └─ submitted       {dave}  {leaf}\n\
         └─ submitted       {dave}  (optional)  {optional}\n"
    );
    for (agent, task) in [("alice", &root), ("bobb", &part), ("carol", &root), ("dave", &leaf)] {
        assert_eq!(cli.run(&["tasks", "tree", task, "--as", agent]).await, expected, "{agent} {task}");
    }
    let tree = as_json(&cli, &["tasks", "tree", &leaf, "--as", "alice"]).await;
    assert_eq!(tree["children"][0]["children"][0]["task_id"], json!(leaf));

    let blocked = cli.run_refused(&["tasks", "complete", &root, "--as", "bobb"]).await;
    let open = format!("{part} (working, {}) must end first", cli.aid("carol"));
    assert!(blocked.contains(&open) && blocked.contains("(-32185)"), "{blocked}");
    let canceled = cli.run(&["tasks", "cancel", &root, "--reason", "not needed", "--as", "alice"]).await;
    assert_eq!(canceled, format!("canceled  {root}\n"));
    let drawn = cli.run(&["tasks", "tree", &leaf, "--as", "dave"]).await;
    assert_eq!(drawn.matches("canceled").count(), 4, "{drawn}");
    let shown = cli.run(&["tasks", "show", &leaf, "--as", "dave"]).await;
    assert!(shown.contains("reason    parent_canceled\n"), "{shown}");
    assert!(shown.contains(&format!("part of   {part}\n")), "{shown}");
}

#[tokio::test]
async fn whoever_may_not_read_the_root_sees_the_tree_from_where_it_may() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb", "carol"]).await;
    let root = create(&cli, &["--title", "Secret"]).await;
    cli.run(&["tasks", "accept", &root, "--as", "bobb"]).await;
    let delegate = ["tasks", "delegate", &root, "--as", "bobb", "--to", "carol", "--input", "a part"];
    let part = id_in(&cli.run(&delegate).await);
    let drawn = cli.run(&["tasks", "tree", &part, "--as", "carol"]).await;
    assert_eq!(drawn, format!("submitted       {}  {part}\n", cli.name("carol")));
    let drawn = cli.run(&["tasks", "tree", &part, "--as", "bobb"]).await;
    assert!(drawn.starts_with(&format!("working         {}  Secret", cli.name("bobb"))), "{drawn}");
    let hint = cli.run_refused(&["tasks", "tree", &part, "--as", "alice"]).await;
    assert!(hint.contains("use the id of the root") && hint.contains("(-32175)"), "{hint}");
    assert_eq!(cli.run(&["tasks", "tree", &root, "--as", "alice"]).await, drawn);
}

#[tokio::test]
async fn an_input_comes_from_standard_input_and_a_key_makes_one_task() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    let to = cli.aid("bobb");
    let words = ["tasks", "create", "--as", "alice", "--to", &to, "--input", "-", "--idempotency-key", "k"];
    let mut said = Vec::new();
    for _ in 0..2 {
        let mut child = cli.command(&words).stdin(Stdio::piped()).spawn().expect("aund can be started");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all("grüß dich\n".as_bytes()).await.expect("it reads");
        drop(stdin);
        let output = within("it ends", child.wait_with_output()).await.expect("it is our child");
        said.push(printed(&output.stdout));
    }
    assert!(said[1].starts_with("submitted before to "), "{said:?}");
    assert_eq!(id_in(&said[0]), id_in(&said[1]));
    let shown = cli.run(&["tasks", "show", &id_in(&said[0]), "--as", "bobb"]).await;
    assert!(shown.contains("input     grüß dich\n"), "{shown}");
}

#[tokio::test]
async fn a_list_has_pages_and_filters() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb", "carol"]).await;
    for title in ["one", "two", "three"] {
        create(&cli, &["--title", title]).await;
    }
    let output = cli.output_of(&["tasks", "list", "--as", "alice", "--limit", "2"]).await;
    let (listed, note) = (printed(&output.stdout), printed(&output.stderr));
    assert_eq!(
        (listed.lines().count(), note.as_str()),
        (2, "there are more tasks: use --limit N or --all\n")
    );
    assert!(
        listed.lines().next().is_some_and(|line| line.ends_with("three")),
        "the last changed first: {listed}"
    );
    assert_eq!(cli.run(&["tasks", "list", "--as", "alice", "--all"]).await.lines().count(), 3);
    for words in
        [&["--role", "assignee"][..], &["--peer", "carol"], &["--status", "working", "--status", "failed"]]
    {
        let output = cli.output_of(&[&["tasks", "list", "--as", "alice"][..], words].concat()).await;
        assert_eq!(
            (printed(&output.stdout), printed(&output.stderr)),
            (String::new(), "no tasks\n".to_owned())
        );
    }
    let both =
        ["tasks", "list", "--as", "bobb", "--status", "submitted", "--status", "working", "--peer", "alice"];
    assert_eq!(as_json(&cli, &both).await["items"].as_array().map(Vec::len), Some(3));
}

#[tokio::test]
async fn what_cannot_be_done_is_one_sentence() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb", "carol"]).await;
    let task = create(&cli, &["--title", "Review"]).await;

    // A task of others is as unknown as one that nobody has.
    let unknown = "task_0190163d-868b-7ce2-a5f1-c1b6d0b3a7e4";
    for command in ["show", "tree", "watch", "accept", "complete", "cancel"] {
        let hidden = cli.run_refused(&["tasks", command, &task, "--as", "carol"]).await;
        let missing = cli.run_refused(&["tasks", command, unknown, "--as", "carol"]).await;
        assert_eq!(hidden.replace(&task, unknown), missing, "{command}");
        assert!(missing.contains(&format!("task {unknown} not found (-32170)")), "{missing}");
    }
    let bad = cli.run_misused(&["tasks", "show", "not an id", "--as", "alice"]).await;
    assert!(bad.contains("'not an id'") && bad.contains("the id of a task"), "{bad}");
    let denied = cli.run_refused(&["tasks", "accept", &task, "--as", "alice"]).await;
    assert!(denied.contains("only the assignee") && denied.contains("(-32175)"), "{denied}");
    let early = cli.run_refused(&["tasks", "complete", &task, "--as", "bobb"]).await;
    assert!(early.contains("(-32171)"), "{early}");
    let other = cli.run_refused(&["tasks", "accept", &task, "--expected-version", "7", "--as", "bobb"]).await;
    assert!(other.contains("the task has version 1"), "{other}");
    let nobody = ["tasks", "create", "--as", "alice", "--to", "nobody1", "--input", "x"];
    let nobody = cli.run_refused(&nobody).await;
    assert!(nobody.contains("is not registered"), "{nobody}");
    let name =
        cli.run_refused(&["tasks", "create", "--as", "alice", "--to", "NOT a name", "--input", "x"]).await;
    assert!(name.contains("is not an agent name"), "{name}");
    let which = cli.run_refused(&["tasks", "list"]).await;
    assert!(which.contains("there are several agents: choose one with --as "), "{which}");

    cli.run(&["tasks", "accept", &task, "--as", "bobb"]).await;
    fs::write(cli.folder.join("large.txt"), "x".repeat((256 << 10) + 1)).unwrap();
    let large =
        cli.run_refused(&["tasks", "complete", &task, "--artifact", "large.txt", "--as", "bobb"]).await;
    assert!(large.contains("large.txt has 262145 bytes, and an artifact has at most 262144"), "{large}");
    let file = cli.run_refused(&["tasks", "input", &task, "@nothing", "--as", "bobb"]).await;
    assert!(file.contains("nothing cannot be read as text"), "{file}");
    let output = cli.output_of(&["tasks", "show", unknown, "--as", "alice", "--json"]).await;
    let refusal: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), &refusal["error"]["code"]), (Some(1), &json!(-32170)));

    for words in [
        &["tasks"][..],
        &["tasks", "show"],
        &["tasks", "watch"],
        &["tasks", "create", "--to", "bobb"],
        &["tasks", "create", "--input", "x"],
        &["tasks", "list", "--status", "sleeping"],
        &["tasks", "list", "--limit", "101"],
        &["tasks", "complete", "x", "--text", "without a name"],
    ] {
        assert_eq!(cli.output_of(words).await.status.code(), Some(2), "{words:?}");
    }
}

#[tokio::test]
async fn nobody_writes_to_the_terminal_of_whoever_looks() {
    let server = TestServer::shared_with(HIGH_LIMITS).await;
    let cli = AgentCli::with(&server, &["alice", "bobb"]).await;
    // The server takes line ends and characters that reverse the direction of text in a title, and anything in an input.
    let title = "Review\ntask_9  completed\u{202e}";
    let task = create(&cli, &["--title", title, "--input", "\u{1b}[2Jplease"]).await;
    let listed = cli.run(&["tasks", "list", "--as", "bobb"]).await;
    assert!(
        listed.ends_with("  Review task_9 completed\\u202e\n") && listed.lines().count() == 1,
        "{listed}"
    );
    let drawn = cli.run(&["tasks", "tree", &task, "--as", "bobb"]).await;
    assert!(drawn.contains("Review task_9 completed\\u202e") && drawn.lines().count() == 1, "{drawn}");
    let shown = cli.run(&["tasks", "show", &task, "--as", "bobb"]).await;
    assert!(
        shown.contains("input     \\u001b[2Jplease\n") && !shown.contains(['\u{1b}', '\u{202e}']),
        "{shown}"
    );
    let refused = ["tasks", "create", "--as", "alice", "--to", "bobb", "--title", "\u{1b}[2J"];
    let refused = cli.run_misused(&refused).await;
    assert!(refused.contains("must not have control characters"), "{refused}");
}

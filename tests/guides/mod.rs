//! The guides, run as they are printed: every command of a `console` block is typed in a shell, in the order of the page, and prints
//! what stands below it.

mod guide;
mod output;
mod shell;

use std::process::Command;

use guide::Guide;
use shell::GuideShell;

use crate::support::{on_sqlite, split};

/// What is not run, by its guide and heading, and why.
const NOT_RUN: [(&str, &str, &str); 4] = [
    ("README.md", "An agent in Python", "it writes to /etc/hosts; tests/sdk runs what it shows"),
    ("README.md", "Test it", "it is the tests"),
    ("README.md", "One server, many processes", "it needs containers"),
    ("README.md", "Two domains", "it needs containers"),
];

/// Runs a guide from the server of the README on.
fn run(path: &str) {
    if split() || !on_sqlite() {
        eprintln!("SKIPPED: guides start the server that they print");
        return;
    }
    let mut shell = GuideShell::start();
    if path != "README.md" {
        follow(&mut shell, "README.md", &["Run it in one minute", "Be an agent"]);
    }
    follow(&mut shell, path, &[]);
}

/// Runs the server of several processes, whose guide has scripts and what they print.
fn run_split(path: &str, heading: &str) {
    let missing =
        ["initdb", "redis-server"].iter().any(|tool| Command::new(tool).arg("--version").output().is_err());
    if split() || !on_sqlite() || missing {
        eprintln!("SKIPPED: it starts PostgreSQL and Redis of its own, once");
        return;
    }
    let guide = Guide::read(path);
    let blocks: Vec<_> = guide.blocks.iter().filter(|block| block.heading == heading).collect();
    let mut shell = GuideShell::start_without_root();
    for (n, block) in blocks.iter().enumerate().filter(|(_, block)| block.language == "sh") {
        let output = blocks.get(n + 1).filter(|next| next.language == "text");
        shell.run(&block.script(output.copied()), path);
    }
    assert!(blocks.len() > 8, "{path} has its scripts below {heading}");
}

/// Runs the blocks below some headings, or all of them.
fn follow(shell: &mut GuideShell, path: &str, headings: &[&str]) {
    let guide = Guide::read(path);
    let mut steps_run = 0;
    for (block, steps) in guide.consoles() {
        let wanted = headings.is_empty() || headings.contains(&block.heading.as_str());
        let not_run = NOT_RUN.iter().any(|(guide, heading, _)| (*guide, *heading) == (path, &block.heading));
        if wanted && !not_run {
            steps_run += steps.len();
            steps.iter().for_each(|step| shell.run(step, path));
        }
    }
    assert!(steps_run > 0, "{path} has commands");
}

#[test]
fn readme() {
    run("README.md");
}

#[test]
fn tasks() {
    run("docs/tasks.md");
}

#[test]
fn front_ends() {
    run("docs/front-ends.md");
}

#[test]
fn runs() {
    run("docs/runs.md");
}

#[test]
fn run_manager() {
    run("docs/run-manager.md");
}

#[test]
fn search() {
    run("docs/search.md");
}

#[test]
fn manifests() {
    run("docs/manifests.md");
}

#[test]
fn federation() {
    run("docs/federation.md");
}

#[test]
fn tool_calls() {
    run("docs/tool-calls.md");
}

#[test]
fn agents_and_consent() {
    run("docs/agents-and-consent.md");
}

#[test]
fn operations() {
    run_split("docs/operations.md", "Step by step, on one machine");
}

/// What a guide shows of a file can be copied: JSON is JSON, and settings are those of a server.
#[test]
fn files_in_guides_can_be_read() {
    let mut flaws = Vec::new();
    for path in guide::paths() {
        for block in Guide::read(&path).blocks {
            let text = block.lines.join("\n");
            let flaw = match block.language.as_str() {
                "json" => {
                    serde_json::from_str::<serde_json::Value>(&text).err().map(|error| error.to_string())
                }
                "toml" => toml::from_str::<toml::Table>(&text).err().map(|error| error.to_string()),
                _ => None,
            };
            flaws.extend(flaw.map(|flaw| format!("{path}:{}: {flaw}", block.line)));
        }
    }
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
}

/// The guides with commands, of which each has a test above.
const RUN: [&str; 10] = [
    "README.md",
    "docs/agents-and-consent.md",
    "docs/federation.md",
    "docs/front-ends.md",
    "docs/manifests.md",
    "docs/run-manager.md",
    "docs/runs.md",
    "docs/search.md",
    "docs/tasks.md",
    "docs/tool-calls.md",
];

#[test]
fn every_guide_with_commands_is_run() {
    let with_commands =
        guide::paths().into_iter().filter(|path| Guide::read(path).consoles().next().is_some());
    let not_run: Vec<String> = with_commands.filter(|path| !RUN.contains(&path.as_str())).collect();
    // What it has in consoles is for machines of their own; the rest is scripts.
    assert_eq!(not_run, ["docs/operations.md"]);
    for (path, heading, _) in NOT_RUN {
        let blocks = Guide::read(path).blocks;
        assert!(blocks.iter().any(|block| block.heading == heading), "{path} has no block below {heading}");
    }
}

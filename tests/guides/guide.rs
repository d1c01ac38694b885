//! The blocks of a guide: what is typed in each, and what it prints.

use std::fs;
use std::path::Path;

/// A guide as a reader sees it: its blocks of code, each below its heading.
pub struct Guide {
    pub blocks: Vec<GuideBlock>,
}

/// A block between two fences.
pub struct GuideBlock {
    /// The line of its first fence.
    pub line: usize,
    pub heading: String,
    /// What stands behind the first fence: `console`, `json`, `toml` …
    pub language: String,
    pub lines: Vec<String>,
}

/// A command that a reader types, and the lines below it.
#[derive(Debug, PartialEq)]
pub struct GuideStep {
    pub line: usize,
    pub command: String,
    pub output: Vec<String>,
}

impl Guide {
    pub fn read(path: &str) -> Guide {
        let text = fs::read_to_string(root().join(path)).expect("the guide can be read");
        Guide { blocks: blocks(&text) }
    }

    /// Its commands, block by block.
    pub fn consoles(&self) -> impl Iterator<Item = (&GuideBlock, Vec<GuideStep>)> {
        let consoles = self.blocks.iter().filter(|block| block.language == "console");
        consoles.map(|block| (block, block.steps()))
    }
}

/// The README and the guides.
pub fn paths() -> Vec<String> {
    let docs = fs::read_dir(root().join("docs")).expect("there are guides");
    let names = docs.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let guides = names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}"));
    let mut paths: Vec<String> = guides.chain(["README.md".to_owned()]).collect();
    paths.sort();
    paths
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate is inside the workspace")
}

fn blocks(text: &str) -> Vec<GuideBlock> {
    let (mut found, mut open, mut heading) = (Vec::new(), None::<(usize, GuideBlock)>, String::new());
    for (n, line) in text.lines().enumerate() {
        let bare = line.trim_start();
        match (open.take(), bare.strip_prefix("```")) {
            (Some((_, block)), Some("")) => found.push(block),
            (Some((indent, mut block)), _) => {
                block.lines.push(line.get(indent..).unwrap_or_default().to_owned());
                open = Some((indent, block));
            }
            (None, Some(language)) => {
                let block = GuideBlock {
                    line: n + 1,
                    heading: heading.clone(),
                    language: language.to_owned(),
                    lines: Vec::new(),
                };
                open = Some((line.len() - bare.len(), block));
            }
            (None, None) if line.starts_with('#') => {
                heading = line.trim_start_matches('#').trim().to_owned();
            }
            (None, None) => {}
        }
    }
    found
}

impl GuideBlock {
    /// The whole block as one command, which prints another block.
    pub fn script(&self, output: Option<&GuideBlock>) -> GuideStep {
        let output = output.map(|block| block.lines.clone()).unwrap_or_default();
        GuideStep { line: self.line + 1, command: self.lines.join("\n"), output }
    }

    fn steps(&self) -> Vec<GuideStep> {
        let mut steps: Vec<GuideStep> = Vec::new();
        // The word that ends the text which is typed below a command; `\` where its next line is its last one.
        let mut until: Option<String> = None;
        for (n, line) in self.lines.iter().enumerate() {
            if let (Some(word), Some(step)) = (&until, steps.last_mut()) {
                step.command.push('\n');
                step.command.push_str(line);
                until = match word.as_str() {
                    "\\" => continued(line),
                    word => (line != word).then(|| word.to_owned()),
                };
            } else if let Some(command) = line.strip_prefix("$ ") {
                until = heredoc_end(command).or_else(|| continued(command));
                let command = command.to_owned();
                steps.push(GuideStep { line: self.line + n + 1, command, output: Vec::new() });
            } else if let Some(step) = steps.last_mut() {
                step.output.push(line.clone());
            } else {
                panic!("line {}: a console begins with a command: {line}", self.line + n + 1);
            }
        }
        steps
    }
}

/// The word behind `<<`.
fn heredoc_end(command: &str) -> Option<String> {
    let (_, behind) = command.split_once("<<")?;
    Some(
        behind.trim_start_matches(['\'', '"', '-']).chars().take_while(char::is_ascii_alphanumeric).collect(),
    )
}

/// A command that goes on in the next line.
fn continued(line: &str) -> Option<String> {
    line.ends_with('\\').then(|| "\\".to_owned())
}

#[test]
fn a_console_is_read_as_commands_and_what_they_print() {
    let text = "# A\n\n1. One\n\n   ```console\n   $ cat > x <<END\n   $ not a command\n   END\n   $ ls \\\n   -a\n   x\n     y\n   ```\n";
    let blocks = blocks(text);
    let step = |line, command: &str, output: &[&str]| GuideStep {
        line,
        command: command.to_owned(),
        output: output.iter().map(|&line| line.to_owned()).collect(),
    };
    assert_eq!((blocks[0].heading.as_str(), blocks[0].language.as_str()), ("A", "console"));
    let wanted = [step(6, "cat > x <<END\n$ not a command\nEND", &[]), step(9, "ls \\\n-a", &["x", "  y"])];
    assert_eq!(blocks[0].steps(), wanted);
}

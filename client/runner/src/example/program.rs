//! The program itself: messages on standard input and standard output, until there are no more.

use super::turn::{ExampleSide, ExampleTurn, ExampleWorld, TurnWork};
use crate::back_end::process_jsonl::{FromProgram, ToProgram};
use std::io::{self, BufRead as _, Write as _};
use std::thread;
use tokio::sync::mpsc;

/// Messages that were read and not heard yet.
const MOST_UNHEARD: usize = 4;

/// Standard input and output.
struct StdioSide {
    from: mpsc::Receiver<io::Result<String>>,
}

impl StdioSide {
    /// Standard input is read by a thread of its own: it may be a pipe, a file or a terminal. The thread ends with the input, or with the
    /// program.
    fn open() -> StdioSide {
        let (read, from) = mpsc::channel(MOST_UNHEARD);
        thread::spawn(move || {
            let mut messages = io::stdin().lock().lines();
            messages.try_for_each(|json| read.blocking_send(json).map_err(drop))
        });
        StdioSide { from }
    }
}

impl ExampleSide for StdioSide {
    async fn hear(&mut self) -> io::Result<Option<ToProgram>> {
        let Some(json) = self.from.recv().await else { return Ok(None) };
        let wrong =
            |error| io::Error::new(io::ErrorKind::InvalidData, format!("a line is no message: {error}"));
        serde_json::from_str(&json?).map(Some).map_err(wrong)
    }

    /// Who does not read it makes the program wait.
    async fn say(&mut self, message: FromProgram) -> io::Result<()> {
        let mut json = serde_json::to_vec(&message)?;
        json.push(b'\n');
        let mut stdout = io::stdout().lock();
        stdout.write_all(&json)?;
        stdout.flush()
    }
}

/// Runs the example back end. `environment` is that of the program.
pub async fn run(environment: impl Iterator<Item = (String, String)>) -> io::Result<()> {
    let keys = environment.filter(|(name, _)| name.ends_with("KEY")).collect();
    run_on(StdioSide::open(), &ExampleWorld::new(keys)).await
}

/// One turn after the other. What comes between two turns is for one that has ended.
pub(super) async fn run_on(mut side: impl ExampleSide, world: &ExampleWorld) -> io::Result<()> {
    while let Some(message) = side.hear().await? {
        if let ToProgram::Turn { command_id, text, images, timezone, .. } = message {
            let turn = ExampleTurn { command_id, text, images, timezone };
            TurnWork::new(turn, world, &mut side).run().await?;
        }
    }
    Ok(())
}

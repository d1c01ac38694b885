//! What operators have to do with: the commands, the guide that describes them, and the containers.

mod cli;
mod compose;
mod guide;
mod upgrade;

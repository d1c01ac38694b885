//! Sessions: who sees and reads them, their runs, and their storage.

mod events;
mod listing;
mod reading;
mod runs;
mod storage;

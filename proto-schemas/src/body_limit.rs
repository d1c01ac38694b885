/// What the body of a method's route may have at most. It fits a frame between two processes.
pub const MOST_BODY_BYTES: usize = 4 << 20;

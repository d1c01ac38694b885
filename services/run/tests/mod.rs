//! The service alone, through its methods.

//! What must not be said: the values that a runner resolved for its back end, and how they are found in everything that it reports.

mod forms;
mod redactor;
mod stream;

pub(crate) use redactor::Redactor;
pub(crate) use stream::RedactedStream;

use std::fmt;

/// Secrets that a runner resolved, by the variables in which the back end gets them.
#[derive(Clone, Default)]
pub struct RunnerSecrets {
    variables: Vec<(String, String)>,
    others: Vec<String>,
}

impl RunnerSecrets {
    /// A value that the back end gets in this variable of its environment.
    pub fn add_variable(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.variables.push((name.into(), value.into()));
    }

    /// A value that the back end gets in another way, such as a file, or not at all. Of a JSON document every text in it is one, too.
    pub fn add(&mut self, value: impl Into<String>) {
        self.others.push(value.into());
    }

    /// The variables, for the environment of the back end.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Every value that must not be said.
    fn values(&self) -> impl Iterator<Item = &str> {
        self.others.iter().chain(self.variables.iter().map(|(_, value)| value)).map(String::as_str)
    }
}

impl fmt::Debug for RunnerSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunnerSecrets({} values)", self.variables.len() + self.others.len())
    }
}

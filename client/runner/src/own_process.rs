//! What a runner sets for its own process before it works. Everything that it starts inherits it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, setsid};
use std::fmt;
use std::io;
use std::str::FromStr;

/// What can be limited, by the names of the command line.
const RESOURCES: [(&str, Resource); 4] = [
    ("open-files", Resource::Nofile),
    ("file-bytes", Resource::Fsize),
    ("memory-bytes", Resource::As),
    ("core-bytes", Resource::Core),
];

/// Begins a session of processes, so that everything the runner starts can be found by it. The leader of a process group cannot.
pub fn begin_process_session() -> io::Result<()> {
    setsid()?;
    Ok(())
}

/// A limit of this process and of those that it starts, written as `NAME=N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimit {
    name: &'static str,
    resource: Resource,
    most: u64,
}

impl ResourceLimit {
    /// Sets the limit for good: it cannot be raised again. A limit that is lower already stays.
    pub fn set(self) -> io::Result<()> {
        Ok(setrlimit(self.resource, self.within(getrlimit(self.resource)))?)
    }

    /// Only root may raise a hard limit.
    fn within(self, present: Rlimit) -> Rlimit {
        let most = Some(self.most.min(present.maximum.unwrap_or(u64::MAX)));
        Rlimit { current: most, maximum: most }
    }
}

impl FromStr for ResourceLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<ResourceLimit, String> {
        let wrong = || {
            let names = RESOURCES.map(|(name, _)| name).join(", ");
            format!("{text:?} is not a limit: write NAME=N with one of the names {names}")
        };
        let (name, most) = text.split_once('=').ok_or_else(wrong)?;
        let known = RESOURCES.into_iter().find(|(known, _)| *known == name);
        let (name, resource) = known.ok_or_else(wrong)?;
        Ok(ResourceLimit { name, resource, most: most.parse().map_err(|_| wrong())? })
    }
}

impl fmt::Display for ResourceLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_name_and_a_number() {
        for (text, resource) in [
            ("open-files=1024", Resource::Nofile),
            ("file-bytes=1073741824", Resource::Fsize),
            ("memory-bytes=1", Resource::As),
            ("core-bytes=0", Resource::Core),
        ] {
            let limit: ResourceLimit = text.parse().unwrap();
            assert_eq!((limit.resource, limit.to_string().as_str()), (resource, text));
        }
        for text in ["", "open-files", "open-files=", "open-files=-1", "open-files=1k", "processes=1", "=1"] {
            let refused = text.parse::<ResourceLimit>().unwrap_err();
            assert!(refused.contains("open-files, file-bytes, memory-bytes, core-bytes"), "{refused}");
        }
    }

    #[test]
    fn a_limit_is_never_above_the_hard_one() {
        let limit: ResourceLimit = "open-files=100".parse().unwrap();
        for (current, maximum, most) in
            [(None, None, 100), (Some(50), Some(200), 100), (Some(50), Some(60), 60), (Some(0), Some(0), 0)]
        {
            let both = Rlimit { current: Some(most), maximum: Some(most) };
            assert_eq!(limit.within(Rlimit { current, maximum }), both);
        }
    }
}

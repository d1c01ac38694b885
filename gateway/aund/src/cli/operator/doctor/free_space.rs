//! Whether the store has space for new bytes, as a server with these settings would measure it.

use super::CheckOutcome::{self, Bad, Good, Note};
use gateway::config::Config;
use kernel::{DiskReading, DiskSpace};

pub(super) async fn check(config: &Config) -> CheckOutcome {
    let Ok(store) = config.store_url() else {
        return Good("not measured: store.url is invalid".into());
    };
    if store.folder(&config.data).is_some_and(|folder| !folder.exists()) {
        return Good("not measured: the data folder does not exist yet".into());
    }
    match config.store_limits().measure(&store, &config.data).await {
        Ok(Some(reading)) => outcome(&reading),
        Ok(None) => Good("free space of PostgreSQL is unknown; store.bytes would limit its schemas".into()),
        Err(error) => Note(format!("{error:#}"), "check that the store is reachable".into()),
    }
}

fn outcome(reading: &DiskReading) -> CheckOutcome {
    let (seen, remedy) = (reading.notice().unwrap_or_else(|| reading.amount()), reading.remedy().to_owned());
    match reading.space() {
        DiskSpace::Enough => Good(seen),
        DiskSpace::Low => Note(seen, remedy),
        DiskSpace::Full => Bad(seen, remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_space_is_noted_before_anything_is_refused() {
        let free = |mebibytes: u64| outcome(&DiskReading::of_disk(mebibytes << 20, 100 << 20));
        assert!(matches!(free(500), Good(seen) if seen.contains("500 MiB free")));
        assert!(
            matches!(free(150), Note(seen, todo) if seen.contains("soon") && todo.contains("store.free_bytes"))
        );
        assert!(matches!(free(50), Bad(seen, _) if seen.contains("are refused")));
    }
}

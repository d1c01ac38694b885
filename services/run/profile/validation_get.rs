//! `profile.validation_get`: read a validation.

use crate::RunService;
use crate::error::Error;
use crate::known_profiles::check_slug;
use kernel::{Caller, iso_ms};
use proto_schemas::requests::profile::{GotValidation, ValidationGet};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn profile_validation_get(
        self: Arc<Self>,
        _: Caller,
        ValidationGet { profile, validation_id }: ValidationGet,
    ) -> Result<GotValidation, Error> {
        check_slug(&profile)?;
        let row = self.store.validation(&validation_id).await?.filter(|row| row.profile == profile);
        let row = row.ok_or_else(|| Error::NotFound(format!("validation {validation_id}")))?;
        let row = self.settle_validation(row).await?;
        Ok(GotValidation {
            status: row.status(),
            validation_id: row.id,
            profile: row.profile,
            failure_kind: row.failure_kind,
            run_id: row.run_id,
            command_id: row.command_id,
            runner_job_id: row.job_id,
            created_at: iso_ms(row.created_at),
            ended_at: row.ended_at.map(iso_ms),
        })
    }
}

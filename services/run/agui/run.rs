//! `agui.run`: run a turn of a conversation.

use crate::RunService;
use crate::error::Error;
use ag_ui::InputRules;
use kernel::{Caller, RpcError};
use proto_schemas::requests::agui::{AcceptedTurn, Run};
use std::sync::Arc;

impl RunService {
    pub(crate) async fn agui_run(
        self: Arc<Self>,
        caller: Caller,
        params: Run,
    ) -> Result<AcceptedTurn, Error> {
        let text = params.input.get();
        let json = match text.starts_with('"') {
            // The body of a request, as it came.
            true => serde_json::from_str::<String>(text).map_err(RpcError::internal)?.into_bytes(),
            false => text.as_bytes().to_vec(),
        };
        self.accept_run(&caller, json, InputRules::Strict).await
    }
}

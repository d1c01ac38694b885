//! The operator's socket: a user who can access the data folder can call any method of the services in this process, one JSON
//! object a line; and of services in other processes what those of this process may call.

use crate::admission::{Admission, AdmittedCall, Call, CallSource};
use crate::health::{HealthSources, ProcessHealth};
use crate::telemetry::Metrics;
use crate::{frame, http::status};
use anyhow::{Context as _, bail};
use kernel::{Caller, RpcError, World, codes};
use proto_schemas::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::task::TaskTracker;

/// Of a call, and of the answer to one: a page of events may have more than a call.
const MAX_LINE_BYTES: u64 = 1 << 20;
const MAX_ANSWER_BYTES: u64 = 64 << 20;
const TIMEOUT: Duration = Duration::from_secs(30);

fn path(data: &Path) -> PathBuf {
    data.join("aund.sock")
}

/// Answers on `aund.sock` until the server stops. The data folder's lock is held, so an old socket there is not in use.
pub fn listen(asked: AskedProcess, tracker: &TaskTracker, data: &Path) -> anyhow::Result<()> {
    let path = path(data);
    remove(data);
    let listener = match UnixListener::bind(&path) {
        Ok(listener) => listener,
        // A path that is too long for a socket is no reason not to serve.
        Err(error) => {
            tracing::warn!("the operator's socket {} is not available: {error}", path.display());
            return Ok(());
        }
    };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    let (calls, asked) = (tracker.clone(), Arc::new(asked));
    tracker.spawn(async move {
        while let Some(Ok((stream, _))) = asked.world.stop.run_until_cancelled(listener.accept()).await {
            let asked = asked.clone();
            calls.spawn(async move {
                let connection = tokio::time::timeout(TIMEOUT, serve(&asked, stream));
                asked.world.stop.run_until_cancelled(connection).await
            });
        }
    });
    Ok(())
}

pub fn remove(data: &Path) {
    let _ = fs::remove_file(path(data));
}

/// The process whose socket it is.
pub struct AskedProcess {
    pub world: World,
    pub metrics: Arc<Metrics>,
    pub health: HealthSources,
    pub admission: Arc<Admission>,
    /// Those that run in it.
    pub services: Vec<&'static str>,
}

impl AskedProcess {
    /// The operator is the operator where this process answers by itself. Other processes know only which services this one
    /// runs: they answer what one of those may ask.
    fn caller(&self, method: &Method) -> Caller {
        let service = self.services.iter().find(|service| method.is_for_service(service));
        match service.filter(|_| self.world.mesh.is_elsewhere(method.namespace.name)) {
            Some(service) => Caller::service(service),
            None => Caller::Operator,
        }
    }
}

async fn serve(asked: &AskedProcess, stream: UnixStream) -> std::io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read.take(MAX_LINE_BYTES)).lines();
    while let Some(line) = lines.next_line().await? {
        let answer = answer(asked, &line).await + "\n";
        write.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}

async fn answer(asked: &AskedProcess, line: &str) -> String {
    #[derive(Deserialize)]
    struct AdminCall<'a> {
        method: String,
        #[serde(borrow, default)]
        params: Option<&'a RawValue>,
    }
    let call: AdminCall<'_> = match serde_json::from_str(line) {
        Ok(call) => call,
        Err(error) => return frame::failure(None, &RpcError::new(codes::PARSE_ERROR, error)),
    };
    // About the process and not about a service: answered also where no service runs.
    let about = match call.method.as_str() {
        "health" => Some(ProcessHealth::of(&asked.health).into_body()),
        "metrics" => Some(status::metrics_of(&asked.world, &asked.metrics).into()),
        _ => None,
    };
    if let Some(about) = about {
        return frame::success(RawValue::NULL, &about.to_string());
    }
    let named = Call::named(&CallSource::Operator, &call.method, call.params.map(Cow::Borrowed));
    let answered = match asked.admission.admit_at_once(named) {
        Ok(AdmittedCall { method, params, .. }) => {
            let params = params.map(Cow::into_owned);
            asked.world.mesh.call(asked.caller(method), method.name, params).await
        }
        Err(error) => Err(error),
    };
    match answered {
        Ok(result) => frame::success(RawValue::NULL, result.get()),
        Err(error) => frame::failure(None, &error),
    }
}

/// Whether a server answers on this data folder.
pub async fn is_running(data: &Path) -> bool {
    UnixStream::connect(path(data)).await.is_ok()
}

/// Asks a running server; `None` if none is running on this data folder.
pub async fn ask(data: &Path, method: &str, params: &Value) -> anyhow::Result<Option<Value>> {
    let Ok(stream) = UnixStream::connect(path(data)).await else { return Ok(None) };
    let (read, mut write) = stream.into_split();
    let line = json!({ "method": method, "params": params }).to_string() + "\n";
    write.write_all(line.as_bytes()).await?;
    let mut answer = String::new();
    let mut reader = BufReader::new(read.take(MAX_ANSWER_BYTES));
    tokio::time::timeout(TIMEOUT, reader.read_line(&mut answer))
        .await
        .context("the server does not answer")??;
    let answer: Value =
        serde_json::from_str(&answer).context("the server's answer has an unexpected form")?;
    match answer.get("error") {
        Some(error) => bail!("{}", error["message"].as_str().unwrap_or("refused")),
        None => Ok(Some(answer["result"].clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::{Answer, CallTerm, CallingAgent, OnAnswer, PendingAnswer, RemoteService};
    use serde_json::value::to_raw_value;
    use std::future::ready;

    /// Answers with its caller.
    struct CallerEcho;

    impl RemoteService for CallerEcho {
        fn call(&self, caller: Caller, _: &str, _: Option<&RawValue>, _: Duration) -> PendingAnswer {
            let shown = to_raw_value(&caller).map(Answer::from).map_err(RpcError::internal);
            Box::pin(ready(shown))
        }

        fn send(&self, _: &CallingAgent, _: &str, _: Option<&RawValue>, _: CallTerm, _: OnAnswer) {}

        fn is_up(&self) -> bool {
            true
        }
    }

    #[tokio::test]
    async fn to_other_processes_the_operator_is_a_service_of_this_one() {
        let world = World::local("aid.pub", Path::new("unused"), "sqlite:".parse().unwrap());
        world.mesh.add_remote("ca", Arc::new(CallerEcho));
        let (metrics, health) = (Arc::new(Metrics::new()), HealthSources::new(&world, true));
        let config = crate::config::Config::parse("", &crate::config::test_services()).unwrap();
        let admission = Arc::new(Admission::new(&config, &world));
        let asked = AskedProcess { world, metrics, health, admission, services: vec!["gateway"] };
        let said = async |method: &str| -> Value {
            let line = json!({ "method": method }).to_string();
            serde_json::from_str(&answer(&asked, &line).await).unwrap()
        };
        assert_eq!(said("ca.get_cert").await["result"], json!({ "service": "gateway" }));
        for method in ["ca.add_trust_root", "ca.issue_cert", "ca.revoke_cert"] {
            let refused = said(method).await;
            assert_eq!(refused["error"]["code"], codes::PERMISSION_DENIED.code, "{refused}");
            assert!(refused["error"]["message"].as_str().unwrap().contains("data folder"), "{refused}");
        }
    }
}

//! Runners that the server starts: what they do and may, what becomes of them when somebody dies, and that nothing is left of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::process::{payloads, said_in};
use crate::runs::client::{TestApi, TestBackEnd, TestManager, assert_contiguous, number};
use crate::runs::kill::{answers, kill_service};
use crate::support::agent::text;
use crate::support::{TestServer, program, split, until};

/// A server that starts runners, and finds itself again after a restart.
pub fn server(settings: &str) -> TestManager {
    TestManager::of(TestServer::on_known_ports(with_runners(settings)))
}

/// The same with two processes of the service, where the server is several and they can share a store.
pub(super) fn server_of_two(settings: &str) -> TestManager {
    TestManager::of(TestServer::on_known_ports_with_two("run", with_runners(settings)))
}

fn with_runners(settings: &str) -> impl FnOnce(u16) -> String {
    let tenants: String = (0..8).map(|number| format!("run.tenants.l{number} = {{}}\n")).collect();
    let common = format!(
        "limits.calls_per_second = 1000000\nlimits.http_per_second = 1000000\nlimits.connects_per_second = 100000\n{tenants}{settings}"
    );
    move |plain| match split() {
        // The service knows by itself only of a gateway in its own process.
        true => format!("{common}run.manager_url = \"http://gateway.agents.localhost:{plain}\"\n"),
        false => common,
    }
}

/// A profile whose back end is a script.
pub(super) fn scripted(name: &str, script: &str) -> String {
    let words = ["/bin/sh", "-c", script].map(|word| serde_json::to_string(word).expect("a text"));
    format!("run.profiles.{name} = {{ kind = \"process-jsonl\", program = [{}] }}\n", words.join(", "))
}

/// It says that it has begun, and ends its turn when it is let go on.
pub(super) const WAITS: &str = r#"read -r line; printf '{"type":"text","itemId":"1","delta":"begun"}\n'
    until [ -e go ]; do sleep 0.1; done
    printf '{"type":"message","itemId":"1","text":"begun and done"}\n{"type":"done","status":"completed"}\n'; read -r line"#;

/// Lets the back end of a run without a session go on that waits, wherever its runner is.
pub(super) fn go_on(runners: &Path, run: &str) {
    fs::write(runners.join("storage").join(run).join("workspace/go"), "").expect("its workspace is there");
}

/// A run whose runner the server starts.
pub(super) struct LocalRun {
    pub back_end: TestBackEnd,
    pub run: String,
    pub command: String,
    pub job: Value,
}

impl LocalRun {
    pub async fn begin(manager: &TestManager, prompt: &str) -> LocalRun {
        LocalRun::begin_with(manager, prompt, |_| {}).await
    }

    pub async fn begin_with(
        manager: &TestManager,
        prompt: &str,
        change: impl FnOnce(&mut Value),
    ) -> LocalRun {
        let back_end = manager.back_end_of("l0").await;
        let mut new = back_end.new_run();
        change(&mut new);
        let run = text(&back_end.api.ok("POST", "/runs", &new, 201).await["runId"]);
        let command = back_end.turn(&run, prompt).await;
        let body = json!({ "commandId": command, "idleTimeoutMs": 1000 });
        let job = back_end.api.ok("POST", &format!("/runs/{run}/runner-jobs"), &body, 201).await;
        LocalRun { back_end, run, command, job }
    }

    pub fn pid(&self) -> i64 {
        number(&self.job["pid"])
    }

    pub async fn ended(&self) -> Value {
        let ended = || async {
            let read = self.back_end.read_command(&self.run, &self.command).await;
            (!read["terminalStatus"].is_null()).then_some(read)
        };
        until("the command ends", ended).await
    }

    pub async fn reply(&self) -> String {
        let ended = self.ended().await;
        assert_eq!(ended["state"], "completed", "{ended}");
        text(&self.back_end.result(&self.run, &self.command).await["reply"])
    }

    pub async fn events(&self) -> Vec<Value> {
        self.back_end.api.events(&self.run).await
    }

    pub async fn said(&self, words: &str) {
        let said = || async { said_in(&self.events().await).contains(words).then_some(()) };
        until("it is said", said).await;
    }

    pub async fn job_in(&self, phase: &str) -> Value {
        let path = format!("/runs/{}/runner-jobs/{}", self.run, text(&self.job["runnerJobId"]));
        let read = || async {
            let job = self.back_end.api.get(&path).await;
            (job["phase"] == phase).then_some(job)
        };
        until(&format!("the job is {phase}"), read).await
    }

    /// Another runner, as soon as the server allows it.
    pub async fn replaced(&mut self) {
        let path = format!("/runs/{}/runner-jobs", self.run);
        let body = json!({ "commandId": self.command, "idleTimeoutMs": 1000 });
        let made = || async {
            let mut answer = self.back_end.api.call("POST", &path, &body).await;
            (answer.status == 201).then(|| answer.body["data"].take())
        };
        self.job = until("the lease is over", made).await;
    }

    pub async fn cancel(&self) {
        self.back_end.api.ok("POST", &format!("/runs/{}/cancel", self.run), &json!({}), 200).await;
    }
}

fn is_running(pid: i64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The processes that a job has started, itself among them.
fn processes_of(job: &Value) -> BTreeSet<i64> {
    let variable = format!("AGENTRUN_JOB_ID={}", text(&job["runnerJobId"]));
    let entries = fs::read_dir("/proc").expect("there are processes");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i64>().ok());
    let has = |pid: &i64| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        is_running(*pid) && environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
    };
    pids.filter(has).collect()
}

pub(super) async fn nothing_is_left(manager: &TestManager, job: &Value) {
    nothing_is_left_in(&runners(manager), job).await;
}

/// The same of a runner that another process of the service has started than the first one.
pub(super) async fn nothing_is_left_in(runners: &Path, job: &Value) {
    until("its processes have ended", || async { processes_of(job).is_empty().then_some(()) }).await;
    let folder = runners.join("jobs").join(text(&job["logRef"]));
    let is_removed = || ["home", "tmp"].iter().all(|name| !folder.join(name).exists());
    until("its home is removed", || async { is_removed().then_some(()) }).await;
    // One that was never started has no log.
    assert!(job["pid"].is_null() || folder.join("log").exists());
}

/// Where the service keeps what belongs to its runners.
pub(super) fn runners(manager: &TestManager) -> PathBuf {
    let own = manager.server.beside("split/run1/runners");
    let shared = manager.server.data().join("runners");
    if shared.exists() { shared } else { own }
}

/// The storage of a session.
pub(super) fn storage_of(manager: &TestManager, session: &str) -> PathBuf {
    let data = runners(manager).parent().expect("it is in the data folder").to_owned();
    data.join("sessions").join(format!("agentrun-v01-session-{session}"))
}

pub fn signal(pid: i64, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "SIG{name} can be sent");
}

/// All files below a folder that have a text in them.
pub(super) fn files_with(folder: &Path, words: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, words));
        } else if fs::read(&path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(words)) {
            found.push(path);
        }
    }
    found
}

#[tokio::test]
async fn the_server_starts_a_runner_that_works_and_leaves() {
    let manager = server("");
    let work = LocalRun::begin(&manager, "What time is it? /tool").await;
    let job = &work.job;
    assert_eq!((&job["launcher"], &job["namespace"]), (&json!("local"), &json!("local")), "{job}");
    assert_eq!(text(&job["jobName"]), format!("local-{}", text(&job["attemptId"])));
    assert!(job["runnerToken"].is_null() && job["manager"].is_null(), "{job}");
    assert!(work.pid() > 1 && ["none", "bwrap"].contains(&text(&job["isolation"]).as_str()), "{job}");
    assert_eq!(work.reply().await, "You said: What time is it? /tool");
    work.job_in("succeeded").await;
    nothing_is_left(&manager, job).await;

    // A run without a session has storage of its own, which ends with it.
    let storage = runners(&manager).join("storage").join(&work.run);
    assert!(storage.join("workspace").is_dir());
    let health = manager.server.get("/api/v1/health/readiness").await.json();
    assert_eq!(health["launcher"], json!({ "kind": "local", "ready": true }), "{health}");
}

#[tokio::test]
async fn a_run_that_ends_takes_its_runner_and_its_storage_with_it() {
    let manager = server("");
    let work = LocalRun::begin(&manager, "/slow").await;
    work.said("word2").await;
    let storage = runners(&manager).join("storage").join(&work.run);
    assert!(storage.is_dir());
    work.cancel().await;
    assert_eq!(work.ended().await["state"], "cancelled");
    nothing_is_left(&manager, &work.job).await;
    until("its storage is removed", || async { (!storage.exists()).then_some(()) }).await;
}

#[tokio::test]
async fn with_a_killed_runner_ends_its_lease_and_everything_it_has_started() {
    // One that stays in its session, and one that leaves it.
    let script = r#"sleep 1001 & setsid sleep 1002 & while read -r line; do echo '{"type":"text","itemId":"1","delta":"begun"}'; done"#;
    let manager = server(&scripted("forks", script));
    let mut work = LocalRun::begin_with(&manager, "go", |new| new["backendProfile"] = json!("forks")).await;
    work.said("begun").await;
    let first = work.job.clone();
    assert!(processes_of(&first).len() >= 4, "{:?}", processes_of(&first));
    signal(work.pid(), "KILL");
    nothing_is_left(&manager, &first).await;
    work.job_in("failed").await;
    // The lease would have lasted a minute; until waits no longer than that.
    work.replaced().await;
    assert_eq!(work.ended().await["failureKind"], "backend-failed", "a turn is never run twice");
    let phases: Vec<String> = payloads(&work.events().await, "runner_status")
        .into_iter()
        .map(|event| text(&event["phase"]))
        .collect();
    assert_eq!(phases, ["claim-recovered"]);
    work.cancel().await;
    nothing_is_left(&manager, &work.job).await;
}

#[tokio::test]
async fn a_runner_goes_on_while_its_server_is_away_and_is_found_again() {
    let mut manager = server("");
    let work = LocalRun::begin(&manager, "/slow").await;
    work.said("word2").await;
    if split() {
        kill_service(&manager.server).await;
    } else {
        manager.server.kill();
        assert!(is_running(work.pid()), "it outlives the server");
        manager.server.start_again();
        manager.dial_again();
    }
    answers(&work.back_end).await;
    let words: Vec<String> = (1..=50).map(|number| format!("word{number}")).collect();
    assert_eq!(work.reply().await, format!("{}\nYou said: /slow", words.join(" ")));
    assert_contiguous(&work.events().await);
    work.job_in("succeeded").await;
    nothing_is_left(&manager, &work.job).await;
}

#[tokio::test]
async fn a_runner_that_died_while_its_server_was_away_has_no_lease_after_the_start() {
    if split() {
        // There the service is started again at once.
        return;
    }
    let mut manager = server("");
    let mut work = LocalRun::begin(&manager, "/slow").await;
    work.said("word2").await;
    let first = work.job.clone();
    manager.server.kill();
    signal(work.pid(), "KILL");
    manager.server.start_again();
    manager.dial_again();
    nothing_is_left(&manager, &first).await;
    work.job_in("failed").await;
    work.replaced().await;
    assert_eq!(work.ended().await["failureKind"], "backend-failed");
}

/// As if the server had been killed between the end of a runner and the removal of its home.
#[tokio::test]
async fn what_a_killed_server_has_left_of_a_runner_is_removed_at_the_next_start() {
    let mut manager = server("");
    let work = LocalRun::begin(&manager, "go").await;
    work.reply().await;
    work.job_in("succeeded").await;
    nothing_is_left(&manager, &work.job).await;
    let home = runners(&manager).join("jobs").join(text(&work.job["logRef"])).join("home");
    if !split() {
        manager.server.kill();
    }
    fs::create_dir(&home).expect("it was removed");
    if split() {
        kill_service(&manager.server).await;
    } else {
        manager.server.start_again();
        manager.dial_again();
    }
    answers(&work.back_end).await;
    nothing_is_left(&manager, &work.job).await;
}

#[tokio::test]
async fn there_are_as_many_runners_as_the_settings_allow() {
    let manager = server("run.local_runners = 1\n");
    let first = LocalRun::begin(&manager, "/slow").await;
    let other = manager.back_end_of("l1").await;
    let run = other.run().await;
    let command = other.turn(&run, "go").await;
    let path = format!("/runs/{run}/runner-jobs");
    let body = json!({ "commandId": command, "idempotencyKey": "start", "idleTimeoutMs": 1000 });
    let refused = other.api.call("POST", &path, &body).await;
    assert_eq!((refused.status, refused.failure_kind()), (429, "rate-limited"), "{}", refused.body);
    assert!(refused.message().contains("run.local_runners"), "{}", refused.body);
    first.cancel().await;
    let made = || async {
        let answer = other.api.call("POST", &path, &body).await;
        (answer.status == 201).then_some(answer)
    };
    let made = until("there is a place", made).await;
    let again = other.api.call("POST", &path, &body).await;
    assert_eq!(again.status, 200, "{}", again.body);
    assert_eq!(
        again.body["data"]["runnerJobId"], made.body["data"]["runnerJobId"],
        "nothing else is started"
    );
    other.api.ok("POST", &format!("/runs/{run}/cancel"), &json!({}), 200).await;
}

#[tokio::test]
async fn a_back_end_has_its_own_home_and_none_of_the_servers_variables() {
    // Each line of what it finds is an event.
    let script = r#"read -r line; env | grep -v '"' | while read -r one; do printf '{"type":"text","itemId":"1","delta":"<%s>"}\n' "$one"; done
        printf '{"type":"text","itemId":"1","delta":"<files %s><core %s><pwd %s>"}\n' "$(ulimit -n)" "$(ulimit -c)" "$(pwd)"
        touch "$HOME/one" "$TMPDIR/two" three && printf '{"type":"text","itemId":"1","delta":"<wrote>"}\n'
        printf '{"type":"message","itemId":"1","text":"done"}\n{"type":"done","status":"completed"}\n'"#;
    let manager = server(&format!("{}run.runner.open_files = 256\n", scripted("looks", script)));
    let back_end = manager.back_end_of("l0").await;
    let mut new = back_end.new_run();
    new["backendProfile"] = json!("looks");
    let run = text(&back_end.api.ok("POST", "/runs", &new, 201).await["runId"]);
    let command = back_end.turn(&run, "go").await;
    let body = json!({ "commandId": command, "idleTimeoutMs": 1000, "env": { "LEVEL": "debug" } });
    let job = back_end.api.ok("POST", &format!("/runs/{run}/runner-jobs"), &body, 201).await;
    let work = LocalRun { back_end, run, command, job };
    work.reply().await;
    let said = said_in(&work.events().await);
    let folder = runners(&manager);
    let job_folder = folder.join("jobs").join(text(&work.job["logRef"]));
    for line in [
        "<LEVEL=debug>".to_owned(),
        format!("<HOME={}>", job_folder.join("home").display()),
        format!("<TMPDIR={}>", job_folder.join("tmp").display()),
        format!("<AGENTRUN_JOB_ID={}>", text(&work.job["runnerJobId"])),
        "<files 256>".to_owned(),
        "<core 0>".to_owned(),
        format!("<pwd {}>", folder.join("storage").join(&work.run).join("workspace").display()),
        "<wrote>".to_owned(),
    ] {
        assert!(said.contains(&line), "{line}: {said}");
    }
    let known = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LC_",
        "TZ",
        "TMPDIR",
        "AGENTRUN_JOB_ID",
        "LEVEL",
    ];
    let shell = ["PWD", "OLDPWD", "SHLVL", "_"];
    for line in said.split('<').filter_map(|line| line.split_once('=')) {
        let is_known = known.iter().chain(&shell).any(|name| line.0.starts_with(name));
        assert!(is_known, "{}: {said}", line.0);
    }
    nothing_is_left(&manager, &work.job).await;
}

#[tokio::test]
async fn where_bubblewrap_works_a_back_end_sees_no_data_and_no_other_process() {
    let script = r#"read -r line
        printf '{"type":"text","itemId":"1","delta":"<data %s><processes %s>"}\n' "$(ls "$DATA_FOLDER" 2>&1 | tr '\n' ' ' | tr -d '"')" "$(ls /proc | grep -c '^[0-9]')"
        touch /etc/aund-test 2>/dev/null && printf '{"type":"text","itemId":"1","delta":"<wrote>"}\n'
        printf '{"type":"message","itemId":"1","text":"done"}\n{"type":"done","status":"completed"}\n'"#;
    let manager = server(&scripted("looks", script));
    let back_end = manager.back_end_of("l0").await;
    let mut new = back_end.new_run();
    new["backendProfile"] = json!("looks");
    let run = text(&back_end.api.ok("POST", "/runs", &new, 201).await["runId"]);
    let command = back_end.turn(&run, "go").await;
    let data = manager.server.data().display().to_string();
    let body = json!({ "commandId": command, "idleTimeoutMs": 1000, "env": { "DATA_FOLDER": data } });
    let job = back_end.api.ok("POST", &format!("/runs/{run}/runner-jobs"), &body, 201).await;
    let works = Command::new("bwrap")
        .args(["--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--", "true"])
        .status()
        .is_ok_and(|status| status.success());
    assert_eq!(job["isolation"], if works { "bwrap" } else { "none" }, "{job}");
    let work = LocalRun { back_end, run, command, job };
    work.reply().await;
    let said = said_in(&work.events().await);
    if works && !split() {
        assert!(said.contains("<data runners >"), "only the way to its own folders: {said}");
        let processes = said.split_once("<processes ").and_then(|(_, rest)| rest.split_once('>'));
        let processes: usize = processes.expect("it is said").0.parse().expect("a number");
        assert!(processes < 10, "{said}");
        assert!(!said.contains("<wrote>"), "{said}");
    }
    nothing_is_left(&manager, &work.job).await;
}

#[tokio::test]
async fn a_credential_reaches_the_back_end_and_nothing_else() {
    const KEY: &str = "sk-not-for-anybody-0123456789";
    let manager = server(&format!(
        "run.profiles.keyed = {{ kind = \"process-jsonl\", program = [\"{}\", \"example-backend\"], credential_env = \"PROVIDER_API_KEY\" }}\n",
        program()
    ));
    let admin = manager.admin().await;
    let work = LocalRun::begin_of_profile(&manager, &admin, "keyed", KEY, "/secret /slow").await;
    // The key is said last, and then the runner may leave.
    work.said("word1").await;
    for pid in processes_of(&work.job) {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&words).contains(KEY), "no argument is secret");
    }
    let environment = fs::read(format!("/proc/{}/environ", work.pid())).expect("the runner runs");
    assert!(!String::from_utf8_lossy(&environment).contains(KEY));
    work.said("PROVIDER_API_KEY").await;
    assert!(files_with(&runners(&manager), KEY).is_empty(), "{:?}", files_with(&runners(&manager), KEY));
    let said = said_in(&work.events().await);
    assert!(said.contains("[redacted]") && !said.contains(KEY), "{said}");
    work.cancel().await;
    nothing_is_left(&manager, &work.job).await;
    assert!(files_with(&runners(&manager), KEY).is_empty());
    assert!(!manager.server.log().contains(KEY));
}

impl LocalRun {
    async fn begin_of_profile(
        manager: &TestManager,
        admin: &TestApi,
        profile: &str,
        key: &str,
        prompt: &str,
    ) -> LocalRun {
        let path = format!("/provider-profiles/{profile}/credential");
        admin.ok("PUT", &path, &json!({ "apiKey": key }), 200).await;
        LocalRun::begin_with(manager, prompt, |new| new["backendProfile"] = json!(profile)).await
    }
}

#[tokio::test]
async fn a_runner_that_cannot_be_started_says_why() {
    let manager = server("run.workspaces.site = { path = \"/nowhere-at-all\" }\n");
    let folder = manager.server.beside("workspace");
    fs::create_dir_all(&folder).expect("a folder can be made");
    let back_end = manager.back_end_of("l0").await;
    let mut new = back_end.new_run();
    new["workspaceRef"] = json!({ "root": "site" });
    let refused = back_end.api.call("POST", "/runs", &new).await;
    assert_eq!(refused.status, 400, "{}", refused.body);

    // What stands in the place of its folders.
    let work = LocalRun::begin(&manager, "go").await;
    work.reply().await;
    nothing_is_left(&manager, &work.job).await;
    let jobs = runners(&manager).join("jobs");
    fs::remove_dir_all(&jobs).expect("it can be removed");
    fs::write(&jobs, "a file").expect("a file can be written");
    let command = back_end.turn(&work.run, "again").await;
    let path = format!("/runs/{}/runner-jobs", work.run);
    let body = json!({ "commandId": command });
    let begun = || async {
        let mut answer = back_end.api.call("POST", &path, &body).await;
        (answer.status == 201).then(|| answer.body["data"].take())
    };
    let job = until("the runner before has left", begun).await;
    assert_eq!((&job["phase"], &job["pid"]), (&json!("failed"), &Value::Null), "{job}");
    let events = work.events().await;
    let statuses = payloads(&events, "runner_status");
    let last = statuses.last().expect("it is in the log");
    assert_eq!(last["phase"], "launch-failed", "{last}");
    assert!(text(&last["message"]).contains("its folders could not be made"), "{last}");
}

#[tokio::test]
async fn a_launcher_that_is_not_there_is_refused() {
    let manager = TestManager::of(TestServer::with("run.tenants.l0 = {}\n").await);
    let back_end = manager.back_end_of("l0").await;
    let run = back_end.run().await;
    let command = back_end.turn(&run, "go").await;
    let path = format!("/runs/{run}/runner-jobs");
    let launcher = |kind: &str| json!({ "commandId": command, "launcher": kind, "idleTimeoutMs": 1000 });
    let refused = back_end.api.refused("POST", &path, &launcher("kubernetes"), (400, "schema-invalid")).await;
    assert!(text(&refused["message"]).contains("local or external") || split(), "{refused}");
    if split() {
        let refused = back_end.api.refused("POST", &path, &launcher("local"), (400, "schema-invalid")).await;
        assert!(refused.to_string().contains("run.manager_url"), "{refused}");
        let made = back_end.api.ok("POST", &path, &json!({ "commandId": command }), 201).await;
        assert_eq!(made["launcher"], "external", "without an URL nothing can be started");
    }
}

//! What a run may be created with: its policy is completed, and nothing of it exceeds what its tenant may do.

use super::fixed::RunFixed;
use crate::error::Error;
use crate::known_profiles::check_slug;
use crate::known_profiles::{NAMESPACE, is_of_tools, secret_name};
use crate::redact::redact_json;
use crate::settings::{MAX_TIMEOUT_MS, MIN_TIMEOUT_MS, Settings, TenantSettings};
use kernel::strict_json::{ObjectMembers, members};
use proto_schemas::requests::run::{
    Create, ExecutionPolicy, PolicyDraft, ProviderCredential, SecretRef, SecretScope, ToolCredential,
};
use serde_json::value::RawValue;

const DEFAULT_TIMEOUT_MS: i64 = 1_800_000;
/// The keys of a secret that a provider credential may name.
const PROVIDER_KEYS: [&str; 2] = ["auth.json", "config.toml"];
/// The tools that may have a credential.
const TOOLS: [&str; 2] = ["github", "unidesk-ssh"];
/// What each member that is stored as it came may have in bytes.
const LARGEST_REF: usize = 16 << 10;

/// Checks what the schema cannot, in the order in which the protocol answers. Whether the caller acts for the tenant was checked before;
/// whether the session is free, and whether a link leaves the workspace, is checked where that can be seen. `has_secret` says of a
/// profile whether the secret store has its credential.
pub(crate) fn check_run(
    settings: &Settings,
    draft: &Create,
    has_secret: impl Fn(&str) -> bool,
) -> Result<RunFixed, Error> {
    let workspace_ref = stored_ref("workspaceRef", &draft.workspace_ref, false)?;
    let trace_sink = stored_ref("traceSink", &draft.trace_sink, true)?;
    let bundle = draft.resource_bundle_ref.as_deref();
    let bundle = bundle.map(|bundle| stored_ref("resourceBundleRef", bundle, true)).transpose()?;
    let not_listed = || Error::Denied(format!("tenantId {} is not a tenant of this server", draft.tenant_id));
    let tenant = settings.tenants.get(&draft.tenant_id).ok_or_else(not_listed)?;

    check_slug(&draft.backend_profile)?;
    let policy = draft.execution_policy.clone().unwrap_or_default();
    let names_credential =
        policy.secret_scope.as_ref().is_some_and(|scope| scope.provider_credentials.is_some());
    let mut execution_policy = complete(tenant, &policy)?;
    execution_policy.secret_scope = complete_scope(
        settings,
        &draft.backend_profile,
        policy.secret_scope.unwrap_or_default(),
        has_secret,
    )?;
    check_workspace(settings, &draft.tenant_id, &draft.workspace_ref)?;

    Ok(RunFixed {
        project_id: draft.project_id.clone(),
        workspace_ref,
        provider_id: draft.provider_id.clone(),
        backend_profile: draft.backend_profile.clone(),
        execution_policy,
        trace_sink: Some(trace_sink).filter(|sink| !is_null(sink)),
        session_ref: draft.session_ref.clone(),
        resource_bundle_ref: bundle.filter(|bundle| !is_null(bundle)),
        credential_is_own: !names_credential,
    })
}

/// It names a target, and grants nothing.
pub(crate) fn check_provider_id(provider: &str) -> Result<(), Error> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    match (1..=64).contains(&provider.len()) && provider.bytes().all(allowed) {
        true => Ok(()),
        false => Err(Error::Invalid(
            "providerId must have 1 to 64 characters of A-Z, a-z, 0-9, '_' and '-'".to_owned(),
        )),
    }
}

/// A member that is stored as it came, without secrets: references to them have their own place.
fn stored_ref(name: &str, value: &RawValue, nullable: bool) -> Result<Box<RawValue>, Error> {
    let is_object = value.get().starts_with('{');
    if !is_object && (!nullable || !is_null(value)) {
        let or_null = if nullable { " or null" } else { "" };
        return Err(Error::Invalid(format!("{name} must be an object{or_null}")));
    }
    if value.get().len() > LARGEST_REF {
        return Err(Error::TooLarge(format!("{name} must have at most {LARGEST_REF} bytes")));
    }
    let no_text = |_| Error::Invalid(format!("{name} must have Unicode text only"));
    redact_json(value).map(|redacted| redacted.into_owned()).map_err(no_text)
}

fn is_null(value: &RawValue) -> bool {
    value.get() == "null"
}

/// The policy with its defaults, which are never more than the tenant may have; the secrets are left to be completed.
fn complete(tenant: &TenantSettings, draft: &PolicyDraft) -> Result<ExecutionPolicy, Error> {
    let exceeds =
        |name: &str| Err(Error::Denied(format!("executionPolicy.{name} exceeds what the tenant may do")));
    if draft.sandbox.is_some_and(|sandbox| sandbox > tenant.sandbox) {
        return exceeds("sandbox");
    }
    if draft.timeout_ms.is_some_and(|timeout| !(MIN_TIMEOUT_MS..=MAX_TIMEOUT_MS).contains(&timeout)) {
        return Err(Error::Invalid(format!(
            "executionPolicy.timeoutMs must be {MIN_TIMEOUT_MS} to {MAX_TIMEOUT_MS}"
        )));
    }
    if draft.timeout_ms.is_some_and(|timeout| timeout > tenant.timeout_ms) {
        return exceeds("timeoutMs");
    }
    if draft.network.is_some_and(|network| network > tenant.network) {
        return exceeds("network");
    }
    Ok(ExecutionPolicy {
        sandbox: draft.sandbox.unwrap_or_default().min(tenant.sandbox),
        approval: draft.approval.unwrap_or_default(),
        timeout_ms: draft.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS).min(tenant.timeout_ms),
        network: draft.network.unwrap_or_default().min(tenant.network),
        secret_scope: SecretScope::default(),
    })
}

/// The secrets of a run: those of its tools as they were given, and the one credential of its profile.
fn complete_scope(
    settings: &Settings,
    profile: &str,
    scope: SecretScope,
    has_secret: impl Fn(&str) -> bool,
) -> Result<SecretScope, Error> {
    const NAME: &str = "executionPolicy.secretScope";
    if scope.allow_credential_echo == Some(true) {
        return Err(Error::Denied(format!("{NAME}.allowCredentialEcho must be false")));
    }
    let tools = scope.tool_credentials.unwrap_or_default();
    for tool in &tools {
        check_tool(tool)?;
    }
    let unavailable =
        || Error::SecretUnavailable(format!("backendProfile {profile} has no credential on this server"));
    let own = match (scope.provider_credentials, !settings.needs_credential(profile)) {
        (None, true) => Vec::new(),
        (None, false) if has_secret(profile) => vec![ProviderCredential {
            profile: profile.to_owned(),
            secret_ref: SecretRef { name: secret_name(profile), ..SecretRef::default() },
        }],
        (None, false) => return Err(unavailable()),
        (Some(given), true) if given.is_empty() => given,
        (Some(_), true) => {
            return Err(Error::Denied(format!(
                "{NAME}.providerCredentials must be empty: backendProfile {profile} has no credential"
            )));
        }
        (Some(given), false) => match &given[..] {
            [] => return Err(unavailable()),
            [one] => {
                check_provider(profile, one)?;
                given
            }
            _ => {
                return Err(Error::Denied(format!(
                    "{NAME}.providerCredentials must have exactly one credential"
                )));
            }
        },
    };
    Ok(SecretScope {
        allow_credential_echo: Some(false),
        provider_credentials: Some(own),
        tool_credentials: Some(tools),
    })
}

/// Only the form of the reference: the runner reads the secret, the manager never does.
fn check_provider(profile: &str, given: &ProviderCredential) -> Result<(), Error> {
    const NAME: &str = "executionPolicy.secretScope.providerCredentials[0]";
    let expected = secret_name(profile);
    let sentence = if given.profile != profile {
        format!("{NAME}.profile must be {profile}: a run never uses the credential of another profile")
    } else if given.secret_ref.name != expected {
        format!("{NAME}.secretRef.name must be {expected}")
    } else if !is_of_namespace(&given.secret_ref) {
        format!("{NAME}.secretRef.namespace must be {NAMESPACE}")
    } else if !given.secret_ref.keys.iter().flatten().all(|key| PROVIDER_KEYS.contains(&&**key)) {
        format!("{NAME}.secretRef.keys must be of {}", PROVIDER_KEYS.join(", "))
    } else {
        return Ok(());
    };
    Err(Error::Denied(sentence))
}

/// A tool has no credential of a provider, which would be another way to the credential of another profile.
fn check_tool(given: &ToolCredential) -> Result<(), Error> {
    const NAME: &str = "executionPolicy.secretScope.toolCredentials[]";
    let sentence = if !TOOLS.contains(&&*given.tool) {
        format!("{NAME}.tool must be of {}", TOOLS.join(", "))
    } else if !is_of_tools(&given.secret_ref.name) {
        format!("{NAME}.secretRef.name must begin with {NAMESPACE}-tool-")
    } else if !is_of_namespace(&given.secret_ref) {
        format!("{NAME}.secretRef.namespace must be {NAMESPACE}")
    } else {
        return Ok(());
    };
    Err(Error::Denied(sentence))
}

fn is_of_namespace(secret: &SecretRef) -> bool {
    secret.namespace.as_ref().is_none_or(|namespace| namespace == NAMESPACE)
}

/// The folder of a run: `root` is a name that the operator has configured, and `path` stays below it.
fn check_workspace(settings: &Settings, tenant: &str, workspace: &RawValue) -> Result<(), Error> {
    let unreadable = |_| Error::Invalid("workspaceRef must be an object".to_owned());
    let members = members(workspace.get()).map_err(unreadable)?;
    if let Some(path) = text(&members, "path")? {
        let leaves = path.split(['/', '\\']).any(|part| part == "..");
        let drive = path.as_bytes().get(1) == Some(&b':');
        if path.starts_with(['/', '\\']) || path.contains('\0') || leaves || drive {
            return Err(Error::Invalid(
                "workspaceRef.path must be a relative path below workspaceRef.root, without '..'".to_owned(),
            ));
        }
    }
    let Some(root) = text(&members, "root")? else { return Ok(()) };
    let allowed = settings.workspaces.get(&root).is_some_and(|workspace| {
        workspace.tenants.is_empty() || workspace.tenants.iter().any(|own| own == tenant)
    });
    match allowed {
        true => Ok(()),
        false => {
            Err(Error::Denied(format!("workspaceRef.root {root} is not a workspace of tenant {tenant}")))
        }
    }
}

fn text(members: &ObjectMembers<'_>, name: &str) -> Result<Option<String>, Error> {
    let Some(value) = members.get(name) else { return Ok(None) };
    serde_json::from_str(value.get())
        .map_err(|_| Error::Invalid(format!("workspaceRef.{name} must be a string")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::WorkspaceSettings;
    use proptest::prelude::*;
    use proto_schemas::requests::run::{NetworkAccess, Sandbox};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;
    use testing::cases;

    fn settings() -> Settings {
        let careful = TenantSettings {
            sandbox: Sandbox::ReadOnly,
            network: NetworkAccess::Disabled,
            timeout_ms: 60_000,
            ..TenantSettings::default()
        };
        let workspace = |tenants: &[&str]| WorkspaceSettings {
            path: "/srv/work".into(),
            tenants: tenants.iter().map(|&tenant| tenant.to_owned()).collect(),
        };
        Settings {
            tenants: BTreeMap::from([
                ("unidesk".to_owned(), TenantSettings::default()),
                ("careful".to_owned(), careful),
            ]),
            workspaces: BTreeMap::from([
                ("all".to_owned(), workspace(&[])),
                ("theirs".to_owned(), workspace(&["careful"])),
            ]),
            ..Settings::default()
        }
    }

    /// A request with these members changed.
    fn draft(changes: Value) -> Create {
        let mut all = json!({
            "tenantId": "unidesk", "projectId": "a/b", "workspaceRef": {}, "providerId": "local",
            "backendProfile": "codex", "traceSink": null,
        });
        all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        serde_json::from_str(&all.to_string()).unwrap()
    }

    /// The result, with `codex` and `example` having their secrets.
    fn check(changes: Value) -> Result<Value, (&'static str, String)> {
        let has_secret = |profile: &str| profile == "codex";
        match check_run(&settings(), &draft(changes), has_secret) {
            Ok(fixed) => Ok(serde_json::from_str(&serde_json::to_string(&fixed).unwrap()).unwrap()),
            Err(error) => {
                let sentence = error.to_string();
                Err((
                    match error {
                        Error::Invalid(_) => "invalid",
                        Error::Denied(_) => "denied",
                        Error::SecretUnavailable(_) => "secret-unavailable",
                        Error::TooLarge(_) => "too large",
                        _ => "other",
                    },
                    sentence,
                ))
            }
        }
    }

    fn policy(policy: Value) -> Value {
        json!({ "executionPolicy": policy })
    }

    fn scope(scope: Value) -> Value {
        policy(json!({ "secretScope": scope }))
    }

    fn provider(profile: &str, secret: Value) -> Value {
        json!({ "profile": profile, "secretRef": secret })
    }

    #[test]
    fn a_request_is_completed() {
        let fixed = check(
            json!({"workspaceRef": {"root": "all", "path": "a/./b", "branch": "main"}, "traceSink": {"type": "x"},
            "sessionRef": {"sessionId": "sess_1"}, "resourceBundleRef": null}),
        );
        let expected = json!({
            "projectId": "a/b", "workspaceRef": {"root": "all", "path": "a/./b", "branch": "main"}, "providerId": "local",
            "backendProfile": "codex",
            "executionPolicy": {
                "sandbox": "workspace-write", "approval": "never", "timeoutMs": 1_800_000, "network": "enabled",
                "secretScope": {
                    "allowCredentialEcho": false,
                    "providerCredentials": [provider("codex", json!({"name": "agentrun-v01-provider-codex"}))],
                    "toolCredentials": [],
                },
            },
            "traceSink": {"type": "x"}, "sessionRef": {"sessionId": "sess_1"}, "resourceBundleRef": null,
            "credentialIsOwn": true,
        });
        assert_eq!(fixed, Ok(expected));
        let careful = check(json!({"tenantId": "careful"})).unwrap()["executionPolicy"].clone();
        assert_eq!(
            (&careful["sandbox"], &careful["network"], &careful["timeoutMs"]),
            (&json!("read-only"), &json!("disabled"), &json!(60_000))
        );
        let read: RunFixed = serde_json::from_str(&check(json!({})).unwrap().to_string()).unwrap();
        assert!(read.trace_sink.is_none());
    }

    #[test]
    fn requests_that_are_accepted() {
        let name = "agentrun-v01-provider-codex";
        for changes in [
            json!({"backendProfile": "example"}),
            json!({"backendProfile": "example", "executionPolicy": {"secretScope": {"providerCredentials": []}}}),
            policy(json!({})),
            policy(
                json!({"timeoutMs": 7_200_000, "network": "enabled", "sandbox": "read-only", "approval": "untrusted"}),
            ),
            scope(
                json!({"providerCredentials": [provider("codex", json!({"name": name, "namespace": "agentrun-v01",
                "keys": ["auth.json", "config.toml"]}))]}),
            ),
            scope(
                json!({"toolCredentials": [{"tool": "github", "secretRef": {"name": "agentrun-v01-tool-gh", "keys": ["token"]}}]}),
            ),
            // The reference is right. Whether the secret exists where the runner is, the runner sees.
            json!({"backendProfile": "other", "executionPolicy": {"secretScope": {"providerCredentials":
                [provider("other", json!({"name": "agentrun-v01-provider-other"}))]}}}),
            json!({"workspaceRef": {"root": null, "path": "a..b/c"}}),
            json!({"tenantId": "careful", "workspaceRef": {"root": "theirs"}}),
        ] {
            assert!(check(changes.clone()).is_ok(), "{changes}: {:?}", check(changes.clone()));
        }
    }

    #[test]
    fn requests_that_are_refused() {
        let name = "agentrun-v01-provider-codex";
        let codex = |secret: Value| scope(json!({"providerCredentials": [provider("codex", secret)]}));
        let slug = "backendProfile must have 1 to 63";
        let table = [
            (json!({"workspaceRef": []}), "invalid", "workspaceRef must be an object"),
            (json!({"workspaceRef": null}), "invalid", "workspaceRef must be an object"),
            (json!({"traceSink": "x"}), "invalid", "traceSink must be an object or null"),
            (json!({"resourceBundleRef": 1}), "invalid", "resourceBundleRef must be an object or null"),
            (
                json!({"traceSink": {"a": "x".repeat(LARGEST_REF)}}),
                "too large",
                "traceSink must have at most",
            ),
            (json!({"tenantId": "nobody"}), "denied", "tenantId nobody"),
            (json!({"backendProfile": "Codex"}), "invalid", slug),
            (json!({"backendProfile": ""}), "invalid", slug),
            (json!({"backendProfile": "1a"}), "invalid", slug),
            (json!({"backendProfile": "a".repeat(64)}), "invalid", slug),
            (policy(json!({"sandbox": "danger-full-access"})), "denied", "executionPolicy.sandbox exceeds"),
            (policy(json!({"timeoutMs": 999})), "invalid", "executionPolicy.timeoutMs must be"),
            (policy(json!({"timeoutMs": 7_200_001})), "invalid", "executionPolicy.timeoutMs must be"),
            (
                json!({"tenantId": "careful", "executionPolicy": {"timeoutMs": 60_001}}),
                "denied",
                "executionPolicy.timeoutMs exceeds",
            ),
            (
                json!({"tenantId": "careful", "executionPolicy": {"network": "enabled"}}),
                "denied",
                "executionPolicy.network exceeds",
            ),
            (
                scope(json!({"allowCredentialEcho": true})),
                "denied",
                "executionPolicy.secretScope.allowCredentialEcho",
            ),
            (
                json!({"backendProfile": "deepseek"}),
                "secret-unavailable",
                "backendProfile deepseek has no credential",
            ),
            (json!({"backendProfile": "dynamic-1"}), "secret-unavailable", "backendProfile dynamic-1"),
            (scope(json!({"providerCredentials": []})), "secret-unavailable", "backendProfile codex"),
            (
                json!({"backendProfile": "example", "executionPolicy": {"secretScope": {"providerCredentials":
                    [provider("codex", json!({"name": name}))]}}}),
                "denied",
                "executionPolicy.secretScope.providerCredentials must be empty",
            ),
            (
                scope(json!({"providerCredentials": [provider("deepseek", json!({"name": name}))]})),
                "denied",
                "executionPolicy.secretScope.providerCredentials[0].profile must be codex",
            ),
            (
                scope(
                    json!({"providerCredentials": [provider("codex", json!({"name": name})), provider("codex", json!({"name": name}))]}),
                ),
                "denied",
                "executionPolicy.secretScope.providerCredentials must have exactly one",
            ),
            (
                codex(json!({"name": "agentrun-v01-provider-deepseek"})),
                "denied",
                "executionPolicy.secretScope.providerCredentials[0].secretRef.name",
            ),
            (
                codex(json!({"name": name, "namespace": "kube-system"})),
                "denied",
                "executionPolicy.secretScope.providerCredentials[0].secretRef.namespace",
            ),
            (
                codex(json!({"name": name, "keys": ["id_rsa"]})),
                "denied",
                "executionPolicy.secretScope.providerCredentials[0].secretRef.keys",
            ),
            (
                scope(json!({"toolCredentials": [{"tool": "aws", "secretRef": {"name": "x"}}]})),
                "denied",
                "executionPolicy.secretScope.toolCredentials[].tool",
            ),
            (
                scope(
                    json!({"toolCredentials": [{"tool": "github", "secretRef": {"name": "agentrun-v01-provider-deepseek"}}]}),
                ),
                "denied",
                "executionPolicy.secretScope.toolCredentials[].secretRef.name",
            ),
            (json!({"workspaceRef": {"root": 1}}), "invalid", "workspaceRef.root must be a string"),
            (json!({"workspaceRef": {"root": "nowhere"}}), "denied", "workspaceRef.root nowhere"),
            (json!({"workspaceRef": {"root": "theirs"}}), "denied", "workspaceRef.root theirs"),
        ];
        for (changes, kind, sentence) in table {
            let Err((found, said)) = check(changes.clone()) else { panic!("{changes} was accepted") };
            assert!(found == kind && said.starts_with(sentence), "{changes}: {found} {said}");
        }
        for path in ["/etc", "..", "a/../b", "a/..", "\\a", "a\\..\\b", "C:\\a", "a\0b"] {
            for root in [Value::Null, json!("all"), json!("nowhere")] {
                let Err((kind, _)) = check(json!({"workspaceRef": {"root": root, "path": path}})) else {
                    panic!("{path:?} was accepted")
                };
                assert_eq!(kind, "invalid", "{path:?}");
            }
        }
    }

    #[test]
    fn the_first_failure_is_answered() {
        let steps = [
            ("backendProfile", json!("A"), "invalid"),
            ("executionPolicy", json!({"sandbox": "danger-full-access"}), "denied"),
            ("backendProfile", json!("deepseek"), "secret-unavailable"),
            ("workspaceRef", json!({"path": "/"}), "invalid"),
        ];
        let mut all = json!({});
        for (member, value, kind) in steps.into_iter().rev() {
            all[member] = value;
            assert_eq!(check(all.clone()).unwrap_err().0, kind, "{all}");
        }
    }

    #[test]
    fn secrets_in_what_is_kept_and_shown_are_not_stored() {
        let fixed =
            check(json!({"workspaceRef": {"url": "https://u:p@h"}, "traceSink": {"authorization": "x"}}))
                .unwrap();
        assert_eq!(fixed["workspaceRef"]["url"], "https://[redacted]@h");
        assert_eq!(fixed["traceSink"]["authorization"], "[redacted]");
    }

    const SANDBOXES: [Sandbox; 3] = [Sandbox::ReadOnly, Sandbox::WorkspaceWrite, Sandbox::DangerFullAccess];
    const NETWORKS: [NetworkAccess; 2] = [NetworkAccess::Disabled, NetworkAccess::Enabled];

    proptest! {
        #![proptest_config(cases(512))]

        #[test]
        fn a_policy_is_never_more_than_its_tenant_may_have(
            ceiling in (0..3usize, 0..2usize, MIN_TIMEOUT_MS..=MAX_TIMEOUT_MS),
            sandbox in prop::option::of(0..3usize),
            network in prop::option::of(0..2usize),
            timeout_ms in prop::option::of(MIN_TIMEOUT_MS..=MAX_TIMEOUT_MS),
        ) {
            let tenant = TenantSettings {
                sandbox: SANDBOXES[ceiling.0],
                network: NETWORKS[ceiling.1],
                timeout_ms: ceiling.2,
                ..TenantSettings::default()
            };
            let draft = PolicyDraft {
                sandbox: sandbox.map(|at| SANDBOXES[at]),
                network: network.map(|at| NETWORKS[at]),
                timeout_ms,
                ..PolicyDraft::default()
            };
            let within = draft.sandbox.is_none_or(|sandbox| sandbox <= tenant.sandbox)
                && draft.network.is_none_or(|network| network <= tenant.network)
                && timeout_ms.is_none_or(|timeout| timeout <= tenant.timeout_ms);
            match complete(&tenant, &draft) {
                Ok(policy) => {
                    prop_assert!(within);
                    prop_assert!(policy.sandbox <= tenant.sandbox && policy.network <= tenant.network);
                    prop_assert!(policy.timeout_ms <= tenant.timeout_ms);
                    prop_assert!(draft.sandbox.is_none_or(|sandbox| sandbox == policy.sandbox));
                    prop_assert!(timeout_ms.is_none_or(|timeout| timeout == policy.timeout_ms));
                }
                Err(error) => prop_assert!(!within && matches!(error, Error::Denied(_))),
            }
        }
    }
}

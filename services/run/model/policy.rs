//! What a run may do: the policy of its caller, completed, and held against what its tenant may do.

use super::fixed::{RunFixed, workspace_of};
use crate::error::Error;
use crate::known_profiles::{EXAMPLE, NAMESPACE, secret_name};
use crate::profiles::check_slug;
use crate::settings::{MAX_TIMEOUT_MS, MIN_TIMEOUT_MS, Settings, TenantSettings};
use proto_schemas::requests::run::{
    Create, ExecutionPolicy, PolicyDraft, ProviderCredential, SecretRef, SecretScope,
};
use serde_json::value::RawValue;

const DEFAULT_TIMEOUT_MS: i64 = 1_800_000;
const SECRET_KEYS: [&str; 2] = ["auth.json", "config.toml"];
const TOOLS: [&str; 2] = ["github", "unidesk-ssh"];
/// What a member may have that is only kept and shown.
const MOST_KEPT: usize = 16 << 10;

/// Everything that is fixed about a new run. The members have their types already, and the tenant is one of the caller.
pub(crate) fn check_run(
    settings: &Settings,
    draft: &Create,
    has_secret: impl Fn(&str) -> bool,
) -> Result<RunFixed, Error> {
    let denied = || Error::Denied(format!("tenantId {} is not a tenant of this server", draft.tenant_id));
    let tenant = settings.tenants.get(&draft.tenant_id).ok_or_else(denied)?;
    for (member, value) in [
        ("workspaceRef", Some(&draft.workspace_ref)),
        ("traceSink", Some(&draft.trace_sink)),
        ("resourceBundleRef", draft.resource_bundle_ref.as_ref()),
    ] {
        if value.is_some_and(|value| value.get().len() > MOST_KEPT) {
            return Err(Error::TooLarge(format!("{member} must have at most {MOST_KEPT} bytes")));
        }
    }
    check_slug(&draft.backend_profile)?;
    let policy = draft.execution_policy.clone().unwrap_or_default();
    let policy = check_policy(tenant, &draft.backend_profile, policy, has_secret)?;
    check_workspace(settings, &draft.tenant_id, &draft.workspace_ref)?;
    Ok(RunFixed {
        project_id: draft.project_id.clone(),
        workspace_ref: draft.workspace_ref.clone(),
        provider_id: draft.provider_id.clone(),
        backend_profile: draft.backend_profile.clone(),
        execution_policy: policy,
        trace_sink: object_or_nothing("traceSink", Some(&draft.trace_sink))?,
        session_ref: draft.session_ref.clone(),
        resource_bundle_ref: object_or_nothing("resourceBundleRef", draft.resource_bundle_ref.as_ref())?,
    })
}

fn no_credential(profile: &str) -> Error {
    Error::SecretUnavailable(format!("profile {profile} has no matching provider credential"))
}

fn check_policy(
    tenant: &TenantSettings,
    profile: &str,
    draft: PolicyDraft,
    has_secret: impl Fn(&str) -> bool,
) -> Result<ExecutionPolicy, Error> {
    let sandbox = draft.sandbox.unwrap_or_else(|| tenant.sandbox.min(Default::default()));
    let network = draft.network.unwrap_or_else(|| tenant.network.min(Default::default()));
    let timeout_ms = draft.timeout_ms.unwrap_or_else(|| tenant.timeout_ms.min(DEFAULT_TIMEOUT_MS));
    if !(MIN_TIMEOUT_MS..=MAX_TIMEOUT_MS).contains(&timeout_ms) {
        return Err(Error::Invalid(format!(
            "executionPolicy.timeoutMs must be between {MIN_TIMEOUT_MS} and {MAX_TIMEOUT_MS}"
        )));
    }
    let widened = |member: &str| {
        Err(Error::Denied(format!("executionPolicy.{member} exceeds what the tenant may do")))
    };
    if sandbox > tenant.sandbox {
        return widened("sandbox");
    }
    if timeout_ms > tenant.timeout_ms {
        return widened("timeoutMs");
    }
    if network > tenant.network {
        return widened("network");
    }
    let scope = check_secrets(profile, draft.secret_scope.unwrap_or_default(), has_secret)?;
    Ok(ExecutionPolicy {
        sandbox,
        approval: draft.approval.unwrap_or_default(),
        timeout_ms,
        network,
        secret_scope: scope,
    })
}

/// Only by their references: no value is read here.
fn check_secrets(
    profile: &str,
    draft: SecretScope,
    has_secret: impl Fn(&str) -> bool,
) -> Result<SecretScope, Error> {
    let denied = |sentence: &str| {
        Err(Error::Denied(format!("executionPolicy.secretScope: {sentence}")))
    };
    if draft.allow_credential_echo == Some(true) {
        return denied("allowCredentialEcho is never accepted");
    }
    let tools = draft.tool_credentials.unwrap_or_default();
    if tools.iter().any(|tool| !TOOLS.contains(&tool.tool.as_str())) {
        return denied("a tool must be github or unidesk-ssh");
    }
    if tools.iter().any(|tool| !tool.secret_ref.name.starts_with(&format!("{NAMESPACE}-tool-"))) {
        return denied("a tool credential must be a secret for tools of this server");
    }
    let own = secret_name(profile);
    let given = draft.provider_credentials;
    for credential in given.iter().flatten() {
        let secret = &credential.secret_ref;
        let namespace = secret.namespace.as_ref().is_none_or(|namespace| namespace == NAMESPACE);
        if profile == EXAMPLE || credential.profile != profile || secret.name != own || !namespace {
            return denied("a provider credential must be that of backendProfile");
        }
        let keys = secret.keys.iter().flatten();
        if keys.into_iter().any(|key| !SECRET_KEYS.contains(&key.as_str())) {
            return denied("keys must be auth.json or config.toml");
        }
    }
    let credentials = match given {
        _ if profile == EXAMPLE => Vec::new(),
        Some(given) if given.len() > 1 => return denied("there must be exactly one provider credential"),
        Some(given) if given.is_empty() => return Err(no_credential(profile)),
        Some(given) => given,
        None if has_secret(profile) => vec![ProviderCredential {
            profile: profile.to_owned(),
            secret_ref: SecretRef {
                name: own,
                namespace: Some(NAMESPACE.to_owned()),
                keys: Some(vec!["auth.json".to_owned()]),
            },
        }],
        None => return Err(no_credential(profile)),
    };
    Ok(SecretScope {
        allow_credential_echo: Some(false),
        provider_credentials: Some(credentials),
        tool_credentials: Some(tools),
    })
}

/// A folder that the operator has given to the tenant, or none.
fn check_workspace(settings: &Settings, tenant: &str, workspace: &RawValue) -> Result<(), Error> {
    let Some((root, _)) = workspace_of(workspace)? else { return Ok(()) };
    let found = settings.workspaces.get(&root);
    match found.is_some_and(|found| found.tenants.is_empty() || found.tenants.iter().any(|name| name == tenant)) {
        true => Ok(()),
        false => Err(Error::Denied(format!("workspaceRef.root {root:?} is not a workspace of this tenant"))),
    }
}

fn object_or_nothing(member: &str, given: Option<&Box<RawValue>>) -> Result<Option<Box<RawValue>>, Error> {
    match given {
        None => Ok(None),
        Some(given) if given.get() == "null" => Ok(None),
        Some(given) if given.get().starts_with('{') => Ok(Some(given.clone())),
        Some(_) => Err(Error::Invalid(format!("{member} must be an object or null"))),
    }
}

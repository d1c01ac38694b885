//! Agents and relations over HTTP: the methods of `agent` and `h2a`, in the envelopes that clients of such services expect.
//!
//! A request becomes the parameters of a method and its answer becomes an envelope; what is checked, decided and stored is the
//! method's, so that both ways in do the same.

mod bearer;
mod envelope;
mod members;

use super::AgentService;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use envelope::{EnvelopeForm, refused, success, unauthorized};
use kernel::{Caller, Methods, RpcError, codes};
use members::{Members, params};
use proto_schemas::HttpRouteBody;
use serde_json::value::to_raw_value;
use std::collections::HashMap;
use std::sync::Arc;

/// How the answers of the methods that have a route are shown.
const FORMS: [(&str, EnvelopeForm); 12] = [
    ("agent.create", EnvelopeForm::Created("agent")),
    ("agent.get", EnvelopeForm::Versioned("agent")),
    ("agent.list", EnvelopeForm::List("agents")),
    ("agent.update", EnvelopeForm::Data("agent")),
    ("agent.delete", EnvelopeForm::Nothing),
    ("agent.rotate_token", EnvelopeForm::Whole),
    ("agent.deliveries", EnvelopeForm::List("deliveries")),
    ("h2a.grant", EnvelopeForm::CreatedOrFound("relation")),
    ("h2a.get", EnvelopeForm::Data("relation")),
    ("h2a.list", EnvelopeForm::List("relations")),
    ("h2a.update", EnvelopeForm::Data("relation")),
    ("h2a.revoke", EnvelopeForm::Nothing),
];

/// A request, as far as its parameters are concerned.
struct AgentRequest {
    caller: Caller,
    path: HashMap<String, String>,
    query: HashMap<String, String>,
    headers: HeaderMap,
    body: Bytes,
}

/// One route for each that the schemas of these methods declare.
pub(super) fn routes(agent: Arc<AgentService>, methods: Methods) -> Router {
    let forms = FORMS.into_iter().filter_map(|(name, form)| Some((proto_schemas::find(name)?, form)));
    let declared =
        forms.flat_map(|(method, form)| method.http.iter().map(move |route| (method, route, form)));
    declared.fold(Router::new(), |router, (method, route, form)| {
        let (agent, methods) = (agent.clone(), methods.clone());
        let handler = move |caller: Caller,
                            Path(path): Path<HashMap<String, String>>,
                            Query(query): Query<HashMap<String, String>>,
                            headers: HeaderMap,
                            body: Bytes| {
            let request = AgentRequest { caller, path, query, headers, body };
            async move {
                let answered = answer(&agent, &methods, method, route.query, route.body, request, form).await;
                answered.unwrap_or_else(|error| refused(&error))
            }
        };
        router.route(route.path, on(filter(route.method), handler))
    })
}

fn filter(verb: &str) -> MethodFilter {
    match verb {
        "POST" => MethodFilter::POST,
        "PATCH" => MethodFilter::PATCH,
        "PUT" => MethodFilter::PUT,
        "DELETE" => MethodFilter::DELETE,
        _ => MethodFilter::GET,
    }
}

async fn answer(
    agent: &AgentService,
    methods: &Methods,
    method: &'static proto_schemas::Method,
    names: &[&str],
    body: HttpRouteBody,
    request: AgentRequest,
    form: EnvelopeForm,
) -> Result<Response, RpcError> {
    let Some(caller) = agent.http_caller(request.caller, &request.headers).await? else {
        return Ok(unauthorized());
    };
    let body = matches!(body, HttpRouteBody::Params).then_some(&request.body);
    let members = match params(method, names, &request.path, &request.query, body) {
        Ok(members) => members,
        Err(sentence) => return Ok(envelope::invalid_json(&sentence)),
    };
    let members = to_raw_value(&members).map_err(RpcError::internal)?;
    let Some(answering) = methods.call(caller, method.name, Some(&members)) else {
        return Err(RpcError::plain(codes::METHOD_NOT_FOUND));
    };
    let result: Members = serde_json::from_str(answering.await?.result.get()).map_err(RpcError::internal)?;
    success(form, result, &request.headers)
}

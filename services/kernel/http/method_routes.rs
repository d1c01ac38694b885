//! Methods that are also routes: their schemas say where the parameters come from, and the same handlers answer.

use super::{json_text, with_header};
use crate::{Caller, Methods, RpcError, codes};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, Method as Verb, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, on};
use proto_schemas::{Access, HttpRoute, HttpRouteBody, Method};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The routes that the schemas of these methods declare, but for those that the service answers by itself.
pub fn method_routes(methods: &Methods) -> Router {
    let declared = methods.names().filter_map(proto_schemas::find);
    let all = declared.flat_map(|method| method.http.iter().map(move |route| (method, route)));
    all.filter(|(_, route)| !route.own_answer).fold(Router::new(), |router, (method, route)| {
        let methods = methods.clone();
        let handler =
            move |caller: Caller, path: Texts, query: QueryTexts, headers: HeaderMap, body: Bytes| {
                let received = ReceivedRequest { path: path.0, query: query.0, headers, body };
                async move { answer(&methods, method, route, caller, &received).await }
            };
        router.route(route.path, on(filter(route), handler))
    })
}

type Texts = Path<HashMap<String, String>>;
type QueryTexts = Query<HashMap<String, String>>;

/// What parameters may come from.
struct ReceivedRequest {
    path: HashMap<String, String>,
    query: HashMap<String, String>,
    headers: HeaderMap,
    body: Bytes,
}

/// `build.rs` of the schemas lets no other method through.
fn filter(route: &HttpRoute) -> MethodFilter {
    let verb = Verb::from_bytes(route.method.as_bytes()).ok();
    verb.and_then(|verb| MethodFilter::try_from(verb).ok()).unwrap_or(MethodFilter::GET)
}

async fn answer(
    methods: &Methods,
    method: &'static Method,
    route: &'static HttpRoute,
    caller: Caller,
    received: &ReceivedRequest,
) -> Response {
    // The route opens an internal method to whom its path is open; everything else is as over JSON-RPC.
    let caller = match method.access {
        Access::Internal => Caller::service(method.namespace.service),
        _ => caller,
    };
    let called = async {
        let params = to_raw_value(&received.params(method, route)?).map_err(RpcError::internal)?;
        match methods.call(caller, method.name, Some(&params)) {
            Some(answering) => answering.await,
            None => Err(RpcError::plain(codes::METHOD_NOT_FOUND)),
        }
    };
    match called.await {
        Ok(answer) => {
            let response = json_text(StatusCode::OK, answer.result.get());
            route
                .cache
                .into_iter()
                .fold(response, |response, cache| with_header(response, CACHE_CONTROL, cache))
        }
        Err(error) => error.into_response(),
    }
}

impl ReceivedRequest {
    /// The parameters, each from where the route says. What stands in the path wins: it is what was asked for.
    fn params(&self, method: &Method, route: &HttpRoute) -> Result<Map<String, Value>, RpcError> {
        let properties = &method.doc()["params"]["properties"];
        let mut params = Map::new();
        match route.body {
            HttpRouteBody::None => {}
            HttpRouteBody::Params => {
                params = serde_json::from_slice(&self.body)
                    .map_err(|error| invalid(format!("the body must be a JSON object: {error}")))?;
            }
            HttpRouteBody::Text(name) => {
                let text = str::from_utf8(&self.body).map_err(|_| invalid("the body must be UTF-8"))?;
                params.insert(name.to_owned(), text.into());
            }
        }
        let headers = route.headers.iter().filter_map(|(header, name)| {
            let value = self.headers.get(*header)?.to_str().ok()?;
            Some((*name, value))
        });
        let query = route.query.iter().filter_map(|name| Some((*name, self.query.get(*name)?.as_str())));
        let path = self.path.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        for (name, text) in headers.chain(query).chain(path) {
            params.insert(name.to_owned(), value_of(&properties[name], text));
        }
        Ok(params)
    }
}

/// A text of a URL as its schema types it. What does not fit stays a text, and the handler says what it needs.
fn value_of(schema: &Value, text: &str) -> Value {
    match schema["type"].as_str() {
        Some("integer" | "number" | "boolean") => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
        }
        _ => Value::from(text),
    }
}

fn invalid(sentence: impl std::fmt::Display) -> RpcError {
    RpcError::new(codes::INVALID_PARAMS, sentence)
}

//! The params of a call as a request to one of the routes of its method.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proto_schemas::{HttpRoute, HttpRouteBody};
use serde_json::{Map, Value};

use crate::support::TestServer;
use crate::support::http::TestResponse;

pub struct RouteCallRequest {
    verb: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: String,
    /// Where the param `aid` is nowhere else in the request, the host says it.
    host: Option<String>,
}

impl RouteCallRequest {
    pub fn new(route: &HttpRoute, params: &Value) -> RouteCallRequest {
        let mut left = params.as_object().cloned().unwrap_or_default();
        let mut path = route.path.to_owned();
        for name in left.keys().cloned().collect::<Vec<_>>() {
            let place = format!("{{{name}}}");
            if path.contains(&place) {
                path = path.replace(&place, &encoded(&take(&mut left, &name).unwrap_or_default()));
            }
        }
        let query: Vec<String> = route
            .query
            .iter()
            .filter_map(|name| Some(format!("{name}={}", encoded(&take(&mut left, name)?))))
            .collect();
        if !query.is_empty() {
            path = format!("{path}?{}", query.join("&"));
        }
        let headers =
            route.headers.iter().filter_map(|(header, name)| Some((*header, take(&mut left, name)?)));
        let headers = headers.collect();
        let body = match route.body {
            HttpRouteBody::None => String::new(),
            HttpRouteBody::Text(name) => take(&mut left, name).unwrap_or_default(),
            HttpRouteBody::Params => Value::Object(std::mem::take(&mut left)).to_string(),
        };
        RouteCallRequest { verb: route.method, path, headers, body, host: take(&mut left, "aid") }
    }

    pub async fn send(&self, server: &TestServer, token: &str) -> TestResponse {
        let mut request = server.http(self.verb, &self.path).bearer(token);
        if let Some(host) = &self.host {
            request = request.host(host);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(self.body.as_str()).send().await
    }
}

/// A param as it stands in a path, a query or a header.
fn take(params: &mut Map<String, Value>, name: &str) -> Option<String> {
    match params.remove(name)? {
        Value::String(text) => Some(text),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

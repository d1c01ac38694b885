//! Which pages of a browser may read an answer: those of any origin, where the path or the route is declared so. Nothing there depends on
//! who asks, but for what needs a token, and no browser sends one by itself: cookies are never read, and no page may send any.

use axum::response::Response;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, CONTENT_TYPE, HeaderName, HeaderValue,
};
use hyper::{Method, Request, StatusCode};

const ALL_METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
const HEADERS: [(HeaderName, &str); 3] = [
    (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    (ACCESS_CONTROL_ALLOW_HEADERS, "*, Authorization"),
    (
        ACCESS_CONTROL_EXPOSE_HEADERS,
        "ETag, Last-Modified, Retry-After, X-AUN-Cert-Consistency, X-AUN-Cert-Lifecycle-State, \
         X-AUN-Cert-Fingerprint, X-AUN-Cert-Observed-At",
    ),
];

/// What a page of another origin may do with a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PageAccess {
    None,
    /// Use all of its methods.
    All,
    /// Use these methods of HTTP.
    Methods(String),
}

impl PageAccess {
    /// By the methods of those routes that pages may use. A preflight asks for the method that comes after it.
    pub fn of_routes<B>(open: impl Iterator<Item = &'static str>, request: &Request<B>) -> PageAccess {
        let mut methods: Vec<&str> = open.collect();
        if let Some(at) = methods.iter().position(|method| *method == "GET") {
            methods.insert(at + 1, "HEAD");
        }
        let wanted = match *request.method() == Method::OPTIONS {
            true => request.headers().get(ACCESS_CONTROL_REQUEST_METHOD).and_then(|name| name.to_str().ok()),
            false => Some(request.method().as_str()),
        };
        match wanted.is_some_and(|wanted| methods.contains(&wanted)) {
            true => PageAccess::Methods(methods.join(", ") + ", OPTIONS"),
            false => PageAccess::None,
        }
    }
}

/// The headers that let a page read the answer.
pub(super) fn add_to(response: &mut Response, pages: &PageAccess) {
    let methods = match pages {
        PageAccess::None => return,
        PageAccess::All => HeaderValue::from_static(ALL_METHODS),
        PageAccess::Methods(methods) => match HeaderValue::from_str(methods) {
            Ok(methods) => methods,
            Err(_) => return,
        },
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
}

/// The answer to a browser that asks first.
pub(super) fn preflight() -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(method: Method, asks_for: Option<&str>) -> PageAccess {
        let request = Request::builder().method(method);
        let request = asks_for
            .into_iter()
            .fold(request, |request, name| request.header(ACCESS_CONTROL_REQUEST_METHOD, name));
        PageAccess::of_routes(["GET", "POST"].into_iter(), &request.body(()).unwrap())
    }

    #[test]
    fn a_page_may_use_the_routes_that_are_open_to_it_and_no_other_of_the_same_path() {
        let open = PageAccess::Methods("GET, HEAD, POST, OPTIONS".to_owned());
        for method in [Method::GET, Method::HEAD, Method::POST] {
            assert_eq!(pages(method.clone(), None), open, "{method}");
            assert_eq!(pages(Method::OPTIONS, Some(method.as_str())), open, "{method}");
        }
        for method in [Method::PATCH, Method::DELETE] {
            assert_eq!(pages(method.clone(), None), PageAccess::None, "{method}");
            assert_eq!(pages(Method::OPTIONS, Some(method.as_str())), PageAccess::None, "{method}");
        }
        assert_eq!(pages(Method::OPTIONS, None), PageAccess::None, "who asks for the methods of the path");
    }

    #[test]
    fn an_answer_that_pages_may_read_lets_them_send_no_cookies() {
        let mut response = Response::default();
        add_to(&mut response, &PageAccess::None);
        assert!(response.headers().is_empty());
        add_to(&mut response, &PageAccess::Methods("GET, OPTIONS".to_owned()));
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        assert_eq!(header("access-control-allow-origin"), Some("*"));
        assert_eq!(header("access-control-allow-methods"), Some("GET, OPTIONS"));
        assert_eq!(header("access-control-allow-credentials"), None);
    }
}

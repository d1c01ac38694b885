//! Which methods a path has: the routes that the schemas declare.

use matchit::Router;
use percent_encoding::percent_decode_str;
use proto_schemas::{HttpRoute, Method};

/// A method as one of its routes.
#[derive(Clone, Copy, Debug)]
pub struct MethodRoute {
    pub method: &'static Method,
    pub route: &'static HttpRoute,
}

/// All routes, by path.
#[derive(Default)]
pub struct RouteTable {
    paths: Router<usize>,
    routes: Vec<Vec<MethodRoute>>,
}

/// The routes of one path, and what stands in it.
pub struct FoundRoutes<'a> {
    pub routes: &'a [MethodRoute],
    /// None if a part of the path cannot be read.
    pub parts: Option<Vec<(String, String)>>,
}

impl RouteTable {
    pub fn new(methods: impl IntoIterator<Item = &'static Method>) -> RouteTable {
        let mut table = RouteTable::default();
        for method in methods {
            for route in method.http {
                table.add(MethodRoute { method, route });
            }
        }
        table
    }

    fn add(&mut self, added: MethodRoute) {
        let path = added.route.path;
        let same = self.routes.iter().position(|routes| routes.iter().any(|known| known.route.path == path));
        match same {
            Some(at) => self.routes[at].push(added),
            None => {
                let inserted = self.paths.insert(path, self.routes.len());
                assert!(inserted.is_ok(), "{path} cannot be told from another path: {inserted:?}");
                self.routes.push(vec![added]);
            }
        }
    }

    pub fn find(&self, path: &str) -> Option<FoundRoutes<'_>> {
        let found = self.paths.at(path).ok()?;
        let decoded = |text: &str| percent_decode_str(text).decode_utf8().map(|text| text.into_owned());
        let parts = found.params.iter().map(|(name, text)| Some((name.to_owned(), decoded(text).ok()?)));
        Some(FoundRoutes { routes: &self.routes[*found.value], parts: parts.collect() })
    }
}

impl FoundRoutes<'_> {
    /// The route of this HTTP method. `HEAD` is `GET` without the body.
    pub fn of(&self, verb: &str) -> Option<MethodRoute> {
        let wanted = if verb == "HEAD" { "GET" } else { verb };
        self.routes.iter().find(|known| known.route.method == wanted).copied()
    }

    /// Whether the router of the service answers the path, also HTTP methods that are not declared. One that only streams for some
    /// requests does not.
    pub fn has_own_answers(&self) -> bool {
        self.routes.iter().any(|known| known.route.own_answer)
    }

    /// What the `Allow` header lists.
    pub fn allowed(&self) -> String {
        let mut verbs: Vec<&str> = self.routes.iter().map(|known| known.route.method).collect();
        if let Some(at) = verbs.iter().position(|verb| *verb == "GET") {
            verbs.insert(at + 1, "HEAD");
        }
        verbs.push("OPTIONS");
        verbs.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_the_routes_of_its_methods() {
        let table = RouteTable::new(proto_schemas::methods());
        let found = table.find("/agents/a%20b").unwrap();
        assert_eq!(found.parts, Some(vec![("id".to_owned(), "a b".to_owned())]));
        assert_eq!(found.of("HEAD").unwrap().method.name, "agent.get");
        assert_eq!(found.of("PATCH").unwrap().method.name, "agent.update");
        assert!(found.of("PUT").is_none() && !found.has_own_answers());
        assert_eq!(found.allowed(), "DELETE, GET, HEAD, PATCH, OPTIONS");
        assert!(table.find("/agents/%ff").unwrap().parts.is_none());
        assert!(table.find("/agent.md").unwrap().has_own_answers());
        assert!(table.find("/nothing").is_none() && table.find("/agents/").is_none());
    }
}

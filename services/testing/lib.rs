//! A world for the services' own tests: real stores on either engine, no socket, and a clock that a test can move.

#![expect(clippy::unwrap_used, reason = "only tests use it, and what fails here fails the test")]

use axum::body::{Body, to_bytes};
use axum::http;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use certs::{Curve, Key};
use jsonschema::Validator;
use kernel::http::{
    CALLER, MethodRoute, RequestIds, RouteRequest, RouteTable, answer_of, caller_header, failure, refusal_of,
};
use kernel::{
    Aid, CallWay, Caller, CallingAgent, Clock, ConfiguredService, Db, DeviceId, Durability, Event,
    Generation, Ids, Mesh, Methods, RpcError, Service, ServiceRoutes, ServiceRow, ServiceSettings, SlotId,
    StoreUrl, TokenCaller, World, codes,
};
use parking_lot::Mutex;
use proptest::test_runner::{Config, FileFailurePersistence};
use proto_schemas::HttpEnvelope;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use sqlx::migrate::Migrator;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use tempfile::TempDir;
use tower::ServiceExt as _;

pub const ISSUER: &str = "aid.pub";
pub const DAY_MS: i64 = 86_400_000;

pub struct TestWorld {
    pub world: World,
    pub events: Arc<Mutex<Vec<Event>>>,
    /// Of every service.
    pub methods: Vec<Methods>,
    services: Vec<ConfiguredService>,
    folder: TempDir,
    _mesh: TestWorldMesh,
}

/// The route of a method that answers a request, if one does, and what stands in its path; or the refusal.
#[expect(clippy::type_complexity, reason = "only one caller reads it")]
fn method_route(
    request: &http::Request<Body>,
) -> Option<Result<(MethodRoute, Vec<(String, String)>), RpcError>> {
    let table = RouteTable::new(proto_schemas::methods());
    let found = table.find(request.uri().path())?;
    match found.of(request.method().as_str()) {
        Some(one) if one.route.own_answer => None,
        Some(one) => Some(Ok((one, found.parts?))),
        None if found.has_own_answers() => None,
        None => Some(Err(RpcError::plain(codes::METHOD_NOT_ALLOWED))),
    }
}

/// The envelope of a path of a service.
fn envelope_of(service: &str, path: &str) -> &'static HttpEnvelope {
    let paths = proto_schemas::namespaces_of(service).flat_map(|namespace| namespace.http);
    let covering = paths.filter(|prefix| prefix.covers(path)).max_by_key(|prefix| prefix.path.len());
    covering.map_or_else(proto_schemas::plain_envelope, |prefix| &**prefix.envelope)
}

/// The world that a test asks for: it is opened when it is awaited.
pub struct TestWorldPlan {
    issuer: String,
    services: Vec<ConfiguredService>,
}

impl TestWorld {
    /// With these services, which the tests of others need, in this order. The one under test is added with
    /// [`TestWorldPlan::and`]: a crate under test and the same crate as a dependency are two.
    pub fn with(services: &[&str]) -> TestWorldPlan {
        TestWorldPlan { issuer: ISSUER.to_owned(), services: Vec::new() }.and_with(services)
    }

    async fn open(plan: TestWorldPlan) -> TestWorld {
        let TestWorldPlan { issuer, services } = plan;
        let folder = tempfile::tempdir().unwrap();
        let mut world = World::local(&issuer, folder.path(), store());
        world.clock = Clock::manual(1_794_701_761_000);
        let events = Arc::<Mutex<Vec<Event>>>::default();
        let seen = events.clone();
        world.bus.listen(move |event| seen.lock().push(event.clone()));
        let mesh = TestWorldMesh(world.mesh.clone());
        let mut test = TestWorld { world, events, methods: Vec::new(), services, folder, _mesh: mesh };
        test.open_services().await;
        test
    }

    /// Opens everything again on the same data, as a restart does.
    pub async fn restart(self) -> TestWorld {
        let TestWorld { world, folder, events, services, .. } = self;
        world.stop.cancel();
        let mut again = World::local(&world.issuer, folder.path(), world.store.clone());
        again.clock = world.clock.clone();
        let mesh = TestWorldMesh(again.mesh.clone());
        let mut test = TestWorld { world: again, events, methods: Vec::new(), services, folder, _mesh: mesh };
        test.open_services().await;
        test
    }

    async fn open_services(&mut self) {
        self.methods = add_services(&self.world, &self.services).await;
    }

    pub async fn call(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        self.call_as(Caller::Unauthenticated(None), method, params).await
    }

    pub async fn inside(&self, method: &str, params: Value) -> Value {
        self.call_as(Caller::Operator, method, params).await.unwrap()
    }

    pub async fn call_as(&self, caller: Caller, method: &str, params: Value) -> Result<Value, RpcError> {
        let answer = self.world.mesh.call(caller, method, Some(to_raw_value(&params).unwrap())).await?;
        let answer = serde_json::from_str(answer.get()).unwrap();
        assert_as_its_schema_says(method, &answer);
        Ok(answer)
    }

    /// A request as the gateway answers it, once it has authenticated and admitted the caller: a route of a method is answered by it, and
    /// everything else goes to the router of the service.
    pub async fn http(&self, service: &str, caller: &Caller, request: http::request::Builder) -> TestAnswer {
        self.http_with(service, caller, request, "").await
    }

    pub async fn http_with(
        &self,
        service: &str,
        caller: &Caller,
        request: http::request::Builder,
        body: &str,
    ) -> TestAnswer {
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let envelope = envelope_of(service, request.uri().path());
        let head = request.method() == "HEAD";
        let answered = match method_route(&request) {
            Some(Ok((found, parts))) => {
                self.answer_method(caller, envelope, found, &parts, &request, body).await
            }
            Some(Err(refused)) => Err(refused),
            None => Ok(self.answer_router(service, caller, request).await),
        };
        let response = match answered {
            Ok(response) => match refusal_of(response).await {
                Ok(response) => response,
                Err((error, headers)) => {
                    let mut response = failure(envelope, &error, &RequestIds::default());
                    let others = headers.into_iter().filter_map(|(name, value)| Some((name?, value)));
                    let others = others.filter(|(name, _)| *name != CONTENT_TYPE && *name != CONTENT_LENGTH);
                    response.headers_mut().extend(others);
                    response
                }
            },
            Err(error) => failure(envelope, &error, &RequestIds::default()),
        };
        let (parts, body) = response.into_parts();
        let body = if head { Body::empty() } else { body };
        let body = to_bytes(body, usize::MAX).await.unwrap();
        TestAnswer { status: parts.status.as_u16(), headers: parts.headers, body: body.into() }
    }

    async fn answer_method(
        &self,
        caller: &Caller,
        envelope: &HttpEnvelope,
        found: MethodRoute,
        parts: &[(String, String)],
        request: &http::Request<Body>,
        body: &str,
    ) -> Result<http::Response<Body>, RpcError> {
        let (way, headers) = (CallWay::Route(found.route), request.headers());
        caller.kind().check(Some(found.method), way).map_err(|refused| refused.error(found.method.name))?;
        let query = request.uri().query().unwrap_or_default();
        let received = RouteRequest { path: parts, query, headers, body: body.as_bytes() };
        let params = received.params(found)?;
        let result = self.world.mesh.call(caller.clone(), found.method.name, Some(params)).await?;
        answer_of(envelope, found.route, &result, headers, &RequestIds::default())
    }

    async fn answer_router(
        &self,
        service: &str,
        caller: &Caller,
        mut request: http::Request<Body>,
    ) -> http::Response<Body> {
        let Some(ServiceRoutes::Local(router)) = self.world.mesh.routes(service) else { panic!("{service}") };
        request.headers_mut().insert(CALLER, caller_header(caller).unwrap());
        router.oneshot(request).await.unwrap()
    }

    pub async fn register(&self, name: &str) -> TestAgent {
        let (aid, key) = (format!("{name}.{}", self.world.issuer), Key::generate(Curve::P256));
        let request = json!({ "aid": aid, "public_key": spki(&key), "curve": "P-256" });
        let created = self.call("auth.create_aid", request).await.unwrap();
        TestAgent { aid, key, cert: created["cert"].as_str().unwrap().to_owned() }
    }

    /// The first half of a login: its request id and nonce.
    pub async fn login1(&self, agent: &TestAgent) -> Result<(String, String), RpcError> {
        let request = json!({ "aid": agent.aid, "cert": agent.cert, "client_nonce": "bm9uY2U=" });
        let answer = self.call("auth.aid_login1", request).await?;
        let text = |name: &str| answer[name].as_str().unwrap().to_owned();
        Ok((text("request_id"), text("nonce")))
    }

    pub async fn login2(&self, agent: &TestAgent, request_id: &str, nonce: &str) -> Result<Value, RpcError> {
        let signature = agent.sign(&format!("{nonce}:17.5"));
        let request = json!({
            "aid": agent.aid, "request_id": request_id, "nonce": nonce, "client_time": "17.5", "signature": signature,
        });
        self.call("auth.aid_login2", request).await
    }

    pub async fn log_in(&self, agent: &TestAgent) -> Value {
        let (request_id, nonce) = self.login1(agent).await.unwrap();
        self.login2(agent, &request_id, &nonce).await.unwrap()
    }

    /// Gives an agent another key; the one before logs in no more.
    pub async fn rekey(&self, agent: &mut TestAgent) {
        let (request_id, nonce) = self.login1(agent).await.unwrap();
        let next = Key::generate(Curve::P256);
        let signature = agent.sign(&format!("{nonce}{}", spki(&next)));
        let request = json!({
            "aid": agent.aid, "request_id": request_id, "nonce": nonce, "new_public_key": spki(&next),
            "signature": signature,
        });
        let rekeyed = self.call("auth.rekey", request).await.unwrap();
        *agent = TestAgent {
            aid: agent.aid.clone(),
            key: next,
            cert: rekeyed["cert"].as_str().unwrap().to_owned(),
        };
    }
}

/// Opens services in a world and adds them to it, without their tasks: a test does by itself what it wants to see done.
async fn add_services(world: &World, services: &[ConfiguredService]) -> Vec<Methods> {
    let mut methods = Vec::new();
    for service in services {
        let mut service = service.open(world).await.unwrap();
        service.tasks.clear();
        methods.push(service.methods.clone());
        world.add(service);
    }
    methods
}

impl TestWorldPlan {
    /// Adds its services to a world that the test has made.
    pub async fn add_to(self, world: &World) {
        add_services(world, &self.services).await;
    }

    /// With a service that is opened like this, after those before it.
    #[must_use]
    pub fn and<S, F>(self, open: F) -> TestWorldPlan
    where
        S: ServiceSettings,
        F: AsyncFn(&World, &S) -> anyhow::Result<Service> + Clone + Send + Sync + 'static,
    {
        self.and_row(&ServiceRow::new("under test", open))
    }

    /// With more of the services that the tests of others need.
    #[must_use]
    pub fn and_with(self, services: &[&str]) -> TestWorldPlan {
        services.iter().fold(self, |plan, name| match *name {
            "ca" => plan.and(service_ca::open),
            "auth" => plan.and(service_auth::open),
            "agent" => plan.and(service_agent::open),
            "message" => plan.and(service_message::open),
            other => panic!("{other} is no service that others need in their tests"),
        })
    }

    #[must_use]
    pub fn and_row(mut self, row: &ServiceRow) -> TestWorldPlan {
        self.services.push(row.configured(Default::default()).unwrap());
        self
    }

    #[must_use]
    pub fn of_issuer(self, issuer: &str) -> TestWorldPlan {
        TestWorldPlan { issuer: issuer.to_owned(), ..self }
    }
}

impl IntoFuture for TestWorldPlan {
    type Output = TestWorld;
    type IntoFuture = Pin<Box<dyn Future<Output = TestWorld>>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(TestWorld::open(self))
    }
}

/// The mesh knows the services and they know the mesh: it is taken apart at the end of a test, so that their connections to the
/// store end with it.
struct TestWorldMesh(Arc<Mesh>);

impl Drop for TestWorldMesh {
    fn drop(&mut self) {
        for namespace in proto_schemas::namespaces() {
            self.0.remove(namespace.name);
        }
    }
}

/// A property test with this many cases. One that fails is kept beside its test, in a file that ends with `.regressions`, and is
/// tried first from then on. By default proptest would make a folder next to the crate, where Cargo looks for services.
pub fn cases(cases: u32) -> Config {
    let beside = FileFailurePersistence::WithSource("regressions");
    Config { cases, failure_persistence: Some(Box::new(beside)), ..Config::default() }
}

pub struct TestAnswer {
    pub status: u16,
    headers: http::HeaderMap,
    pub body: Vec<u8>,
}

impl TestAnswer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), "application/json");
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub struct TestAgent {
    pub aid: String,
    pub key: Key,
    pub cert: String,
}

impl TestAgent {
    pub fn sign(&self, text: &str) -> String {
        STANDARD.encode(self.key.sign(text.as_bytes()))
    }

    /// The agent over HTTP.
    pub fn by_token(&self) -> Caller {
        let Caller::Agent(session) = self.caller() else { unreachable!() };
        Caller::Token(TokenCaller::access(CallingAgent { connection: 0, ..session }))
    }

    pub fn caller(&self) -> Caller {
        Caller::Agent(CallingAgent {
            aid: Aid::parse(&self.aid).unwrap(),
            device: DeviceId::default(),
            slot: SlotId::default(),
            connection: 1,
            address: [127, 0, 0, 1].into(),
            connected_at_ms: 0,
            network: None,
            generation: Generation::default(),
            trace: None,
        })
    }
}

/// The schema lists every member of the result.
fn assert_as_its_schema_says(method: &str, result: &Value) {
    static VALIDATORS: Mutex<BTreeMap<String, Arc<Validator>>> = Mutex::new(BTreeMap::new());
    let make = || {
        let doc = proto_schemas::find(method).unwrap().doc();
        Arc::new(jsonschema::validator_for(&proto_schemas::exact(&doc["result"])).unwrap())
    };
    let validator = VALIDATORS.lock().entry(method.to_owned()).or_insert_with(make).clone();
    if let Err(flaw) = validator.validate(result) {
        panic!("{method}: {flaw} in {result}");
    }
}

pub fn spki(key: &Key) -> String {
    STANDARD.encode(key.public().spki_der())
}

pub fn code<T: std::fmt::Debug>(result: Result<T, RpcError>) -> i32 {
    result.unwrap_err().code()
}

/// The store of a test.
pub fn store() -> StoreUrl {
    store_url().parse().unwrap()
}

/// The database of a service as it was before the migration of this version.
pub async fn db_before(world: &World, service: &str, migrations: &Migrator, version: i64) -> Db {
    let earlier = migrations.iter().filter(|migration| migration.version < version).cloned();
    let earlier = Migrator::with_migrations(earlier.collect());
    Db::open(&world.store, &world.data, service, &earlier, Durability::Full).await.unwrap()
}

/// `AUND_TEST_STORE=postgres` runs the same tests on PostgreSQL, each world in schemas of its own.
#[expect(clippy::disallowed_methods, reason = "tests are configured by their environment")]
pub fn store_url() -> String {
    let wanted = std::env::var("AUND_TEST_STORE").unwrap_or_default();
    if wanted != "postgres" {
        return "sqlite:".to_owned();
    }
    let url = std::env::var("AUND_TEST_POSTGRES_URL").expect("AUND_TEST_POSTGRES_URL names the database");
    let prefix = format!("r{}_", hex::encode(Ids::default().bytes::<6>()));
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}schema_prefix={prefix}")
}

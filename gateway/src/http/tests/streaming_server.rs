//! A gateway on a real socket, with the streaming service in its own process or behind the mesh.

use super::streaming_service::StreamingService;
use crate::admission::Admission;
use crate::config::{Config, MeshConfig};
use crate::gateway::GatewayState;
use crate::listen;
use crate::mesh::{self, MeshContext, server_name};
use axum::body::Body;
use certs::{Authority, Curve, Key};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use kernel::{Aid, Caller, Clock, Methods, Rpc, RpcError, ServiceRoutes, World, codes, http};
use proto_schemas::requests::auth::{VerifiedToken, VerifyToken};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

/// The name it has on the mesh; certificates are for services that exist.
pub(super) const SERVICE: &str = "agent";
const SETTINGS: &str =
    "limits.write_timeout_ms = 500\nlimits.body_silence_ms = 500\nlimits.call_timeout_ms = 3000";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamingShape {
    Whole,
    Split,
}

pub(super) struct StreamingServer {
    pub gateway: Arc<GatewayState>,
    pub service: Arc<StreamingService>,
    pub address: SocketAddr,
    pub mesh: Option<StreamingMesh>,
    shape: StreamingShape,
}

/// The other process, as far as a test needs it.
pub(super) struct StreamingMesh {
    pub url: String,
    folder: TempDir,
    authority: Authority,
    _context: Arc<MeshContext>,
}

impl StreamingServer {
    pub async fn open(shape: StreamingShape) -> StreamingServer {
        StreamingServer::with(shape, "").await
    }

    pub async fn with(shape: StreamingShape, settings: &str) -> StreamingServer {
        let settings = format!("{SETTINGS}\n{settings}");
        let config = Config::parse(&settings, &crate::config::test_services()).unwrap();
        let world = World::local(&config.issuer, Path::new("unused"), config.store_url().unwrap());
        world.mesh.add_local("auth", tokens());
        let service = StreamingService::new();
        let mesh = match shape {
            StreamingShape::Whole => {
                add_routes(&world, &service);
                None
            }
            StreamingShape::Split => {
                let mesh = StreamingMesh::open(&service).await;
                dial(&mesh.context("gateway", &world), &mesh.url).await;
                Some(mesh)
            }
        };
        let admission = Arc::new(Admission::new(&config, &world));
        let gateway = GatewayState::new(config, String::new(), &world, Arc::default(), admission, None);
        StreamingServer::listen(gateway, service, mesh, shape)
    }

    /// A gateway whose services are on the mesh already.
    pub async fn of(config: Config, world: &World, admission: Arc<Admission>) -> StreamingServer {
        world.mesh.add_local("auth", tokens());
        let gateway = GatewayState::new(config, String::new(), world, Arc::default(), admission, None);
        StreamingServer::listen(gateway, StreamingService::new(), None, StreamingShape::Whole)
    }

    fn listen(
        gateway: Arc<GatewayState>,
        service: Arc<StreamingService>,
        mesh: Option<StreamingMesh>,
        shape: StreamingShape,
    ) -> StreamingServer {
        let listener = listen::bind((Ipv4Addr::LOCALHOST, 0).into(), false).unwrap();
        let address = listener.local_addr().unwrap();
        gateway.tracker.spawn(listen::accept(gateway.clone(), listener, None));
        StreamingServer { gateway, service, address, mesh, shape }
    }

    pub fn shape(&self) -> StreamingShape {
        self.shape
    }

    /// Sends a request over a connection of its own, which closes with the response.
    pub async fn send(&self, request: Request<Body>) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        self.gateway.tracker.spawn(connection);
        sender.send_request(request).await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Response<Incoming> {
        self.send(Request::get(path).header("host", "x").body(Body::empty()).unwrap()).await
    }
}

impl StreamingMesh {
    /// A process with the service, which other processes reach over the mesh.
    async fn open(service: &Arc<StreamingService>) -> StreamingMesh {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::root("mesh.internal", "aund mesh", Clock::System.now_seconds());
        fs::write(folder.path().join("authority.crt"), authority.certificate().pem()).unwrap();
        let world = World::local("aid.pub", Path::new("unused"), "sqlite:".parse().unwrap());
        add_routes(&world, service);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("wss://{}", listener.local_addr().unwrap());
        let context = context(&folder, &authority, SERVICE, &world);
        let accepting = mesh::accept(context.clone(), listener, world.tracker.clone(), world.stop.clone());
        world.tracker.spawn(accepting);
        StreamingMesh { url, folder, authority, _context: context }
    }

    /// The mesh as a process sees it whose certificate is for this service.
    pub fn context(&self, service: &str, world: &World) -> Arc<MeshContext> {
        context(&self.folder, &self.authority, service, world)
    }
}

fn context(folder: &TempDir, authority: &Authority, service: &str, world: &World) -> Arc<MeshContext> {
    let (key, now) = (Key::generate(Curve::P256), Clock::System.now_seconds());
    let name = server_name(service);
    let certificate = authority
        .issue_mesh(&name, &key.public(), std::slice::from_ref(&name), now - 60, now + 3600)
        .unwrap();
    let file = |end: &str| folder.path().join(format!("{service}.{end}"));
    fs::write(file("crt"), certificate.pem()).unwrap();
    fs::write(file("key"), key.to_pem()).unwrap();
    let settings = MeshConfig {
        listen: None,
        cert: Some(file("crt")),
        key: Some(file("key")),
        authority: Some(folder.path().join("authority.crt")),
    };
    Arc::new(MeshContext {
        settings,
        mesh: world.mesh.clone(),
        metrics: Arc::default(),
        clock: Clock::System,
        tracker: world.tracker.clone(),
        stop: world.stop.clone(),
    })
}

/// Returns when the service is reached.
pub(super) async fn dial(context: &Arc<MeshContext>, url: &str) {
    let mut changes = context.mesh.changes();
    mesh::dial(context, SERVICE, &[url.to_owned()]);
    while !context.mesh.has(SERVICE) {
        changes.changed().await.unwrap();
    }
}

fn add_routes(world: &World, service: &Arc<StreamingService>) {
    let methods = Methods::default();
    world.mesh.add_local(SERVICE, methods.clone());
    let routes = http::routes_of(service.routes(), &world.disk);
    world.mesh.add_routes(SERVICE, ServiceRoutes::Local(routes));
}

/// Tokens that say whose they are.
struct PlainTokens;

impl PlainTokens {
    async fn verify(self: Arc<Self>, _: Caller, asked: VerifyToken) -> Result<VerifiedToken, RpcError> {
        match asked.token.strip_prefix("token-of-") {
            Some(aid) => Ok(VerifiedToken {
                aid: Aid::parse(aid).unwrap(),
                jti: String::new(),
                expires_at: 0,
                device_id: None,
                slot_id: None,
                tokens_revoked_at: None,
                network: None,
            }),
            None => Err(RpcError::plain(codes::TOKEN_INVALID)),
        }
    }
}

fn tokens() -> Methods {
    Rpc::new(Arc::new(PlainTokens)).method(PlainTokens::verify).into()
}

//! Sends one request at a time, to an address that was looked up once and checked.

use super::address_requests::{AddressRequest, AddressRequests};
use super::lookup::check_addresses;
use super::{OneShot, OutboundError, OutboundUrl};
use hyper::Request;
use hyper::header::CONTENT_TYPE;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// How long a connection may take, and TLS after it.
const CONNECT: Duration = Duration::from_secs(5);
/// How long everything may take together.
const TOTAL: Duration = Duration::from_secs(10);
/// What is read of an answer: its head. Nobody needs its body, so that is not read at all.
const ANSWER_BYTES: usize = 64 << 10;

pub type ResolvedAddresses = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Gives the addresses of a host and a port.
pub type Resolver = Arc<dyn Fn(String, u16) -> ResolvedAddresses + Send + Sync>;

/// The head of an answer, as far as it means something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboundAnswer {
    pub status: u16,
    /// The header `Retry-After`, as it was sent.
    pub retry_after: Option<String>,
}

pub struct OutboundClient {
    allow_private: bool,
    connect_within: Duration,
    answer_within: Duration,
    resolver: Resolver,
    requests: Arc<AddressRequests>,
    tls: TlsConnector,
}

impl OutboundClient {
    /// Servers are verified by the authorities of the public web.
    pub fn new(allow_private: bool, requests: Arc<AddressRequests>) -> Result<OutboundClient, rustls::Error> {
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(OutboundClient {
            allow_private,
            connect_within: CONNECT,
            answer_within: TOTAL,
            resolver: Arc::new(dns),
            requests,
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    /// Looks names up elsewhere than in the DNS.
    #[must_use]
    pub fn with_resolver(self, resolver: Resolver) -> OutboundClient {
        OutboundClient { resolver, ..self }
    }

    /// Posts JSON; gives the head of the answer. A redirect is an answer like any other, and is not followed.
    pub async fn post(
        &self,
        url: &OutboundUrl,
        headers: &[(&'static str, String)],
        json: String,
    ) -> Result<OutboundAnswer, OutboundError> {
        let request = request(url, headers, json)?;
        let late = |_| OutboundError::LateConnection(self.connect_within);
        let exchange = async {
            let addresses = self.addresses(url).await?;
            let (tcp, _counted) =
                timeout(self.connect_within, self.connect(&addresses)).await.map_err(late)??;
            if !url.tls {
                return send(tcp, request).await;
            }
            let name = ServerName::try_from(url.host.clone())
                .map_err(|_| OutboundError::Network(format!("{:?} is not a TLS server name", url.host)))?;
            let stream = timeout(self.connect_within, self.tls.connect(name, tcp))
                .await
                .map_err(late)?
                .map_err(|error| OutboundError::Network(format!("TLS: {error}")))?;
            send(stream, request).await
        };
        let done = timeout(self.answer_within, exchange).await;
        done.map_err(|_| OutboundError::Late(self.answer_within))?
    }

    /// One look for each request.
    async fn addresses(&self, url: &OutboundUrl) -> Result<Vec<SocketAddr>, OutboundError> {
        check_addresses((self.resolver)(url.host.clone(), url.port).await, self.allow_private)
    }

    /// The first address that answers, of those to which another request may go now.
    async fn connect(&self, addresses: &[SocketAddr]) -> Result<(TcpStream, AddressRequest), OutboundError> {
        let mut failed = None;
        for address in addresses {
            let Some(counted) = self.requests.begin(*address) else { continue };
            match TcpStream::connect(address).await {
                Ok(tcp) => return Ok((tcp, counted)),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed
            .map_or(OutboundError::Busy, |error| OutboundError::Network(format!("cannot connect: {error}"))))
    }
}

fn dns(host: String, port: u16) -> ResolvedAddresses {
    Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
}

fn request(
    url: &OutboundUrl,
    headers: &[(&'static str, String)],
    json: String,
) -> Result<OneShot, OutboundError> {
    let request = Request::post(url.path.as_str()).header(CONTENT_TYPE, "application/json");
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(*name, value.as_str()));
    let request = OneShot::new(request, &url.authority, json)
        .map_err(|error| OutboundError::Network(format!("it cannot be requested: {error}")))?;
    Ok(request.with_head_bytes(ANSWER_BYTES))
}

async fn send<S>(stream: S, request: OneShot) -> Result<OutboundAnswer, OutboundError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match request.send(stream, |_| None).await {
        Ok(answer) => Ok(OutboundAnswer { status: answer.status.as_u16(), retry_after: answer.retry_after }),
        Err(error) => Err(OutboundError::Network(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;

    fn test_client(allow_private: bool) -> Result<OutboundClient, rustls::Error> {
        OutboundClient::new(allow_private, AddressRequests::new(2))
    }

    /// Answers every connection with the same bytes; gives its address, and how many came.
    async fn server(tasks: &mut JoinSet<()>, answer: &'static str) -> (SocketAddr, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, came) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let counted = came.clone();
        tasks.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
                if answer.is_empty() {
                    std::future::pending::<()>().await;
                }
            }
        });
        (address, came)
    }

    /// Gives one answer after the other, and counts how often it was asked.
    fn resolver(answers: Vec<Vec<SocketAddr>>) -> (Resolver, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let resolver: Resolver = Arc::new(move |_: String, _: u16| -> ResolvedAddresses {
            let at = counted.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
            let found = answers[at].clone();
            Box::pin(async move { Ok(found) })
        });
        (resolver, asked)
    }

    fn url() -> OutboundUrl {
        OutboundUrl::parse("http://hooks.example/in", true).unwrap()
    }

    #[tokio::test]
    async fn the_status_is_given_and_a_redirect_is_not_followed() {
        let mut tasks = JoinSet::new();
        let (elsewhere, followed) = server(&mut tasks, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        let redirect =
            "HTTP/1.1 302 Found\r\nlocation: http://elsewhere.example/\r\ncontent-length: 0\r\n\r\n";
        let (address, came) = server(&mut tasks, redirect).await;
        let (resolver, asked) = resolver(vec![vec![address], vec![elsewhere]]);
        let client = test_client(true).unwrap().with_resolver(resolver);
        assert_eq!(
            client.post(&url(), &[("x-test", "1".to_owned())], "{}".to_owned()).await.unwrap().status,
            302
        );
        assert_eq!(asked.load(Ordering::SeqCst), 1, "one look for one request");
        assert_eq!((came.load(Ordering::SeqCst), followed.load(Ordering::SeqCst)), (1, 0));
        assert_eq!(
            client.post(&url(), &[], "{}".to_owned()).await.unwrap().status,
            200,
            "the next request looks again"
        );
    }

    #[tokio::test]
    async fn a_name_that_leads_to_a_private_address_is_not_connected_to() {
        let mut tasks = JoinSet::new();
        let (address, came) = server(&mut tasks, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        let public: SocketAddr = "8.8.8.8:9".parse().unwrap();
        for answers in [vec![address], vec![public, address]] {
            let (resolver, _) = resolver(vec![answers]);
            let client = test_client(false).unwrap().with_resolver(resolver);
            let url = OutboundUrl::parse("https://hooks.example/in", false).unwrap();
            let refused = client.post(&url, &[], "{}".to_owned()).await.unwrap_err();
            assert!(matches!(refused, OutboundError::Private(private) if private == address), "{refused}");
        }
        assert_eq!(came.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_server_that_never_answers_is_given_up() {
        let mut tasks = JoinSet::new();
        let (address, _) = server(&mut tasks, "").await;
        let (resolver, _) = resolver(vec![vec![address]]);
        let client = test_client(true).unwrap().with_resolver(resolver);
        let client = OutboundClient { answer_within: Duration::from_millis(20), ..client };
        let late = client.post(&url(), &[], "{}".to_owned()).await.unwrap_err();
        assert!(matches!(late, OutboundError::Late(_)), "{late}");
    }

    #[tokio::test]
    async fn a_request_to_an_address_that_has_enough_of_them_is_refused_at_once() {
        let mut tasks = JoinSet::new();
        let (hanging, came) = server(&mut tasks, "").await;
        let (other, _) = server(&mut tasks, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        let (resolver, _) = resolver(vec![vec![hanging], vec![hanging], vec![hanging], vec![hanging, other]]);
        let client = Arc::new(test_client(true).unwrap().with_resolver(resolver));
        for _ in 0..2 {
            let client = client.clone();
            tasks.spawn(async move {
                let _ = client.post(&url(), &[], "{}".to_owned()).await;
            });
        }
        while client.requests.begin(hanging).is_some() {
            tokio::task::yield_now().await;
        }
        let refused = client.post(&url(), &[], "{}".to_owned()).await.unwrap_err();
        assert!(matches!(refused, OutboundError::Busy), "{refused}");
        let answer = client.post(&url(), &[], "{}".to_owned()).await.unwrap();
        assert_eq!(answer.status, 200, "its name has another one");
        assert!(came.load(Ordering::SeqCst) <= 2);
    }

    #[tokio::test]
    async fn a_name_without_an_address_and_a_closed_port_are_errors() {
        let (nothing, _) = resolver(vec![vec![]]);
        let client = test_client(true).unwrap().with_resolver(nothing);
        assert!(matches!(client.post(&url(), &[], String::new()).await, Err(OutboundError::NoAddress)));
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let (resolver, _) = resolver(vec![vec![closed]]);
        let client = test_client(true).unwrap().with_resolver(resolver);
        assert!(matches!(client.post(&url(), &[], String::new()).await, Err(OutboundError::Network(_))));
    }
}

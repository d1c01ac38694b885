//! Clients behind a balancer: a PROXY header at the beginning of a connection says which address its client has.
//!
//! It is read from the networks of the setting `proxies` and from nobody else: a client that could write one could have any address. To
//! others it is what it is to any server without it, a request that is not valid.

use proxy_header::{Error, ParseConfig, Protocol, ProxiedAddress, ProxyHeader};
use std::io;
use std::net::IpAddr;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// Version 1 is a line of at most 107 bytes.
const LARGEST_V1: usize = 107;
/// What fits into the smallest TCP segment, as the protocol recommends. What balancers add to an address is far smaller.
const LARGEST: usize = 536;

/// What a connection begins with.
#[derive(Debug, PartialEq, Eq)]
enum ProxyBytes {
    /// Without a client the connection is one of the balancer itself, such as a health check.
    Header {
        bytes: usize,
        client: Option<IpAddr>,
    },
    Unfinished,
    Invalid,
}

/// Reads the header of a balancer's connection and nothing after it. Gives the address of the client, which is the balancer for its
/// own connections; none if what came is no header.
pub(super) async fn client_address(stream: &mut TcpStream, balancer: IpAddr) -> io::Result<Option<IpAddr>> {
    let (mut header, mut read) = ([0; LARGEST], 0);
    while read < LARGEST {
        // Only looked at first, because what follows a header belongs to TLS or HTTP.
        let seen = read + stream.peek(&mut header[read..]).await?;
        let (bytes, client) = match parse(&header[..seen]) {
            ProxyBytes::Header { bytes, client } => (bytes, Some(client.unwrap_or(balancer))),
            ProxyBytes::Unfinished if seen > read => (seen, None),
            ProxyBytes::Unfinished | ProxyBytes::Invalid => return Ok(None),
        };
        stream.read_exact(&mut header[read..bytes]).await?;
        if client.is_some() {
            return Ok(client);
        }
        read = bytes;
    }
    Ok(None)
}

fn parse(bytes: &[u8]) -> ProxyBytes {
    let config = ParseConfig { include_tlvs: false, ..ParseConfig::default() };
    let (header, length) = match ProxyHeader::parse(bytes, config) {
        Ok(parsed) => parsed,
        Err(Error::BufferTooShort) => return ProxyBytes::Unfinished,
        Err(_) => return ProxyBytes::Invalid,
    };
    if bytes.starts_with(b"P") && length > LARGEST_V1 {
        return ProxyBytes::Invalid;
    }
    match header.proxied_address() {
        None => ProxyBytes::Header { bytes: length, client: None },
        Some(ProxiedAddress { protocol: Protocol::Stream, source, .. }) => {
            ProxyBytes::Header { bytes: length, client: Some(source.ip().to_canonical()) }
        }
        Some(_) => ProxyBytes::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::SocketAddr;

    const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [V2, &[command, family], &length, rest].concat()
    }

    fn header(bytes: usize, client: Option<&str>) -> ProxyBytes {
        ProxyBytes::Header { bytes, client: client.map(|client| client.parse().unwrap()) }
    }

    #[test]
    fn both_versions_say_the_address_of_the_client() {
        let line = b"PROXY TCP4 192.0.2.7 10.0.0.1 4000 443\r\nGET / HTTP/1.1";
        assert_eq!(parse(line), header(40, Some("192.0.2.7")));
        let line = b"PROXY TCP6 2001:db8::7 2001:db8::1 4000 443\r\n";
        assert_eq!(parse(line), header(45, Some("2001:db8::7")));
        let addresses = [192, 0, 2, 7, 10, 0, 0, 1, 15, 160, 1, 187];
        assert_eq!(parse(&v2(0x21, 0x11, &addresses)), header(28, Some("192.0.2.7")));
        let with_tlv = [&addresses[..], &[4, 0, 2, 1, 2]].concat();
        assert_eq!(parse(&v2(0x21, 0x11, &with_tlv)), header(33, Some("192.0.2.7")));
        let mapped = [&[0; 10][..], &[0xff, 0xff, 192, 0, 2, 7], &[0; 16], &[15, 160, 1, 187]].concat();
        assert_eq!(parse(&v2(0x21, 0x21, &mapped)), header(52, Some("192.0.2.7")));
    }

    #[test]
    fn health_checks_are_connections_of_the_balancer() {
        assert_eq!(parse(b"PROXY UNKNOWN\r\n"), header(15, None));
        assert_eq!(parse(&v2(0x20, 0x00, &[])), header(16, None));
        let addresses = [192, 0, 2, 7, 10, 0, 0, 1, 15, 160, 1, 187];
        assert_eq!(parse(&v2(0x20, 0x11, &addresses)), header(28, None), "LOCAL, whatever it names");
    }

    #[test]
    fn what_is_no_header_of_a_tcp_connection_is_refused() {
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(100));
        let datagram = v2(0x21, 0x12, &[192, 0, 2, 7, 10, 0, 0, 1, 15, 160, 1, 187]);
        let short = [&v2(0x21, 0x11, &[192, 0, 2, 7])[..], b"GET / HTTP/1.1"].concat();
        let invalid: [&[u8]; 6] = [
            b"GET / HTTP/1.1\r\n",
            b"\x16\x03\x01",
            b"POST /rpc HTTP/1.1\r\n",
            long.as_bytes(),
            &datagram,
            &short,
        ];
        for bytes in invalid {
            assert_eq!(parse(bytes), ProxyBytes::Invalid, "{}", bytes.escape_ascii());
        }
        assert_eq!(
            parse(&v2(0x21, 0x00, &[0; LARGEST])[..LARGEST]),
            ProxyBytes::Unfinished,
            "and it is full"
        );
    }

    proptest! {
        #[test]
        fn every_part_of_a_header_is_unfinished_and_what_follows_it_is_not_read(
            source: SocketAddr,
            version_2: bool,
            after in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let destination = if source.is_ipv4() { "10.0.0.1:1" } else { "[2001:db8::1]:1" };
            let written = ProxyHeader::with_address(ProxiedAddress::stream(source, destination.parse().unwrap()));
            let mut bytes = [0; LARGEST];
            let length = match version_2 {
                true => written.encode_to_slice_v2(&mut bytes),
                false => written.encode_to_slice_v1(&mut bytes),
            }
            .unwrap();
            let client = Some(source.ip().to_canonical());
            let with_more = [&bytes[..length], &after].concat();
            prop_assert_eq!(parse(&with_more), ProxyBytes::Header { bytes: length, client });
            for part in 1..length {
                prop_assert_eq!(parse(&bytes[..part]), ProxyBytes::Unfinished);
            }
        }

        #[test]
        fn any_bytes_are_parsed_without_a_panic(start in 0..3_usize, bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let bytes = [[&b""[..], b"PROXY ", V2][start], &bytes].concat();
            if let ProxyBytes::Header { bytes: length, .. } = parse(&bytes) {
                prop_assert!(length <= bytes.len());
            }
        }
    }
}

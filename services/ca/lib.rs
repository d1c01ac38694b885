//! `ca.*`: the certificate authority of this domain. No client calls it; the other services, the gateway and the operator do.
//!
//! The issuer key is here and nowhere else. A certificate is signed first and answered only after its row is
//! durable, so what an agent holds is always something this service knows.

mod error;
mod issuing;
mod lookup;
mod pki;
mod revocation;
mod routes;
mod settings;
mod status;
mod store;
#[cfg(test)]
mod tests;
mod trust;

pub use settings::Settings;

use certs::{Authority, Certificate, PublicKey, Urls};
use error::Error;
use kernel::{
    AgentRemoval, Batch, Bus, Clock, CpuPool, Mesh, Methods, Rpc, Service, ServiceRow, Task, World,
};
use parking_lot::Mutex;
use pki::CaPki;
use proto_schemas::requests::ca::IssuedCertificate;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use store::{CertificateRow, ClaimOutcome, Store};

const DAY: i64 = 86_400;
/// Agent and service certificates are valid for two years, as is typical in the network.
const LEAF_SECONDS: i64 = 730 * DAY;
/// A client's clock may be a little behind ours, and clients tolerate no skew.
const BACKDATE_SECONDS: i64 = 300;
/// So long after its certificate expired its holder may renew it. Then the name has lapsed: what is kept for it is removed, and anybody
/// may register it.
const GRACE_SECONDS: i64 = 90 * DAY;
/// What may wait to be stored.
const QUEUE_BYTES: usize = 16 << 20;

/// The service as `aund` hands it to the gateway.
pub fn row() -> ServiceRow {
    ServiceRow::new("ca", open)
}

pub async fn open(world: &World, settings: &Settings) -> anyhow::Result<Service> {
    let pki = CaPki::open_or_create(world)?;
    let store = Arc::new(Store::new(world.db("ca", &sqlx::migrate!("./migrations")).await?));
    let committing = store.clone();
    let ca = Arc::new(CaService {
        claims: Batch::start(&world.tracker, world.stores.tally("ca"), QUEUE_BYTES, move |claims| {
            let store = committing.clone();
            async move { store.claim_all(claims).await }
        }),
        root_crl_url: format!("{}/pki/root.crl", world.pki_url),
        urls: urls(&world.pki_url),
        issuer: world.issuer.clone(),
        store,
        pki,
        crl: Mutex::new(None),
        crl_drops: AtomicU64::new(0),
        certificates_per_day: i64::from(settings.certificates_per_day),
        cpu: world.cpu.clone(),
        mesh: world.mesh.clone(),
        bus: world.bus.clone(),
        clock: world.clock.clone(),
    });
    let listening = Arc::downgrade(&ca);
    world.bus.listen(move |event| {
        if let Some(ca) = listening.upgrade() {
            ca.on_event(event);
        }
    });
    ca.refresh_trust_list().await?;
    ca.adopt_roots(&world.keys).await?;
    ca.warn_of_wide_roots().await?;
    let (renewing, stop) = (ca.clone(), world.stop.clone());
    let renewal = Task::new("trust_list_renewal", move || {
        let (ca, stop) = (renewing.clone(), stop.clone());
        async move {
            stop.run_until_cancelled(ca.renew_trust_list()).await;
        }
    });
    let (announcing, stop) = (ca.clone(), world.stop.clone());
    let announcement = Task::new("revocation_announcement", move || {
        let (ca, stop) = (announcing.clone(), stop.clone());
        async move {
            stop.run_until_cancelled(ca.announce_revocations()).await;
        }
    });
    let routes = routes::routes(ca.clone());
    let removal = AgentRemoval::nothing_kept(
        "certificates stay: revocation lists and old signatures need them, and a revoked name is never registered again",
    );
    let service = Service::new(&["ca"], rpc(ca), removal);
    Ok(service.with_routes(routes).with_task(renewal).with_task(announcement))
}

fn rpc(ca: Arc<CaService>) -> Methods {
    Rpc::new(ca)
        .method(CaService::issue_cert)
        .method(CaService::issue_service_cert)
        .method(CaService::renew_cert)
        .method(CaService::rekey_cert)
        .method(CaService::revoke_cert)
        .method(CaService::ended_agents)
        .method(CaService::get_cert)
        .method(CaService::get_cert_chain)
        .method(CaService::verify_chain)
        .method(CaService::ocsp_query)
        .method(CaService::get_crl)
        .method(CaService::get_trust_roots)
        .method(CaService::add_trust_root)
        .method(CaService::remove_trust_root)
        .method(CaService::pin_issuer)
        .method(CaService::unpin_issuer)
        .method(CaService::get_issuer_pins)
        .method(CaService::status)
        .into()
}

/// Where certificates say that their issuer, their status and the revocation list are found.
fn urls(base: &str) -> Urls {
    Urls {
        ca_issuers: format!("{base}/ca/cert"),
        ocsp: format!("{base}/pki/ocsp"),
        crl: format!("{base}/pki/issuer.crl"),
    }
}

struct CaService {
    issuer: String,
    store: Arc<Store>,
    claims: Batch<store::NewCertificate, ClaimOutcome>,
    pki: CaPki,
    urls: Urls,
    /// Where the list of trusted roots says that the revocation list of our root is found.
    root_crl_url: String,
    /// The list that was signed last, until it is an hour old or something was revoked.
    crl: Mutex<Option<revocation::get_crl::SignedCrl>>,
    /// How often a list was dropped because something was revoked.
    crl_drops: AtomicU64,
    /// How many certificates an agent gets in a day.
    certificates_per_day: i64,
    /// Where certificates that nobody knows are verified.
    cpu: Arc<CpuPool>,
    mesh: Arc<Mesh>,
    bus: Bus,
    clock: Clock,
}

impl CaService {
    fn authority(&self) -> &Authority {
        &self.pki.issuer
    }

    /// Signs an agent's certificate for the usual lifetime. It counts only once it is stored.
    fn sign_agent(&self, aid: &str, key: &PublicKey) -> Result<Certificate, Error> {
        let now = self.clock.now_seconds();
        Ok(self.authority().issue_agent(aid, key, &self.urls, now - BACKDATE_SECONDS, now + LEAF_SECONDS)?)
    }

    /// What every method that makes a certificate answers.
    fn issued(&self, row: &CertificateRow, existing: bool, replaced_sn: Option<String>) -> IssuedCertificate {
        let chain: Vec<String> = self.pki.chain().map(|certificate| certificate.pem().to_owned()).collect();
        IssuedCertificate {
            aid: row.aid.clone(),
            cert: row.pem.clone(),
            ca_cert: chain[0].clone(),
            cert_chain: chain,
            cert_sn: row.serial.clone(),
            fingerprint: row.fingerprint.clone(),
            curve: row.curve.clone(),
            replaced_sn,
            existing: Some(existing),
        }
    }

    /// Signs a new list of trusted roots when the last one is about to expire.
    async fn renew_trust_list(&self) {
        loop {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            if let Err(error) = self.refresh_trust_list().await {
                tracing::warn!("the list of trusted roots could not be renewed: {error:#}");
            }
        }
    }
}

//! Who signs whom: root, registry, issuer, and the leaves under it.
//!
//! The profiles are one table, each row a function below: subject, path length, key usage, addresses, validity.
//! A name is written once, by the subject's own certificate; everything below copies it byte for byte.

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, CrlDistributionPoint, CustomExtension, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyUsagePurpose, SanType, SerialNumber,
};
use ring::rand::{SecureRandom, SystemRandom};
use time::OffsetDateTime;

use crate::{CertError, Certificate, Curve, Key, PublicKey, encoding::der, identity::require_pair};

const YEAR: i64 = 365 * 24 * 3600;

/// Clients allow for no skew of their clock, so a new authority was always born a little earlier.
const BACKDATE: i64 = 3600;

/// id-pe-authorityInfoAccess.
const AUTHORITY_INFO_ACCESS: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 1, 1];
/// id-ad-ocsp and id-ad-caIssuers, encoded.
const OCSP: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x30\x01";
const CA_ISSUERS: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x30\x02";

/// A CA certificate with its key: signs certificates, revocation lists and OCSP answers.
pub struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, Key>,
}

/// The URLs in a leaf of its issuer, its status and the revocation list.
#[derive(Clone, Debug)]
pub struct Urls {
    /// The issuer's chain, for AIA.
    pub ca_issuers: String,
    /// The OCSP responder, for AIA.
    pub ocsp: String,
    /// The revocation list, for the CRL distribution point.
    pub crl: String,
}

impl Authority {
    /// A new root: signs itself, thirty years.
    pub fn root(name: &str, org: &str, now: i64) -> Authority {
        Authority::self_signed(Curve::P384, name, org, now)
    }

    /// The authority of a mesh. Only processes of one server see it, and each verifies it for each of its links, which on P-384 is
    /// most of what a link costs.
    pub fn mesh(name: &str, org: &str, now: i64) -> Authority {
        Authority::self_signed(Curve::P256, name, org, now)
    }

    fn self_signed(curve: Curve, name: &str, org: &str, now: i64) -> Authority {
        let usages =
            [KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let born = now - BACKDATE;
        let mut params =
            ca_profile(2, &usages, born, born + 30 * YEAR).expect("the clock is inside the calendar");
        params.distinguished_name = distinguished_name(name);
        params.distinguished_name.push(DnType::OrganizationName, org);

        let key = Key::generate(curve);
        let signed = params.self_signed(&key).expect("a root signs itself");
        Authority::new(Certificate::from_der(signed.der()).expect("a root just made can be read"), key)
            .expect("a root just made is an authority")
    }

    /// A registry below this root: ten years.
    pub fn registry(&self, name: &str, crl_url: &str, now: i64) -> Result<Authority, CertError> {
        let mut params = self.ca_below(1, &[KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign], now)?;
        params.distinguished_name = checked_name(name)?;
        params.crl_distribution_points = crl_distribution_point(crl_url)?;

        self.found(params)
    }

    /// The issuer CA of a domain below this registry: ten years, signs leaves and their OCSP answers.
    pub fn issuer(
        &self,
        domain: &str,
        ca_issuers_url: &str,
        crl_url: &str,
        now: i64,
    ) -> Result<Authority, CertError> {
        // Without digitalSignature it might sign certificates and lists, but no OCSP answer.
        let usages =
            [KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let mut params = self.ca_below(0, &usages, now)?;
        params.distinguished_name = checked_name(domain)?;
        params.crl_distribution_points = crl_distribution_point(crl_url)?;
        params.custom_extensions = vec![authority_info_access(&[(CA_ISSUERS, ca_issuers_url)])?];

        self.found(params)
    }

    /// Takes an authority up again. A key of another certificate, and a certificate of no CA, are refused.
    pub fn from_pem(cert: &str, key: &str) -> Result<Authority, CertError> {
        Authority::new(Certificate::from_pem(cert)?, Key::from_pem(key)?)
    }

    fn new(certificate: Certificate, key: Key) -> Result<Authority, CertError> {
        require_pair(&certificate, &key)?;
        let may_sign = certificate.constraints().key_usage.is_none_or(|usage| usage.key_cert_sign());
        if !certificate.is_ca() || !may_sign {
            return Err(CertError::NotACa(certificate.common_name().to_owned()));
        }
        let issuer = Issuer::from_ca_cert_der(&certificate.der().into(), key)?;
        Ok(Authority { certificate, issuer })
    }

    /// The certificate of the authority.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The private key as PKCS#8, to be kept where only the authority reads.
    pub fn key_pem(&self) -> String {
        self.key().to_pem()
    }

    /// The private key.
    pub(crate) fn key(&self) -> &Key {
        self.issuer.key()
    }

    pub(crate) fn signer(&self) -> &Issuer<'static, Key> {
        &self.issuer
    }

    /// The certificate of an agent: its name is the AID, exactly.
    pub fn issue_agent(
        &self,
        aid: &str,
        key: &PublicKey,
        urls: &Urls,
        not_before: i64,
        not_after: i64,
    ) -> Result<Certificate, CertError> {
        let params = self.leaf(aid, urls, not_before, not_after)?;
        self.sign(&params, key)
    }

    /// The certificate of a service; with names or addresses it can also serve TLS.
    #[expect(clippy::too_many_arguments, reason = "a certificate has this many independent fields")]
    pub fn issue_service(
        &self,
        name: &str,
        key: &PublicKey,
        dns_names: &[String],
        ips: &[IpAddr],
        urls: &Urls,
        not_before: i64,
        not_after: i64,
    ) -> Result<Certificate, CertError> {
        let mut params = self.leaf(name, urls, not_before, not_after)?;
        params.subject_alt_names = dns_sans(dns_names)?;
        params.subject_alt_names.extend(ips.iter().copied().map(SanType::IpAddress));
        if !params.subject_alt_names.is_empty() {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        }
        self.sign(&params, key)
    }

    /// The certificate of a process on the mesh: it answers and calls under the same names, and no client checks
    /// its status.
    pub fn issue_mesh(
        &self,
        name: &str,
        key: &PublicKey,
        dns_names: &[String],
        not_before: i64,
        not_after: i64,
    ) -> Result<Certificate, CertError> {
        let mut params = leaf_profile(not_before, self.clamp(not_after))?;
        params.distinguished_name = checked_name(name)?;
        params.subject_alt_names = dns_sans(dns_names)?;
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&params, key)
    }

    /// What all leaves share.
    fn leaf(
        &self,
        name: &str,
        urls: &Urls,
        not_before: i64,
        not_after: i64,
    ) -> Result<CertificateParams, CertError> {
        let mut params = leaf_profile(not_before, self.clamp(not_after))?;
        params.distinguished_name = checked_name(name)?;
        params.crl_distribution_points = crl_distribution_point(&urls.crl)?;
        params.custom_extensions =
            vec![authority_info_access(&[(OCSP, &urls.ocsp), (CA_ISSUERS, &urls.ca_issuers)])?];
        Ok(params)
    }

    /// What both kinds of CA below another share.
    fn ca_below(
        &self,
        path_length: u8,
        usages: &[KeyUsagePurpose],
        now: i64,
    ) -> Result<CertificateParams, CertError> {
        if self.certificate.constraints().path_length.is_some_and(|service| service <= u32::from(path_length))
        {
            return Err(CertError::PathLength(self.certificate.common_name().to_owned()));
        }
        let born = now - BACKDATE;
        ca_profile(path_length, usages, born, self.clamp(born + 10 * YEAR))
    }

    /// Nothing outlives its signer: a certificate that does would only stop working without saying so.
    fn clamp(&self, not_after: i64) -> i64 {
        not_after.min(self.certificate.not_after())
    }

    /// A CA of its own, with a new key, below this one.
    fn found(&self, params: CertificateParams) -> Result<Authority, CertError> {
        let key = Key::generate(Curve::P384);
        Authority::new(self.sign(&params, &key.public())?, key)
    }

    fn sign(&self, params: &CertificateParams, key: &PublicKey) -> Result<Certificate, CertError> {
        let certificate = Certificate::from_der(params.signed_by(key, &self.issuer)?.der())?;
        // The encoder writes our name anew. A CA from elsewhere may have one that it spells differently, and
        // "SDK name comparison is on full DNs": better no certificate than one that no client accepts.
        if certificate.issuer_name_der() != self.certificate.subject_name_der() {
            return Err(CertError::Name(self.certificate.common_name().to_owned()));
        }
        Ok(certificate)
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Authority({:?})", self.certificate)
    }
}

fn dns_sans(names: &[String]) -> Result<Vec<SanType>, CertError> {
    let san = |name: &String| {
        let ascii = name.as_str().try_into().map_err(|_| CertError::Name(name.clone()))?;
        Ok(SanType::DnsName(ascii))
    };
    names.iter().map(san).collect()
}

/// A self-signed certificate that is no CA: it signs documents, and is never part of a chain.
pub(crate) fn self_signed_leaf(
    name: &str,
    key: &Key,
    not_before: i64,
    not_after: i64,
) -> Result<Certificate, CertError> {
    let mut params = leaf_profile(not_before, not_after)?;
    params.distinguished_name = checked_name(name)?;
    Certificate::from_der(params.self_signed(key)?.der())
}

fn ca_profile(
    path_length: u8,
    usages: &[KeyUsagePurpose],
    not_before: i64,
    not_after: i64,
) -> Result<CertificateParams, CertError> {
    let mut params = profile(not_before, not_after)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(path_length));
    params.key_usages = usages.to_vec();
    Ok(params)
}

fn leaf_profile(not_before: i64, not_after: i64) -> Result<CertificateParams, CertError> {
    let mut params = profile(not_before, not_after)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

/// What every certificate has: a serial number, a validity, both key identifiers.
fn profile(not_before: i64, not_after: i64) -> Result<CertificateParams, CertError> {
    if not_after <= not_before {
        return Err(CertError::Validity(not_before, not_after));
    }
    let mut params = CertificateParams::default();
    params.serial_number = Some(random_serial());
    params.not_before = moment(not_before).ok_or(CertError::Validity(not_before, not_after))?;
    params.not_after = moment(not_after).ok_or(CertError::Validity(not_before, not_after))?;
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// 158 random bits below a fixed one: positive, never shorter than twenty bytes, so no client ever drops a digit.
fn random_serial() -> SerialNumber {
    let mut bytes = [0; 20];
    SystemRandom::new().fill(&mut bytes).expect("the system has randomness");
    bytes[0] = bytes[0] & 0x7f | 0x40;
    SerialNumber::from_slice(&bytes)
}

/// A time that a certificate can carry.
pub(crate) fn moment(seconds: i64) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp(seconds).ok().filter(|time| (1950..=9999).contains(&time.year()))
}

fn checked_name(name: &str) -> Result<DistinguishedName, CertError> {
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(CertError::Name(name.to_owned()));
    }
    Ok(distinguished_name(name))
}

fn distinguished_name(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

fn crl_distribution_point(url: &str) -> Result<Vec<CrlDistributionPoint>, CertError> {
    Ok(vec![CrlDistributionPoint { uris: vec![checked_url(url)?.to_owned()] }])
}

/// AIA: where the issuer's certificate, and the answer about this one, are found.
fn authority_info_access(places: &[(&[u8], &str)]) -> Result<CustomExtension, CertError> {
    let mut descriptions = Vec::new();
    for (method, url) in places {
        // uniformResourceIdentifier is [6] IA5String.
        let location = der::value(der::context(6), &[checked_url(url)?.as_bytes()]);
        descriptions.extend(der::value(der::SEQUENCE, &[&der::value(der::OID, &[method]), &location]));
    }
    let content = der::value(der::SEQUENCE, &[&descriptions]);
    Ok(CustomExtension::from_oid_content(AUTHORITY_INFO_ACCESS, content))
}

fn checked_url(url: &str) -> Result<&str, CertError> {
    let fits = !url.is_empty() && url.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { Ok(url) } else { Err(CertError::Url(url.to_owned())) }
}

#[cfg(test)]
mod tests;

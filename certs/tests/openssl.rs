//! What we issue, as OpenSSL reads it. Without the command there is nothing to ask, and the integration tests end early.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use certs::{
    Authority, Certificate, ChainError, Curve, Key, OcspRequest, OcspStatus, Reason, Revoked, Urls, dev::Pki,
    verify_chain,
};
use tempfile::TempDir;

const DAY: i64 = 24 * 3600;

struct OpensslFiles {
    folder: TempDir,
    pki: Pki,
    alice: Certificate,
    now: i64,
}

impl OpensslFiles {
    /// A PKI on disk, or nothing where there is no OpenSSL.
    fn start() -> Option<OpensslFiles> {
        Command::new("openssl").arg("version").output().ok()?;
        let now = now();
        let pki = Pki::new("a.test", now);
        let urls = Urls {
            ca_issuers: "http://a.test/ca/cert".into(),
            ocsp: "http://gateway.a.test/pki/ocsp".into(),
            crl: "http://gateway.a.test/pki/crl".into(),
        };
        let key = Key::generate(Curve::P256).public();
        let alice = pki.issuer.issue_agent("alice.a.test", &key, &urls, now - 300, now + DAY);
        let alice = alice.expect("an issuer issues");
        let files =
            OpensslFiles { folder: tempfile::tempdir().expect("there is space on disk"), pki, alice, now };
        files.write("root.pem", files.pki.root.certificate().pem());
        files.write("chain.pem", files.pki.chain_pem());
        files.write("issuer.pem", files.pki.issuer.certificate().pem());
        files.write("alice.pem", files.alice.pem());
        Some(files)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.folder.path().join(name), content).expect("there is space on disk");
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Whether OpenSSL succeeded, and all of its output.
    fn openssl(&self, arguments: &str) -> (bool, String) {
        let Output { status, stdout, stderr } = Command::new("openssl")
            .args(arguments.split_whitespace())
            .current_dir(self.path())
            .output()
            .expect("openssl was there a moment ago");
        let text = String::from_utf8_lossy(&stdout) + String::from_utf8_lossy(&stderr);
        (status.success(), text.into_owned())
    }
}

#[expect(clippy::disallowed_methods, reason = "OpenSSL compares an OCSP answer with the real clock")]
fn now() -> i64 {
    let elapsed =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is after 1970");
    i64::try_from(elapsed.as_secs()).expect("it is before the end of time")
}

#[test]
fn openssl_accepts_the_chain_strictly() {
    let Some(files) = OpensslFiles::start() else { return };
    let (accepted, output) =
        files.openssl("verify -x509_strict -CAfile root.pem -untrusted chain.pem alice.pem");
    assert!(accepted, "{output}");

    let other = Authority::root("AUN Development Root CA", "AUN Development", files.now);
    files.write("other.pem", other.certificate().pem());
    let (accepted, output) = files.openssl("verify -CAfile other.pem -untrusted chain.pem alice.pem");
    assert!(!accepted, "{output}");
}

#[test]
fn openssl_reads_the_list_and_refuses_who_is_on_it() {
    let Some(files) = OpensslFiles::start() else { return };
    let serial = files.alice.serial().to_owned();
    let revoked = [Revoked { serial: serial.clone(), at: files.now - 5, reason: Reason::KeyCompromise }];
    files.write("empty.crl", files.pki.issuer.crl(&[], 1, files.now, files.now + DAY).unwrap());
    files.write("full.crl", files.pki.issuer.crl(&revoked, 2, files.now, files.now + DAY).unwrap());

    // CRL signatures are looked up by trust, so the whole chain is named.
    let (accepted, output) = files.openssl("crl -in full.crl -CAfile chain.pem -noout -text");
    assert!(accepted && output.contains("verify OK") && output.contains("Key Compromise"), "{output}");
    assert!(output.to_lowercase().contains(&serial), "{output}");
    let check = |list| {
        files.openssl(&format!(
            "verify -crl_check -CRLfile {list} -CAfile root.pem -untrusted chain.pem alice.pem"
        ))
    };
    let (accepted, output) = check("empty.crl");
    assert!(accepted, "{output}");
    let (accepted, output) = check("full.crl");
    assert!(!accepted && output.contains("revoked"), "{output}");
}

#[test]
fn openssl_verifies_the_answer_about_one_certificate() {
    let Some(files) = OpensslFiles::start() else { return };
    for (status, word) in [
        (OcspStatus::Good, "alice.pem: good"),
        (OcspStatus::Unknown, "alice.pem: unknown"),
        (OcspStatus::Revoked { at: files.now - 5, reason: Reason::KeyCompromise }, "Reason: keyCompromise"),
        (OcspStatus::Revoked { at: files.now - 5, reason: Reason::Unspecified }, "alice.pem: revoked"),
    ] {
        let answer = files.pki.issuer.ocsp(files.alice.serial(), status, files.now, files.now + DAY).unwrap();
        files.write("answer.der", answer);
        let (accepted, output) = files.openssl(
            "ocsp -respin answer.der -issuer issuer.pem -sha256 -cert alice.pem -CAfile chain.pem -no_nonce",
        );
        assert!(
            accepted && output.contains("Response verify OK") && output.contains(word),
            "{status:?}: {output}"
        );
    }
}

#[test]
fn openssl_gets_the_answer_to_its_own_request() {
    let Some(files) = OpensslFiles::start() else { return };
    // By default it hashes with SHA-1 and sends a nonce.
    for hash in ["", "-sha256"] {
        let (accepted, output) =
            files.openssl(&format!("ocsp -issuer issuer.pem {hash} -cert alice.pem -reqout request.der"));
        assert!(accepted, "{output}");
        let bytes = fs::read(files.path().join("request.der")).unwrap();
        let request = OcspRequest::from_der(&bytes).unwrap();
        let asked = files.pki.issuer.asked_serial(&request.certificates[0]);
        assert_eq!(asked, Some(files.alice.serial()));
        assert_eq!(files.pki.registry.asked_serial(&request.certificates[0]), None);

        let status = OcspStatus::Revoked { at: files.now - 5, reason: Reason::Superseded };
        let answer = files.pki.issuer.answer_ocsp(&request, &[status], files.now, files.now + DAY).unwrap();
        // The nonce is the end of the request.
        let nonce = &bytes[bytes.len() - 16..];
        assert!(answer.windows(16).any(|part| part == nonce), "the answer repeats the nonce");
        files.write("answer.der", answer);
        let (accepted, output) = files.openssl(&format!(
            "ocsp -respin answer.der -issuer issuer.pem {hash} -cert alice.pem -CAfile chain.pem -no_nonce"
        ));
        assert!(
            accepted && output.contains("Response verify OK") && output.contains("alice.pem: revoked"),
            "{output}"
        );
    }
}

#[test]
fn a_key_made_by_openssl_can_be_read() {
    let Some(files) = OpensslFiles::start() else { return };
    for (name, curve) in [("P-256", Curve::P256), ("P-384", Curve::P384)] {
        let (accepted, output) =
            files.openssl(&format!("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:{name} -out key.pem"));
        assert!(accepted, "{output}");
        let key = Key::from_pem(&fs::read_to_string(files.path().join("key.pem")).unwrap()).unwrap();
        assert_eq!(key.curve(), curve);

        files.write("ours.pem", Key::generate(curve).to_pem());
        let (accepted, output) = files.openssl("pkey -in ours.pem -check -noout");
        assert!(accepted, "{output}");
    }
}

#[test]
fn an_authority_on_p384_that_signs_with_sha256_is_refused() {
    let Some(files) = OpensslFiles::start() else { return };
    files.write("issuer.key", files.pki.issuer.key_pem());
    files.write("leaf.cnf", "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n");
    let request = "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout bob.key -subj /CN=bob -out bob.csr";
    let (accepted, output) = files.openssl(request);
    assert!(accepted, "{output}");
    let mut verdicts = Vec::new();
    for hash in ["sha384", "sha256"] {
        let (accepted, output) = files.openssl(&format!(
            "x509 -req -in bob.csr -CA issuer.pem -CAkey issuer.key -{hash} -days 1 -extfile leaf.cnf -out bob.pem"
        ));
        assert!(accepted, "{output}");
        let bob = Certificate::from_pem(&fs::read_to_string(files.path().join("bob.pem")).unwrap()).unwrap();
        let issuer = files.pki.issuer.certificate().clone();
        verdicts.push(verify_chain(&bob, &[], &[issuer], bob.not_before()));
    }
    assert_eq!(verdicts, [Ok(()), Err(ChainError::BadSignature("bob".into()))]);
}

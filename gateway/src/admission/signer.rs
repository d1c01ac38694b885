//! The certificate that verifies an agent's signed calls, kept from the first such call until it is replaced.

use certs::PublicKey;
use parking_lot::Mutex;
use std::sync::Arc;

pub struct CallSigner {
    pub fingerprint: String,
    pub key: PublicKey,
}

#[derive(Default)]
pub struct KnownSigner {
    state: Mutex<KnownSignerState>,
}

#[derive(Default)]
struct KnownSignerState {
    signer: Option<Arc<CallSigner>>,
    replaced: u64,
}

impl KnownSigner {
    pub fn get(&self) -> Option<Arc<CallSigner>> {
        self.state.lock().signer.clone()
    }

    /// How often it was replaced; to be read before ca is asked.
    pub fn replaced(&self) -> u64 {
        self.state.lock().replaced
    }

    /// Keeps ca's answer, unless the certificate was replaced after it was asked: then the answer may have the old one.
    pub fn keep(&self, signer: &Arc<CallSigner>, asked_at: u64) {
        let mut state = self.state.lock();
        if state.replaced == asked_at {
            state.signer = Some(signer.clone());
        }
    }

    pub fn forget(&self) {
        let mut state = self.state.lock();
        state.replaced += 1;
        state.signer = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use certs::{Curve, Key};

    fn signer() -> Arc<CallSigner> {
        Arc::new(CallSigner { fingerprint: "sha256:00".to_owned(), key: Key::generate(Curve::P256).public() })
    }

    #[test]
    fn an_answer_that_a_replacement_overtook_is_not_kept() {
        let known = KnownSigner::default();
        let asked = known.replaced();
        known.forget();
        known.keep(&signer(), asked);
        assert!(known.get().is_none());
        known.keep(&signer(), known.replaced());
        assert!(known.get().is_some());
        known.forget();
        assert!(known.get().is_none());
    }
}

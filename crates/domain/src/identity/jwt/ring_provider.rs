//! Verifies signatures for `jsonwebtoken` with ring; signs nothing.
//!
//! That crate's own providers would add a second crypto library: aws-lc needs a C build, and
//! `RustCrypto`'s `rsa` has the timing advisory RUSTSEC-2023-0071.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory,
    verifier_factory,
    // Called only to derive public keys and digests, which this crate never does.
    key_utils: KeyUtils::new_unimplemented(),
};

/// `jsonwebtoken` accepts one provider per process; later calls do nothing.
pub(super) fn install() {
    let _ = PROVIDER.install_default();
}

fn signer_factory(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

fn verifier_factory(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    // A public key must never serve as an HMAC secret.
    if key.family() != algorithm.family() {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    match algorithm {
        Algorithm::HS256 | Algorithm::RS256 | Algorithm::ES256 => {
            Ok(Box::new(RingVerifier { algorithm: *algorithm, key: key.clone() }))
        }
        _ => Err(ErrorKind::UnsupportedAlgorithm.into()),
    }
}

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match (self.algorithm, self.key.kind()) {
            (Algorithm::HS256, DecodingKeyKind::SecretOrDer(secret)) => {
                hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, secret), message, signature)
            }
            (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            (Algorithm::ES256, DecodingKeyKind::SecretOrDer(point)) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            _ => Err(ring::error::Unspecified),
        };
        verified.map_err(|_says_nothing| Error::new())
    }
}

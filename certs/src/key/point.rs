//! Whether two numbers are a point of a curve, by its equation.
//!
//! The only check that ring offers is to agree on a secret with the owner of the point: two multiplications on the curve, and
//! everybody who can send a certificate could ask for them. The equation takes five multiplications of numbers. The point is
//! public, so it does not matter that the time depends on it.

use std::sync::LazyLock;

use x509_parser::num_bigint::BigUint;

use crate::Curve;

/// `y² = x³ − 3x + b` modulo a prime, as both curves have it (FIPS 186-4, D.1.2).
struct CurveEquation {
    prime: BigUint,
    b: BigUint,
}

static P256: LazyLock<CurveEquation> = LazyLock::new(|| {
    CurveEquation::new(
        b"ffffffff00000001000000000000000000000000ffffffffffffffffffffffff",
        b"5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b",
    )
});

static P384: LazyLock<CurveEquation> = LazyLock::new(|| {
    CurveEquation::new(
        b"fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffff0000000000000000ffffffff",
        b"b3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aef",
    )
});

/// Whether this is a point of the curve. Every one of them is a key, because both curves have the cofactor 1.
pub(crate) fn is_on_curve(curve: Curve, x: &[u8], y: &[u8]) -> bool {
    let equation = match curve {
        Curve::P256 => &*P256,
        Curve::P384 => &*P384,
    };
    equation.holds(&BigUint::from_bytes_be(x), &BigUint::from_bytes_be(y))
}

impl CurveEquation {
    fn new(prime: &[u8], b: &[u8]) -> CurveEquation {
        let number = |digits| BigUint::parse_bytes(digits, 16).expect("a constant is a number");
        CurveEquation { prime: number(prime), b: number(b) }
    }

    fn holds(&self, x: &BigUint, y: &BigUint) -> bool {
        let CurveEquation { prime, b } = self;
        if x >= prime || y >= prime {
            return false;
        }
        let left = (y * y) % prime;
        let cube = ((x * x) % prime) * x;
        // Without negative numbers, −3x is 3(p − x).
        let right = (cube + (prime - x) * 3_u32 + b) % prime;
        left == right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENERATORS: [(Curve, &str, &str); 2] = [
        (
            Curve::P256,
            "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296",
            "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5",
        ),
        (
            Curve::P384,
            "aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a385502f25dbf55296c3a545e3872760ab7",
            "3617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c00a60b1ce1d7e819d7a431d7c90ea0e5f",
        ),
    ];

    #[test]
    fn the_generator_is_on_its_curve_and_what_is_beside_it_is_not() {
        for (curve, x, y) in GENERATORS {
            let (x, mut y) = (hex::decode(x).unwrap(), hex::decode(y).unwrap());
            assert!(is_on_curve(curve, &x, &y), "{curve}");
            *y.last_mut().unwrap() ^= 1;
            assert!(!is_on_curve(curve, &x, &y), "{curve}");
            assert!(!is_on_curve(curve, &y, &x), "{curve}");
            let zero = vec![0; x.len()];
            assert!(!is_on_curve(curve, &zero, &zero), "{curve}");
        }
    }

    #[test]
    fn a_number_beyond_the_field_is_refused_although_the_equation_holds() {
        for (curve, x, y) in GENERATORS {
            let equation = if curve == Curve::P256 { &*P256 } else { &*P384 };
            let number = |digits: &str| BigUint::parse_bytes(digits.as_bytes(), 16).unwrap();
            let (x, y) = (number(x), number(y));
            assert!(equation.holds(&x, &y));
            assert!(equation.holds(&x, &(&equation.prime - &y)), "the other point with this x");
            assert!(!equation.holds(&(&x + &equation.prime), &y));
            assert!(!equation.holds(&x, &(&y + &equation.prime)));
        }
    }
}

//! The few lines of DER that no library of ours writes: values inside values, each with tag and length.

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const ENUMERATED: u8 = 0x0a;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;

/// `[number]`, primitive: what an implicit tag puts in place of a simple type's own.
pub(crate) const fn context(number: u8) -> u8 {
    0x80 | number
}

/// `[number]`, constructed: around an explicit value, or in place of a sequence's own tag.
pub(crate) const fn context_constructed(number: u8) -> u8 {
    0xa0 | number
}

/// One value: tag, length in the shortest form, and `parts` as its content.
pub(crate) fn value(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let mut der = vec![tag];
    match content.len() {
        length @ 0..=0x7f => der.push(length as u8),
        length => {
            let bytes: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
            der.push(0x80 | bytes.len() as u8);
            der.extend(bytes);
        }
    }
    der.extend(content);
    der
}

/// A number that is not negative, from big-endian bytes.
pub(crate) fn unsigned(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    let digits = &bytes[start..];
    // A set top bit would make it negative, and zero needs at least one byte.
    let sign: &[u8] = if digits.first().is_none_or(|byte| *byte >= 0x80) { &[0] } else { &[] };
    value(INTEGER, &[sign, digits])
}

/// Splits `input` into the content of its first value, which must have `tag`, and what follows it.
pub(crate) fn read(tag: u8, input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&[found, first], rest) = input.split_first_chunk::<2>()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), &rest[1..]),
        0x82 => {
            let (high_low, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*high_low)), rest)
        }
        _ => return None,
    };
    if found != tag {
        return None;
    }
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_the_shortest_form() {
        assert_eq!(value(OCTET_STRING, &[&[1; 127]])[..2], [4, 127]);
        assert_eq!(value(OCTET_STRING, &[&[1; 128]])[..3], [4, 0x81, 128]);
        assert_eq!(value(OCTET_STRING, &[&[1; 256]])[..4], [4, 0x82, 1, 0]);
    }

    #[test]
    fn numbers_are_minimal_and_never_negative() {
        assert_eq!(unsigned(&[]), [2, 1, 0]);
        assert_eq!(unsigned(&[0, 0, 1]), [2, 1, 1]);
        assert_eq!(unsigned(&[0x80]), [2, 2, 0, 0x80]);
    }

    #[test]
    fn reading_takes_back_what_was_written() {
        for length in [0, 127, 128, 255, 256, 5000] {
            let mut der = value(SEQUENCE, &[&vec![9; length]]);
            der.extend([1, 2]);
            assert_eq!(read(SEQUENCE, &der), Some((&vec![9; length][..], &[1, 2][..])));
            assert_eq!(read(OID, &der), None);
            assert_eq!(read(SEQUENCE, &der[..der.len() - 3]), None);
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Who signed a module: the name in the signature at the end of its file (scripts/sign-file.c, PKCS#7 of RFC 2315).

use peermem_gate::peermem::module_file::SIGNED;

/// Some ten times the largest that there are, an ML-DSA signature with its certificate included.
pub const LARGEST: u64 = 256 * 1024;
/// `struct module_signature`: six fields of a byte and their padding, then the signature's length, big-endian.
const DESCRIPTION: usize = 12;
/// Its `id_type` for PKCS#7, the only one that kernels since 4.4 accept.
const PKCS7: u8 = 2;

const INTEGER: u8 = 0x02;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const EXPLICIT: u8 = 0xa0;
const KEY_ID: u8 = 0x80;
/// The identifiers of a name's parts, best first: `commonName`, `organizationName`.
const NAMES: [&[u8]; 2] = [&[0x55, 4, 3], &[0x55, 4, 10]];

/// The signer's name, or its key, by the last [`LARGEST`] bytes of the file; `None` where there is no signature, or
/// one of no known form.
pub fn signer(end: &[u8]) -> Option<String> {
    let (signature, description) = end.strip_suffix(SIGNED)?.split_last_chunk::<DESCRIPTION>()?;
    let [_, _, PKCS7, .., a, b, c, d] = *description else { return None };
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?;
    of_pkcs7(&signature[signature.len().checked_sub(length)?..])
}

/// By the first `SignerInfo`: its issuer's name (`modinfo -F signer`), or the key's identifier.
fn of_pkcs7(message: &[u8]) -> Option<String> {
    let (content, _) = element(message, SEQUENCE)?;
    let (_, rest) = element(content, OBJECT)?;
    let (explicit, _) = element(rest, EXPLICIT)?;
    let (data, _) = element(explicit, SEQUENCE)?;
    let (_, rest) = element(data, INTEGER)?;
    let (_, rest) = element(rest, SET)?;
    let (_, mut rest) = element(rest, SEQUENCE)?;
    // Certificates and revocations, if there are any.
    while let [0xa0 | 0xa1, ..] = rest {
        rest = any(rest)?.2;
    }
    let (infos, _) = element(rest, SET)?;
    let (info, _) = element(infos, SEQUENCE)?;
    let (_, rest) = element(info, INTEGER)?;
    if let Some((key, _)) = element(rest, KEY_ID) {
        return Some(key.iter().fold("key ".to_owned(), |text, byte| text + &format!("{byte:02x}")));
    }
    let (issuer, _) = element(rest, SEQUENCE)?;
    let (name, _) = element(issuer, SEQUENCE)?;
    NAMES.iter().find_map(|part| part_of(name, part))
}

/// The part of a name that has this identifier.
fn part_of(mut name: &[u8], identifier: &[u8]) -> Option<String> {
    loop {
        let (set, rest) = element(name, SET)?;
        let (pair, _) = element(set, SEQUENCE)?;
        let (object, value) = element(pair, OBJECT)?;
        if object == identifier {
            return Some(String::from_utf8_lossy(any(value)?.1).into_owned());
        }
        name = rest;
    }
}

/// The content of an element with this tag, and what is behind it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = any(bytes)?;
    (found == tag).then_some((content, rest))
}

/// The tag and content of an element in DER, and what is behind it.
fn any(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, length], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
            (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = content.len();
        let mut bytes = match length {
            0..=0x7f => vec![tag, u8::try_from(length).unwrap()],
            _ => vec![tag, 0x82, u8::try_from(length >> 8).unwrap(), u8::try_from(length & 0xff).unwrap()],
        };
        bytes.extend(content);
        bytes
    }

    fn message(sid: &[u8]) -> Vec<u8> {
        let info = der(SEQUENCE, &[&der(INTEGER, &[1])[..], sid, &der(SEQUENCE, &[5; 200])].concat());
        let data =
            [der(INTEGER, &[1]), der(SET, &[]), der(SEQUENCE, &[]), der(0xa0, &[9; 300]), der(SET, &info)];
        let content = [der(OBJECT, &[1, 2]), der(EXPLICIT, &der(SEQUENCE, &data.concat()))];
        der(SEQUENCE, &content.concat())
    }

    fn named(parts: &[(&[u8], &str)]) -> Vec<u8> {
        let part = |(object, text): &(&[u8], &str)| {
            der(SET, &der(SEQUENCE, &[der(OBJECT, object), der(0x0c, text.as_bytes())].concat()))
        };
        let name = der(SEQUENCE, &parts.iter().flat_map(part).collect::<Vec<_>>());
        der(SEQUENCE, &[name, der(INTEGER, &[7])].concat())
    }

    #[test]
    fn a_signer_is_known_by_its_name_or_its_key() {
        let (country, organization, common) = (&[0x55, 4, 6][..], NAMES[1], NAMES[0]);
        let both = named(&[(country, "DE"), (organization, "Canonical Ltd."), (common, "Kernel Signing")]);
        assert_eq!(of_pkcs7(&message(&both)).as_deref(), Some("Kernel Signing"));
        let one = named(&[(organization, "Canonical Ltd.")]);
        assert_eq!(of_pkcs7(&message(&one)).as_deref(), Some("Canonical Ltd."));
        assert_eq!(of_pkcs7(&message(&der(KEY_ID, &[0xab, 1]))).as_deref(), Some("key ab01"));
        assert_eq!(of_pkcs7(&message(&named(&[(country, "DE")]))), None);
    }

    #[test]
    fn a_signature_that_is_cut_off_names_nobody() {
        let whole = message(&named(&[(NAMES[0], "Kernel Signing")]));
        for length in 0..whole.len() {
            assert_eq!(of_pkcs7(&whole[..length]), None, "{length}");
        }
        assert_eq!(of_pkcs7(&[0xff; 64]), None);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Signing what was built with a key of the user's own (gpu-operator#1726), by the kernel's own sign-file. The key is
//! never copied: sign-file gets it as an open file.

use crate::ready::errno;
use crate::ready::files::read::{beginning, whole};
use crate::ready::files::root::resolve;
use crate::ready::node::below;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The private key, PEM: the name that a Secret of type kubernetes.io/tls gives it.
pub const KEY: &str = "tls.key";
/// Its certificate, PEM or DER.
pub const CERTIFICATE: &str = "tls.crt";
/// In the kernel's build tree.
const SIGN_FILE: &str = "scripts/sign-file";
/// The setting that says by which hash the kernel's own modules are signed.
const HASH: &str = "CONFIG_MODULE_SIG_HASH=\"";
/// A certificate has one or two KiB.
const LARGEST: u64 = 64 << 10;
/// The kernel's keys, a line each; the lists of revoked ones are the longest.
const KEYS: u64 = 8 << 20;
/// The extension subjectKeyIdentifier (RFC 5280), and an octet string.
const KEY_ID: [u8; 6] = [0x06, 0x03, 0x55, 0x1d, 0x0e, 0x04];

/// What signs, if the kernel demands signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signing {
    /// The directory of key and certificate, as this process sees it.
    pub directory: PathBuf,
    /// Why they cannot be used.
    pub unusable: Option<String>,
    /// sign-file, as seen from inside the build's root.
    pub program: Option<PathBuf>,
    /// The hash to sign.
    pub hash: String,
}

impl Signing {
    /// Looks at key, certificate, the kernel's keys below `proc`, and the build tree in the build's root.
    #[must_use]
    pub fn look(directory: &Path, proc: &Path, root: &Path, headers: Option<&Path>) -> Self {
        let inside = |name: &str| headers.map(|headers| headers.join(name));
        let real = |path: &PathBuf| resolve(root, &below(root, path)).ok();
        let program = inside(SIGN_FILE).filter(|path| real(path).is_some_and(|real| real.is_file()));
        let config = inside("include/config/auto.conf").and_then(|path| whole(&real(&path)?, KEYS).ok());
        Self {
            directory: directory.to_owned(),
            unusable: unusable(directory, proc).err(),
            program,
            hash: config.as_deref().and_then(hash).unwrap_or("sha256").to_owned(),
        }
    }

    /// One of the two files, for a program that is started: open, and not closed for it.
    ///
    /// # Errors
    /// As open(2).
    pub fn open(&self, name: &str) -> io::Result<OwnedFd> {
        Ok(open(&self.directory.join(name), OFlag::O_RDONLY | OFlag::O_NONBLOCK, Mode::empty())?)
    }
}

fn hash(config: &str) -> Option<&str> {
    config.lines().find_map(|line| line.strip_prefix(HASH)?.strip_suffix('"'))
}

/// Why nothing can be signed that this kernel would load.
fn unusable(directory: &Path, proc: &Path) -> Result<(), String> {
    is_roots_alone(&directory.join(KEY))?;
    let path = directory.join(CERTIFICATE);
    let bytes =
        beginning(&path, LARGEST).map_err(|error| format!("{}: {}", path.display(), errno::words(&error)))?;
    let id = key_id(&bytes)
        .ok_or_else(|| format!("{} is no X.509 certificate with a subject key identifier", path.display()))?;
    let keys = proc.join("keys");
    let listed =
        whole(&keys, KEYS).map_err(|error| format!("{}: {}", keys.display(), errno::words(&error)))?;
    if is_listed(&listed, &id) {
        Ok(())
    } else {
        Err(format!("this kernel has no key {id} ({}), so it trusts no such signature", keys.display()))
    }
}

/// Only this process's user may read the key.
fn is_roots_alone(path: &Path) -> Result<(), String> {
    let metadata =
        path.metadata().map_err(|error| format!("{}: {}", path.display(), errno::words(&error)))?;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    let is_others = metadata.mode() & 0o077 != 0;
    if metadata.is_file() && is_own && !is_others {
        return Ok(());
    }
    Err(format!(
        "{} must be a file that only root can read: its owner is {}, its mode {:04o}",
        path.display(),
        metadata.uid(),
        metadata.mode() & 0o7777
    ))
}

/// The certificate's DER, from PEM or as it is.
fn certificate(bytes: &[u8]) -> Option<Vec<u8>> {
    let Some(text) =
        std::str::from_utf8(bytes).ok().and_then(|text| text.split_once("-----BEGIN CERTIFICATE-----"))
    else {
        return Some(bytes.to_owned()).filter(|der| der.first() == Some(&0x30));
    };
    base64(text.1.split_once("-----END")?.0)
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for symbol in text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=') {
        let value = match symbol {
            b'A'..=b'Z' => symbol - b'A',
            b'a'..=b'z' => symbol - b'a' + 26,
            b'0'..=b'9' => symbol - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, count) = (bits << 6 | u32::from(value), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    Some(bytes)
}

/// The subject key identifier of a certificate, in hexadecimal: the kernel names an X.509 key by it
/// (`x509_key_preparse`).
#[must_use]
pub fn key_id(bytes: &[u8]) -> Option<String> {
    let der = certificate(bytes)?;
    let at = der.windows(KEY_ID.len()).position(|window| window == KEY_ID)? + KEY_ID.len();
    // The length of the one string, then the other with its tag and length; all short.
    let [_, 0x04, length, rest @ ..] = der.get(at..)? else { return None };
    let id = rest.get(..usize::from(*length)).filter(|id| !id.is_empty() && *length < 0x80)?;
    Some(id.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")))
}

/// A key of this id is in the kernel's list of keys (proc(5), /proc/keys), and is neither revoked nor dead.
#[must_use]
pub fn is_listed(keys: &str, id: &str) -> bool {
    let is_key = |line: &&str| {
        let fields: Vec<_> = line.split_whitespace().take(8).collect();
        let is_valid = fields
            .get(1)
            .is_some_and(|flags| flags.starts_with('I') && !flags.contains(['R', 'D', 'N', 'i']));
        is_valid && fields.get(7) == Some(&"asymmetri") && line.contains(&format!(": {id}: X509."))
    };
    keys.lines().any(|line| is_key(&line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// Of a sequence that has this extension and no more.
    const ID: &str = "0c5a3b7e";
    const DER: [u8; 14] =
        [0x30, 0x0c, 0x06, 0x03, 0x55, 0x1d, 0x0e, 0x04, 0x06, 0x04, 0x04, 0x0c, 0x5a, 0x3b];
    const LINE: &str =
        "14b5b0a6 I------     1 perm 1f030000     0     0 asymmetri own: 0c5a3b7e: X509.rsa 0c5a3b7e []\n";

    fn der() -> Vec<u8> {
        [&DER[..], &[0x7e, 0x30]].concat()
    }

    #[test]
    fn the_key_id_of_a_certificate_is_read_from_pem_and_der() {
        let pem =
            "text\n-----BEGIN CERTIFICATE-----\nMAwGA1UdDgQGBAQM\nWjt+MA==\n-----END CERTIFICATE-----\n";
        for bytes in [der(), pem.as_bytes().to_vec()] {
            assert_eq!(key_id(&bytes).as_deref(), Some(ID));
        }
        for cut in 0..der().len() - 1 {
            assert_eq!(key_id(&der()[..cut]), None, "cut at {cut}");
        }
        assert_eq!(certificate(b"no certificate"), None);
        assert_eq!(certificate(b"-----BEGIN CERTIFICATE-----\n!\n-----END"), None);
    }

    #[test]
    fn only_a_key_that_the_kernel_has_and_has_not_revoked_is_listed() {
        assert!(is_listed(LINE, ID));
        assert!(!is_listed(LINE, "5a3b7e") && !is_listed("", ID));
        for (from, to) in [("I------", "IR-----"), ("I------", "-------"), ("asymmetri", "blacklist")] {
            assert!(!is_listed(&LINE.replace(from, to), ID), "{to}");
        }
    }

    #[test]
    fn why_nothing_can_be_signed_is_said() {
        let tree = tempfile::tempdir().unwrap();
        let (directory, proc) = (tree.path().join("own"), tree.path().join("proc"));
        fs::create_dir_all(&directory).unwrap();
        fs::create_dir_all(&proc).unwrap();
        let look = || Signing::look(&directory, &proc, tree.path(), Some(Path::new("/build"))).unusable;
        let says = |words: &str| assert!(look().unwrap_or_default().contains(words), "{words}: {:?}", look());
        says("tls.key: No such file");
        fs::write(directory.join(KEY), "key").unwrap();
        fs::set_permissions(directory.join(KEY), fs::Permissions::from_mode(0o640)).unwrap();
        says("only root can read: its owner is");
        fs::set_permissions(directory.join(KEY), fs::Permissions::from_mode(0o400)).unwrap();
        says("tls.crt: No such file");
        fs::write(directory.join(CERTIFICATE), "text").unwrap();
        says("no X.509 certificate");
        fs::write(directory.join(CERTIFICATE), der()).unwrap();
        says("keys: No such file");
        fs::write(proc.join("keys"), LINE.replace(ID, "00000000")).unwrap();
        says("this kernel has no key 0c5a3b7e");
        fs::write(proc.join("keys"), LINE).unwrap();
        assert_eq!(look(), None);
    }

    #[test]
    fn sign_file_and_the_hash_are_those_of_the_kernels_build_tree() {
        let tree = tempfile::tempdir().unwrap();
        let look = || Signing::look(tree.path(), tree.path(), tree.path(), Some(Path::new("/build")));
        assert_eq!((look().program, look().hash.as_str()), (None, "sha256"));
        for (path, text) in [
            ("scripts/sign-file", ""),
            ("include/config/auto.conf", "CONFIG_A=y\nCONFIG_MODULE_SIG_HASH=\"sha512\"\n"),
        ] {
            let path = tree.path().join("build").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(look().program.as_deref(), Some(Path::new("/build/scripts/sign-file")));
        assert_eq!(look().hash, "sha512");
    }
}

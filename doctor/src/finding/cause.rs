// SPDX-License-Identifier: Apache-2.0
//! Why something failed, by the words that the kernel, the C library, Go's standard library and Kubernetes' API
//! server have for it, whichever program repeats them. Pure.

macro_rules! causes {
    ($($(#[$doc:meta])* $cause:ident: [$($words:literal),*] $(with [$($also:literal),*])?;)*) => {
        /// A reason that says what a person can do, whatever the program is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FailureCause { $($(#[$doc])* $cause,)* }

        /// Their words; with those of the second list, one of these has to be there too.
        const ROWS: &[(FailureCause, &[&str], &[&str])] = &[$((FailureCause::$cause, &[$($words),*], &[$($($also),*)?])),*];

        impl FailureCause {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$cause),*];
        }
    };
}

causes! {
    /// The kernel does not trust the key that signed a module.
    KeyRejected: ["Key was rejected by service", "Required key not available", "unsigned module loading is restricted"];
    /// A file system is full.
    NoSpace: ["o space left on device", "isk quota exceeded"];
    /// A file system cannot be written to.
    ReadOnly: ["ead-only file system"];
    /// A quota of the namespace is used up.
    QuotaExceeded: ["exceeded quota"];
    /// A rule of the cluster refuses an object.
    RefusedByRule: ["violates PodSecurity", "denied the request: "];
    /// The API server refuses a service account.
    Forbidden: [" is forbidden"];
    /// The API server does not know a kind of object.
    KindMissing: ["no matches for kind", "could not find the requested resource", "doesn't have a resource type"];
    /// Nobody listens on a socket of this node.
    NoSocket: ["no such file or directory", "connection refused", "context deadline exceeded"]
        with ["dial unix ", "unix:///", ".sock:"];
    /// An address is out of reach.
    Unreachable: ["onnection refused", "i/o timeout", "no such host", "o route to host", "etwork is unreachable",
        "ould not resolve host", "TLS handshake timeout", "onnection timed out", "ailure in name resolution"];
    /// A certificate is not accepted.
    Certificate: ["x509: ", "ertificate has expired", "ertificate verify failed"];
    /// Another process has the port.
    PortTaken: ["ddress already in use"];
    /// Another machine's program.
    OtherArchitecture: ["xec format error"];
    /// A library is not where the program looks.
    LibraryMissing: ["annot open shared object file", "ERROR_LIBRARY_NOT_FOUND", "libnvidia-ml.so"];
    /// A security module, a mount option or a file's mode refuses.
    AccessRefused: ["ermission denied", "peration not permitted", "nsufficient Permissions", "ccess denied"];
    /// The program does not know the system, the device or the release.
    NotSupported: ["nsupported", "ot supported"];
}

impl FailureCause {
    /// The reason that these words have.
    #[must_use]
    pub fn of(words: &str) -> Option<Self> {
        let has = |any: &[&str]| any.iter().any(|part| words.contains(part));
        ROWS.iter()
            .find(|(_, own, also)| has(own) && (also.is_empty() || has(also)))
            .map(|(cause, ..)| *cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &str = r#"
KeyRejected modprobe: ERROR: could not insert 'nvidia_fs': Key was rejected by service
NoSpace tar: x: Cannot write: No space left on device
ReadOnly open /etc/containerd/config.toml: read-only file system
Forbidden nodefeatures.nfd.k8s-sigs.io is forbidden: User "system:serviceaccount:a:b" cannot create
KindMissing no matches for kind "NodeFeature" in version "nfd.k8s-sigs.io/v1alpha1"
NoSocket dial unix /var/run/nri/nri.sock: connect: no such file or directory
Unreachable dial tcp 10.96.0.1:443: connect: connection refused
Certificate x509: certificate signed by unknown authority
PortTaken listen tcp :9400: bind: address already in use
OtherArchitecture exec /usr/bin/x: exec format error
LibraryMissing x: error while loading shared libraries: libz.so.1: cannot open shared object file
AccessRefused fork/exec /usr/local/nvidia/toolkit/nvidia-container-runtime: permission denied
AccessRefused Failed to initialize NVML: Insufficient Permissions
NotSupported [ERR] Unsupported OS: flatcar
QuotaExceeded pods "x" is forbidden: exceeded quota: q, limited: 8
RefusedByRule pods "x" is forbidden: violates PodSecurity "restricted"
"#;

    #[test]
    fn a_reason_is_known_whichever_program_repeats_it() {
        for line in WORDS.lines().filter(|line| !line.is_empty()) {
            let (cause, words) = line.split_once(' ').unwrap();
            assert_eq!(
                FailureCause::of(words).map(|cause| format!("{cause:?}")).as_deref(),
                Some(cause),
                "{words}"
            );
        }
        for other in ["", "Error: it cannot work", "open /a: no such file or directory", "exit status 1"] {
            assert_eq!(FailureCause::of(other), None, "{other}");
        }
    }
}

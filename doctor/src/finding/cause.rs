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
    /// A build's compiler cannot build for this kernel, or is not there.
    CompilerUnfit: ["nrecognized command-line option", "nrecognized command line option", "rror: unknown argument: '-",
        "ompiler version check failed", "cc: not found", "cc: command not found", "ompiler differs from the one"];
    /// A module's sources are of another time than the kernel.
    SourceUnfit: ["implicit declaration of function", "call to undeclared function", "too few arguments to function",
        "too many arguments to function", "incompatible pointer type", "incompatible-pointer-types",
        "incompatible function pointer", "incompatible type for argument", "no member named", "conflicting types for",
        "undeclared (first use", "unknown type name", "function name is deprecated"];
    /// A build finds no headers of the running kernel.
    HeadersMissing: ["ernel headers for ", "nable to find the kernel source tree", "ernel configuration is invalid",
        "generated/autoconf.h"];
    /// A module needs a symbol that the kernel does not give to it.
    SymbolMissing: ["GPL-incompatible module"];
    /// The memory is used up: the machine's, or that of a container's limit.
    OutOfMemory: ["Killed signal terminated program", "ompiler error: Killed", "cc1: out of memory"];
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
    /// Another release of the same does not fail so.
    pub fn is_of_the_release(self) -> bool {
        matches!(self, Self::SourceUnfit | Self::SymbolMissing | Self::NotSupported)
    }

    /// The reason that these words have.
    pub fn of(words: &str) -> Option<Self> {
        let has = |any: &[&str]| any.iter().any(|part| words.contains(part));
        ROWS.iter()
            .find(|(_, own, also)| has(own) && (also.is_empty() || has(also)))
            .map(|(cause, ..)| *cause)
    }
}

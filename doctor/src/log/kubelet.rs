// SPDX-License-Identifier: Apache-2.0
//! Whose words are in a line of kubelet's. It repeats a container's command, its name and its image, and what the
//! author's hooks and probes print. kubelet's own words are the keys of the line, and the chain of causes up to the
//! first word of a pod's author. Pure.

use crate::operators::Operators;
use crate::record::string_end;

/// The pods about which a line counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The node: a line about no pod.
    Node,
    /// The operators' pods.
    Operators,
    /// Those, and the pods to which kubelet gave a GPU or an RDMA device.
    Devices,
    /// Any pod: whoever refuses it names a part that GPUs or RDMA need.
    Hook,
}

/// Words that kubelet, the container runtimes, the container toolkit, multus and CNI's libraries put before a cause.
/// `%d` is a number, `%w` plain letters, `%m` the same and colons, `%p` and parentheses, `%t` a time; a quote or `\n`
/// may have any number of backslashes.
const LINKS: [&str; 66] = words! {
    "OCI runtime error: " "crun: " "runc: " "failed to \"%w\" for \"%p\" with %w: \""
    "Failed to create sandbox for pod \"%p\": " "Failed to create pod sandbox: " "failed to create sandbox: "
    "failed to start sandbox \"%w\": " "failed to get sandbox runtime: " "rpc error: " "code = %w desc = "
    "Error response from daemon: " "failed to create task for container: " "failed to start container \"%w\": "
    "failed to create containerd task: " "failed to create shim task: " "failed to create shim: "
    "failed to generate container \"%w\" spec: " "failed to generate container spec: "
    "failed to generate spec: " "container create failed: " "time=\"%t\" level=error msg=\""
    "OCI runtime create failed: " "runc create failed: " "container_linux.go:%d: " "process_linux.go:%d: "
    "starting container process caused: " "starting container process caused \"" "container init caused: "
    "container init caused \"" "unable to start container process: " "error during container init: "
    "Running hook #%d:: " "error running hook #%d: " "error running prestart hook #%d: "
    "error running createRuntime hook #%d: " "error running createContainer hook #%d: " "error running hook: "
    "exit status %d, stdout: , stderr: " "Auto-detected mode as 'legacy'\n" "Auto-detected mode as \"legacy\"\n"
    "unable to retrieve OCI runtime error (open %w: no such file or directory): "
    "nvidia-container-runtime did not terminate successfully: exit status %d: "
    "Using requested mode 'cdi'\n" "setting up CDI devices: " "requirements not met: " "preparing container %w for attach: "
    "/%w/nvidia-container-cli: " "/%w/nvidia-container-cli.real: " "/%w/libc.so.6: " "nvidia-container-cli: "
    "could not apply required modification to OCI specification: " "error modifying OCI spec: "
    "failed to inject CDI devices: " "error injecting CDI devices: " "CDI device injection failed: "
    "failed to setup network for sandbox \"%w\": " "plugin type=\"%w\" failed (add): "
    "plugin type=\"%w\" name=\"%w\" failed (add): " "name=\"%w\" failed (add): " "failed (add): "
    "[%m]: error adding container to network \"%w\": " "Multus: [%m]: "
    "delegateAdd: error invoking DelegateAdd - \"%w\": " "delegateAdd: error invoking confAdd - \"%w\": "
    "error in getting result from AddNetwork: "
};

/// What containerd, CRI-O and dockerd print before such a chain.
const SERVICES: [&str; 4] = words! {
    "StartContainer for \"%w\" failed error=\""
    "RunPodSandbox for &PodSandboxMetadata{Name:%w,Uid:%w,Namespace:%w,Attempt:%d,} failed, error error=\""
    "Container creation error: " "Handler for POST /%w/containers/%w/start returned error: "
};

/// What docker, compose, podman, nerdctl, ctr and pyxis do.
const CLIENTS: [&str; 7] = words! {
    "docker: " "Error: " "ERROR: for %w  Cannot start service %w: " "FATA[%d] " "ERRO[%d] " "ctr: "
    "slurmstepd: error: pyxis: "
};

/// The kinds of errors that `nvidia-container-cli` names.
const KINDS: [&str; 4] =
    ["initialization error: ", "requirement error: ", "mount error: ", "container error: "];

/// Nothing but links of the chain of causes: no word of a pod's author.
pub(super) fn is_chain(text: &[u8]) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let mut links = LINKS.iter().chain(&KINDS);
        let Some(behind) = links.find_map(|link| behind(rest, link.as_bytes())) else {
            return false;
        };
        rest = behind;
    }
    true
}

/// What is left of a chain behind each of its links, and the whole first.
fn rests<'t>(text: &'t [u8]) -> impl Iterator<Item = &'t [u8]> {
    let left = |rest: &&'t [u8]| LINKS.iter().find_map(|link| behind(rest, link.as_bytes()));
    std::iter::successors(Some(text), left).take_while(|rest| !rest.is_empty())
}

/// The rest of a chain behind all its links: what went wrong. A pod's author may have written it.
pub(super) fn cause(text: &[u8]) -> &[u8] {
    rests(text).last().unwrap_or(text)
}

/// The words of who refuses a container, the last of them first: from the line's first byte, or behind what its
/// teller puts there, only links of the chain are before them. They are never searched for: such lines quote
/// commands, users' names and probes. kubelet's lines have rules of their own, which know whose pod it is.
pub(super) fn refusals(text: &[u8]) -> Vec<&[u8]> {
    let told_by = |tellers: &[&str]| tellers.iter().find_map(|words| behind(text, words.as_bytes()));
    let services = told_by(&SERVICES);
    let chain = services.or_else(|| told_by(&CLIENTS)).unwrap_or(text).trim_ascii_start();
    let mut all: Vec<_> = rests(chain).collect();
    all.reverse();
    // A pod's author may ask for any device, and such a line does not say whose pod it is.
    let is_asked = all.first().is_some_and(|cause| cause.starts_with(b"unresolvable CDI devices "));
    if services.is_some() && is_asked { Vec::new() } else { all }
}

/// Without the name of a gRPC code that containerd puts behind.
pub(super) fn without_code(text: &str) -> String {
    text.strip_suffix(": unknown").unwrap_or(text).to_owned()
}

/// The text behind the link, where it begins with it.
fn behind<'t>(text: &'t [u8], link: &[u8]) -> Option<&'t [u8]> {
    let Some((first, link)) = link.split_first() else { return Some(text) };
    match (first, link.split_first()) {
        (b'%', Some((b'd', link))) => behind_run(text, link, u8::is_ascii_digit),
        (b'%', Some((b't', link))) => {
            behind_run(text, link, |byte| byte.is_ascii_alphanumeric() || b":.+-".contains(byte))
        }
        (b'%', Some((b'm', link))) => {
            behind_run(text, link, |byte| byte.is_ascii_alphanumeric() || b"._/:-".contains(byte))
        }
        (b'%', Some((b'p', link))) => {
            behind_run(text, link, |byte| byte.is_ascii_alphanumeric() || b"._/-()".contains(byte))
        }
        (b'%', Some((_, link))) => {
            behind_run(text, link, |byte| byte.is_ascii_alphanumeric() || b"._/-".contains(byte))
        }
        (b'"', _) => behind(slashed(text).strip_prefix(b"\"")?, link),
        // A logger's quoting is off already: a blank stands for it.
        (b'\n', _) if text.first() == Some(&b' ') => behind(&text[1..], link),
        (b'\n', _) => behind(slashed(text).strip_prefix(b"n").filter(|_| text[0] == b'\\')?, link),
        _ => behind(text.strip_prefix(&[*first])?, link),
    }
}

fn slashed(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| *byte != b'\\').unwrap_or(text.len());
    &text[end..]
}

/// At least one such byte, as many as leave the rest of the link.
fn behind_run<'t>(text: &'t [u8], link: &[u8], fits: fn(&u8) -> bool) -> Option<&'t [u8]> {
    let longest = text.iter().take(WORD).take_while(|byte| fits(byte)).count();
    (1..=longest).rev().find_map(|end| behind(&text[end..], link))
}

/// No path or id is longer.
const WORD: usize = 200;

/// The pod of a line, by kubelet's own keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    /// `NAMESPACE/NAME`.
    pub(super) pod: String,
    namespace: String,
    uid: Option<String>,
}

impl Subject {
    /// Of `"message" key="value" …`, klog's structured form. A quoted value ends at a quote without a backslash.
    pub(super) fn of(text: &[u8]) -> Option<Self> {
        let mut rest = text.strip_prefix(b"\"")?;
        rest = &rest[string_end(rest)? + 1..];
        let (mut pod, mut uid) = (None, None);
        while let Some(pair) = rest.strip_prefix(b" ") {
            let Some(at) = memchr::memchr(b'=', pair) else { break };
            let (key, value) = (&pair[..at], &pair[at + 1..]);
            let end = match value.strip_prefix(b"\"") {
                Some(quoted) => string_end(quoted)? + 2,
                None => memchr::memchr(b' ', value).unwrap_or(value.len()),
            };
            let text = || String::from_utf8_lossy(value[..end].trim_ascii()).trim_matches('"').to_owned();
            match key {
                b"pod" => pod = pod.or_else(|| Some(text())),
                b"podUID" => uid = uid.or_else(|| Some(text())),
                _ => {}
            }
            rest = &value[end..];
        }
        let pod = pod?;
        let namespace = pod.split_once('/')?.0.to_owned();
        Some(Self { pod, namespace, uid })
    }

    /// Whether a line about it counts.
    fn counts(&self, about: About, operators: &Operators) -> bool {
        let has_devices = || {
            let by_uid = self.uid.as_ref().is_some_and(|uid| operators.gave_devices_to(uid));
            by_uid || operators.gave_devices_to(&self.pod)
        };
        match about {
            About::Node | About::Hook => true,
            About::Operators => operators.have(&self.namespace),
            About::Devices => operators.have(&self.namespace) || has_devices(),
        }
    }
}

/// Whether a line counts. One whose pod cannot be seen does not, unless it is about none.
pub(super) fn counts(about: About, subject: Option<&Subject>, operators: &Operators) -> bool {
    match subject {
        Some(subject) => subject.counts(about, operators),
        None => matches!(about, About::Node | About::Hook),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::examples;

    /// A word of a pod's author ends it: what comes then is foreign.
    #[test]
    fn a_chain_of_errors_has_only_words_of_the_runtime() {
        for (text, expected) in examples(include_str!("../../tests/words/chains")) {
            let cause = String::from_utf8_lossy(cause(text.as_bytes())).into_owned();
            let seen = match (is_chain(text.as_bytes()), expected.strip_prefix("cause: ")) {
                (_, Some(_)) => format!("cause: {cause}"),
                (true, None) => "chain".to_owned(),
                (false, None) => "foreign".to_owned(),
            };
            assert_eq!(seen, expected, "{text}");
        }
        assert!(is_chain(b"") && cause(b"").is_empty() && cause(b"rpc error: ") == b"rpc error: ");
    }

    #[test]
    fn a_kubelet_line_is_about_the_pod_that_it_names() {
        let pod = |text: &str| Subject::of(text.as_bytes()).map(|subject| subject.pod);
        assert_eq!(
            pod("\"Error\" err=\"it says \\\" pod=\\\"gpu-operator/x\\\"\" pod=\"a/b\" podUID=\"u\"")
                .as_deref(),
            Some("a/b")
        );
        assert_eq!(pod("\"Error \\\" pod=\\\"x/y\\\"\" count=3 pod=\"a/b\"").as_deref(), Some("a/b"));
        assert_eq!(pod("\"Error\" pod=\"a/b\" output=\" pod=\\\"x/y\" pod=\"x/y\"").as_deref(), Some("a/b"));
        for odd in ["", "pod=\"a/b\"", "\"Error\" err=\"unfinished pod=", "\"Error\"", "\"Error\" pod=\"b\""]
        {
            assert_eq!(pod(odd), None, "{odd}");
        }
    }
}

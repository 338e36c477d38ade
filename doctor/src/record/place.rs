// SPDX-License-Identifier: Apache-2.0
//! Names of directories and files below /var/log/pods (kubelet, `pkg/kubelet/kuberuntime/logs`).

/// Whether Kubernetes allows the name: small letters, digits and these characters.
pub(super) fn is_name(text: &str, others: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || others.contains(c);
    !text.is_empty() && text.len() <= 253 && text.chars().all(is_allowed)
}

/// A pod's directory: namespace, name, UID. `None` for a name that is not a pod's.
pub fn pod(directory: &str) -> Option<(&str, &str, &str)> {
    // Namespaces and names have no underscore.
    let (namespace, rest) = directory.split_once('_')?;
    let (name, uid) = rest.rsplit_once('_')?;
    (is_name(namespace, "-") && is_name(name, "-.") && is_name(uid, "-")).then_some((namespace, name, uid))
}

/// A log among those of one container. The newest is the greatest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogName {
    /// How often the container had been restarted before.
    pub restart: u32,
    /// The name's stamp where kubelet has put it aside; what is still written is the newest.
    pub rotated: Rotated,
    /// Whether gzip has compressed it.
    pub is_gz: bool,
}

/// When a log was put aside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rotated {
    /// As the name says, `20251121-115839`.
    At(String),
    /// The log is still written.
    Not,
}

/// `64.log`, `0.log.20251121-115839`, `0.log.20251121-115839.gz`. `None` for any other name, kubelet's unfinished
/// `.tmp` included.
pub fn log(file: &str) -> Option<LogName> {
    let (number, rest) = file.split_once(".log")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let restart = number.parse().ok().filter(|_| is_number)?;
    let (rest, is_gz) = rest.strip_suffix(".gz").map_or((rest, false), |rest| (rest, true));
    let is_stamp = |text: &str| text.len() == 15 && text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    let rotated = match rest.strip_prefix('.') {
        None if rest.is_empty() && !is_gz => Rotated::Not,
        Some(stamp) if is_stamp(stamp) => Rotated::At(stamp.to_owned()),
        _ => return None,
    };
    Some(LogName { restart, rotated, is_gz })
}

/// A container's log outside kubelet's own directory, by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPlace<'a> {
    /// The namespace; empty where the path does not say it.
    pub namespace: &'a str,
    /// The pod; empty where the path does not say it.
    pub pod: &'a str,
    /// The container.
    pub container: &'a str,
    /// The log is of the instance before the last.
    pub is_previous: bool,
}

/// `…/namespaces/NAMESPACE/pods/POD/CONTAINER/CONTAINER/logs/current.log` (`oc adm inspect`), and kubelet's
/// `…/containers/POD_NAMESPACE_CONTAINER-ID.log`. `components` are the path's.
pub fn gathered<'a>(components: &[&'a str]) -> Option<LogPlace<'a>> {
    match components {
        [.., "namespaces", namespace, "pods", pod, container, same, "logs", file] if container == same => {
            let file = file.strip_suffix(".gz").unwrap_or(file);
            let is_previous = file.starts_with("previous.");
            let is_log = is_previous || file == "current.log";
            is_log.then_some(LogPlace { namespace, pod, container, is_previous })
        }
        [.., "containers", file] => {
            let (pod, rest) = file.strip_suffix(".log")?.split_once('_')?;
            let (namespace, rest) = rest.split_once('_')?;
            let (container, id) = rest.rsplit_once('-')?;
            let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_id.then_some(LogPlace { namespace, pod, container, is_previous: false })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_must_gathers_path_names_its_container() {
        let path =
            "mg/namespaces/gpu-operator/pods/driver-x/nvidia-driver-ctr/nvidia-driver-ctr/logs/previous.log";
        let components: Vec<_> = path.split('/').collect();
        let expected = LogPlace {
            namespace: "gpu-operator",
            pod: "driver-x",
            container: "nvidia-driver-ctr",
            is_previous: true,
        };
        assert_eq!(gathered(&components), Some(expected.clone()));
        let id = "0".repeat(64);
        let file = format!("driver-x_gpu-operator_nvidia-driver-ctr-{id}.log");
        let current = LogPlace { is_previous: false, ..expected };
        assert_eq!(gathered(&["var", "log", "containers", &file]), Some(current));
        for odd in ["", "a/b.log", "namespaces/a/pods/b/c/d/logs/current.log", "containers/a_b_c-1.log"] {
            assert_eq!(gathered(&odd.split('/').collect::<Vec<_>>()), None, "{odd}");
        }
    }

    #[test]
    fn the_name_of_a_log_directory_names_its_pod() {
        let uid = "6f1f2c1e-8f2b-4c5e-9d0a-0a1b2c3d4e5f";
        assert_eq!(
            pod(&format!("gpu-operator_nvidia-driver-daemonset-x7k2p_{uid}")),
            Some(("gpu-operator", "nvidia-driver-daemonset-x7k2p", uid))
        );
        assert_eq!(pod("a_b.c_d"), Some(("a", "b.c", "d")));
        for odd in ["", "_", "a_b", "a__b", "A_b_c", "a_b_c_d", "a b_c_d", "a_b_c\n", "../x_y_z"] {
            assert_eq!(pod(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn the_name_of_a_log_file_names_its_restart() {
        let name = |file: &str| log(file).map(|name| (name.restart, name.is_gz));
        assert_eq!(name("64.log"), Some((64, false)));
        assert_eq!(name("0.log.20251121-115839"), Some((0, false)));
        assert_eq!(name("0.log.20251121-115839.gz"), Some((0, true)));
        for odd in words! {
            "" ".log" "x.log" "0.log.gz" "0.log.tmp" "0.log.20251121-115839.tmp" "+1.log" "99999999999.log"
        } {
            assert_eq!(log(odd), None, "{odd:?}");
        }
    }
}

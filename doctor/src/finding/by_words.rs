// SPDX-License-Identifier: Apache-2.0
//! Steps that the words of the evidence decide, whatever the finding: they stand before those of its row.

use super::fact::{
    ACCESS_REFUSED, CERTIFICATE, FORBIDDEN, KEY_REJECTED, KIND_MISSING, LIBRARY_MISSING, LOG_ADVISES,
    NO_SOCKET, NO_SPACE, NOT_SUPPORTED, OTHER_ARCHITECTURE, PORT_TAKEN, QUOTA_EXCEEDED, READ_ONLY,
    REFUSED_BY_RULE, SYSTEMD, UNREACHABLE,
};
use peermem_gate::steps;
use peermem_gate::words::remedy::Step;

/// Those of a finding that names its reason ([`super::Finding::because`]), or the advice of a log.
pub(super) const STEPS: &[Step] = steps![
    @LOG_ADVISES "Check the advice of the container's own log, and follow it if it fits: {advice}.",
    @KEY_REJECTED @SYSTEMD "Use a module that this machine's keys sign, or enroll the key: `mokutil --import KEY.der`, then reboot and confirm. \
        If nothing needs the module, switch the part off that loads it.",
    @NO_SPACE @SYSTEMD "Make room on the file system that the words name: `df -h`, `df -i`; `crictl rmi --prune` removes unused images.",
    @READ_ONLY "If the operating system brings that part itself, switch the operator's own off, such as `toolkit.enabled: false`.",
    @QUOTA_EXCEEDED "Raise that quota, or free what it counts: `kubectl get resourcequota -A`. `kubectl get pod -A -o wide` shows who has what.",
    @REFUSED_BY_RULE "Ask that rule's owners for an exception for the operator's namespace.",
    @FORBIDDEN "Give the service account its right: install or upgrade that operator's whole chart, with its RBAC and CRDs. \
        `kubectl auth can-i VERB RESOURCE --as=ACCOUNT`, with the line's words, shows whether it has it.",
    @KIND_MISSING "Update the CRDs of that operator's chart, which `helm upgrade` leaves as they are. `kubectl api-resources` shows \
        the kinds.",
    @NO_SOCKET "See whether the service behind that socket runs, and whether its path is right. If it is off on purpose, switch \
        off what needs it, too.",
    @UNREACHABLE "See why the node does not reach that address: the service behind it, DNS, proxy, firewall, NetworkPolicy.",
    @CERTIFICATE @SYSTEMD "Check the node's clock (`date -u`), and whether the node knows the authority that signed the certificate.",
    @PORT_TAKEN @SYSTEMD "Find the process that has the port: `ss -lntp`. End it, or give one of the two another port.",
    @OTHER_ARCHITECTURE "Use an image for this node's architecture (`uname -m`).",
    @LIBRARY_MISSING "If it is a library of NVIDIA's driver, name the driver's root in the chart's values: `/run/nvidia/driver` for a driver \
        container's, `/` for the host's. If it is the program's own, use another release of it.",
    @ACCESS_REFUSED @SYSTEMD "Find out who refuses: SELinux (`ausearch -m avc -ts recent`), AppArmor (`dmesg | grep DENIED`), or a mount with \
        `noexec` or `ro` (`findmnt --target PATH`). A file's mode refuses a program that does not run as root. Install the policy or correct the \
        mount, and leave the protection on.",
    @NOT_SUPPORTED "Use a release that supports what the words name, or leave such nodes out of the policy (`nodeSelector`).",
];

// SPDX-License-Identifier: Apache-2.0
//! Steps that the words of the evidence decide, whatever the finding: they stand before those of its row.

use super::fact::{
    ACCESS_REFUSED, CERTIFICATE, COMPILER_UNFIT, FORBIDDEN, HEADERS_MISSING, KEY_REJECTED, KIND_MISSING,
    LIBRARY_MISSING, LOG_ADVISES, NO_SOCKET, NO_SPACE, NOT_SUPPORTED, OTHER_ARCHITECTURE, OUT_OF_MEMORY,
    PORT_TAKEN, QUOTA_EXCEEDED, READ_ONLY, REFUSED_BY_RULE, SOURCE_UNFIT, SYMBOL_MISSING, SYSTEMD,
    UNREACHABLE,
};
use peermem_gate::steps;
use peermem_gate::words::remedy::Step;

/// Those of a finding that names its reason ([`super::Finding::because`]), or the advice of a log.
pub(super) const STEPS: &[Step] = steps![
    @LOG_ADVISES "Check the advice of the container's own log, and follow it if it fits: {advice}.",
    @COMPILER_UNFIT "Build with {kernel-compiler}: install it as `cc` and `gcc` (`update-alternatives`); \
        a container needs an image with it. A newer release fails in the same way.",
    @SOURCE_UNFIT "Use a release that supports this kernel: another build of this one fails in the same way.",
    @HEADERS_MISSING "Install this kernel's headers (`linux-headers-$(uname -r)` or `kernel-devel-$(uname -r)`) where the build runs, or \
        boot a kernel that has them.",
    @SYMBOL_MISSING "Use a release that needs no such symbol: NVIDIA's open kernel modules for a GPL-only one, or a newer driver.",
    @OUT_OF_MEMORY "Give it more memory: `dmesg | grep -i oom` shows whose limit it was.",
    @KEY_REJECTED @SYSTEMD "Use a module that this machine's keys sign, or enroll the key: `mokutil --import KEY.der`, then reboot and confirm. Or switch the part off that loads it.",
    @NO_SPACE @SYSTEMD "Make room there: `df -h`, `df -i`; `crictl rmi --prune` removes unused images.",
    @READ_ONLY "If the operating system brings that part itself, switch the operator's own off, such as `toolkit.enabled: false`.",
    @QUOTA_EXCEEDED "Raise that quota, or free what it counts: `kubectl get resourcequota -A`, `kubectl get pod -A -o wide`.",
    @REFUSED_BY_RULE "Ask that rule's owners for an exception for the operator's namespace.",
    @FORBIDDEN "Install or upgrade that operator's whole chart, with its RBAC and CRDs. `kubectl auth can-i VERB RESOURCE \
        --as=ACCOUNT`, with the line's words, shows whether the account has its right.",
    @KIND_MISSING "Update that chart's CRDs, which `helm upgrade` leaves as they are (`kubectl api-resources` shows the kinds).",
    @NO_SOCKET "See whether the service behind that socket runs, and whether its path is right; or switch off what needs it.",
    @UNREACHABLE "See why the node does not reach it: the service, DNS, proxy, firewall, NetworkPolicy.",
    @CERTIFICATE @SYSTEMD "Check the node's clock (`date -u`), and the authority that signed the certificate.",
    @PORT_TAKEN @SYSTEMD "Find the process that has the port (`ss -lntp`), and end it, or give one of the two another.",
    @OTHER_ARCHITECTURE "Use an image for this node's architecture (`uname -m`).",
    @LIBRARY_MISSING "If it is of NVIDIA's driver, name the driver's root in the chart's values: `/run/nvidia/driver` for a driver \
        container's, `/` for the host's. Otherwise use another release of the program.",
    @ACCESS_REFUSED @SYSTEMD "Find out who refuses: SELinux (`ausearch -m avc -ts recent`), AppArmor (`dmesg | grep DENIED`), a mount with \
        `noexec` or `ro` (`findmnt --target PATH`). A file's mode refuses a program that does not run as root. Install the policy or correct the \
        mount, and leave the protection on.",
    @NOT_SUPPORTED "Use a release that supports it, or leave such nodes out of the policy (`nodeSelector`).",
];

// SPDX-License-Identifier: Apache-2.0
//! Who uses a module, whatever the names: /proc/modules lists the users of each in the order of their dependence, a
//! reference beyond theirs is of no module, and a mount shows a disk.

use super::{Case, listing};
use crate::finding::Finding;
use crate::finding::fact::{HELD_BY_DISK, HOLDER_IS_HARMLESS};
use peermem_gate::ready::observation::ProcModule;
use peermem_gate::words::remedy::CommandText;

/// What openibd unloads itself (`mlnx-ofa_kernel`, `mod_load_funcs`), beside all of mlx4 and mlx5.
const STACK: [&str; 11] = words! {
    "ib_cm" "ib_core" "ib_ipoib" "ib_ucm" "ib_umad" "ib_uverbs" "iw_cm" "mlx_compat" "mlxfw" "rdma_cm"
    "rdma_ucm"
};

/// The finding, with the users of a module: those that its log names, and those that the kernel lists.
pub(super) fn held(case: &Case<'_>, finding: Finding, module: &str, named: &str) -> Finding {
    let named = named.split([' ', ',']).filter(|name| !name.is_empty());
    let listed = case.outside(module, is_of_the_stack);
    let lines = listed.iter().filter_map(|name| case.line(name));
    let finding = finding.all(lines.map(|line| ("/proc/modules", listing(line))));
    let holders: Vec<_> = named.chain(listed.iter().copied()).collect();
    let order = case.in_order(&holders);
    let is_idle = !order.is_empty() && order.iter().all(|name| case.line(name).is_some_and(is_idle));
    let disks: Vec<_> = order.iter().flat_map(|name| case.disks_of(name)).collect();
    let is_of_disks = !disks.is_empty();
    let finding = finding.all(disks.into_iter().map(|disk| ("/proc/1/mountinfo", disk)));
    let finding = finding.word("in-order", in_command(&order));
    // Of a reference that neither a module nor a mount explains, the reader has to judge.
    if is_of_disks || is_idle {
        finding.with(HELD_BY_DISK, is_of_disks).with(HOLDER_IS_HARMLESS, !is_of_disks)
    } else {
        finding
    }
}

/// The names for `rmmod`.
pub(super) fn in_command(order: &[&str]) -> CommandText {
    let words = order.iter().map(|name| CommandText::plain(name, "MODULE"));
    if order.is_empty() { "MODULE".into() } else { CommandText::joined(words, " ") }
}

fn is_of_the_stack(module: &str) -> bool {
    STACK.contains(&module) || module.starts_with("mlx4_") || module.starts_with("mlx5_")
}

/// Nothing but other modules uses it.
fn is_idle(line: &ProcModule) -> bool {
    let users = line.users.iter().filter(|user| !user.is_empty()).count();
    line.refcount.is_some_and(|count| usize::try_from(count).is_ok_and(|count| count <= users))
}

impl Case<'_> {
    /// The modules that use this one, also by way of others of its family: who replaces the family unloads only that.
    pub(super) fn outside<'c>(&'c self, module: &'c str, is_family: fn(&str) -> bool) -> Vec<&'c str> {
        let (mut found, mut open) = (Vec::new(), vec![module]);
        let mut seen: Vec<&str> = Vec::new();
        while let Some(one) = open.pop() {
            for user in self.users(one) {
                match (seen.contains(&user), is_family(user)) {
                    (true, _) => {}
                    (false, true) => open.push(user),
                    (false, false) => found.push(user),
                }
                seen.push(user);
            }
        }
        found
    }

    /// These in the order in which they can be unloaded: each behind all that use it.
    pub(super) fn in_order<'c>(&'c self, modules: &[&'c str]) -> Vec<&'c str> {
        fn add<'c>(case: &'c Case<'_>, module: &'c str, depth: usize, order: &mut Vec<&'c str>) {
            /// No chain of modules is longer.
            const DEEPEST: usize = 16;
            if order.contains(&module) || depth > DEEPEST {
                return;
            }
            case.users(module).for_each(|user| add(case, user, depth + 1, order));
            order.push(module);
        }
        let mut order = Vec::new();
        for module in modules {
            add(self, module, 0, &mut order);
        }
        order
    }

    fn users<'c>(&'c self, module: &'c str) -> impl Iterator<Item = &'c str> {
        let users = self.line(module).into_iter().flat_map(|line| &line.users);
        users.map(String::as_str).filter(|user| !user.is_empty())
    }

    /// Disks with the name of this module (`nvme` has nvme0n1p2) on which a file system is mounted.
    fn disks_of(&self, module: &str) -> Vec<String> {
        let stem = module.split('_').next().unwrap_or(module);
        let is_its =
            |name: &str| name.strip_prefix(stem).is_some_and(|rest| rest.starts_with(char::is_numeric));
        let mounts = self.host_view().and_then(|view| view.mounts.as_ref().ok());
        let disks = mounts.into_iter().flat_map(|mounts| &mounts.disks);
        let its = disks.filter(|(device, _)| is_its(device));
        its.map(|(device, point)| format!("{device}, of {module}, is mounted at {}", point.display()))
            .collect()
    }
}

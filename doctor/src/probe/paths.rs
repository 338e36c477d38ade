// SPDX-License-Identifier: Apache-2.0
//! Reads for `paths`: GPUs, RDMA NICs, the bridges above them, and the kernel's functions for DMA-BUF.

use super::{information, line_after, pci};
use crate::symptoms::PciFunction;
use crate::symptoms::paths::{BridgeControl, DmaBufSymbols, GpuDevice, NicDevice, PathsSeen};
use peermem_gate::ready::files::read::{lines, link, names, open, small, unreadable};
use peermem_gate::ready::node::Places;
use peermem_gate::ready::observation::Seen;
use peermem_gate::ready::probe::{MELLANOX, address, vendor};
use peermem_gate::survey::expected::NVIDIA;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

/// Some ten times the largest.
const KALLSYMS: u64 = 128 * 1024 * 1024;
/// Its first lines have the flags of the first processor.
const CPUINFO: u64 = 64 * 1024;
/// A PCI Express function's configuration space.
const SPACE: usize = 4096;
/// Its first part, which every user may read.
const STANDARD: usize = 256;
/// Extended capabilities begin here (PCI Express Base Specification, 7.6).
const EXTENDED: usize = 0x100;
/// The identity of Access Control Services, and where its control register is.
const ACS: (u32, usize) = (0x000d, 6);
/// An RDMA driver's function for DMA-BUFs is named after the driver: `mlx5_ib_reg_user_mr_dmabuf`.
const REGISTERS: &str = "_reg_user_mr_dmabuf";
const P2PDMA: &str = "pci_p2pdma_";

/// Looks at all of it.
pub fn paths(places: &Places) -> PathsSeen {
    let client = places.sys.join("kernel/mm/memory_peers/nv_mem");
    let registered = small(&client.join("num_alloc_mrs")).ok().flatten();
    let driver = places.proc.join("driver/nvidia/version");
    let kallsyms = places.proc.join("kallsyms");
    PathsSeen {
        gpus: gpus(places),
        nics: nics(&places.sys),
        symbols: (kallsyms.clone(), symbols(&kallsyms)),
        driver: (driver.clone(), small(&driver).map(|text| text.as_deref().and_then(first_line))),
        registered: registered.and_then(|number| number.parse().ok()),
        client: (client.clone(), client.join("version").symlink_metadata().is_ok()),
        is_guest: is_guest(&places.proc.join("cpuinfo")),
    }
}

fn first_line(text: &str) -> Option<String> {
    text.lines().next().map(str::to_owned)
}

fn gpus(places: &Places) -> Seen<Vec<GpuDevice>> {
    let gpu = |function: PciFunction| GpuDevice {
        model: information(&super::gpus(&places.proc).join(&function.address), "Model:"),
        above: above(&places.sys, &function.address),
        function,
    };
    let functions = pci::functions(&places.sys, NVIDIA)?;
    Ok(functions.into_iter().filter(PciFunction::is_gpu).map(gpu).collect())
}

/// RDMA devices, then Mellanox functions that have none.
fn nics(sys: &Path) -> Seen<Vec<NicDevice>> {
    let class = sys.join("class/infiniband");
    let mut nics = Vec::new();
    for name in names(&class)?.unwrap_or_default() {
        // A device of software (rxe, siw) reads no other device's memory.
        let Some(address) = address(&class.join(&name)) else { continue };
        nics.push(nic(sys, Some(name), &address));
    }
    let is_new = |function: &PciFunction| {
        function.is_network()
            && !function.is_virtual
            && nics.iter().all(|nic| nic.function.address != function.address)
    };
    let others: Vec<_> = pci::functions(sys, MELLANOX)?.into_iter().filter(is_new).collect();
    nics.extend(others.into_iter().map(|function| nic(sys, None, &function.address)));
    Ok(nics)
}

fn nic(sys: &Path, name: Option<String>, address: &str) -> NicDevice {
    let directory = sys.join("bus/pci/devices").join(address);
    let own_way = small(&directory.join("p2p")).ok().flatten();
    NicDevice {
        name,
        function: pci::function(&directory),
        has_rdma_driver: sys.join("module/mlx5_ib").is_dir(),
        vendor: vendor(&directory.join("vendor")).ok(),
        own_way: own_way.filter(|text| !text.is_empty() && text != "NA"),
        above: above(sys, address),
    }
}

/// The bridges on the way to the root complex: the directories that a device's link passes.
fn above(sys: &Path, address: &str) -> Vec<BridgeControl> {
    let Ok(target) = link(&sys.join("bus/pci/devices").join(address)) else { return Vec::new() };
    let parts: Vec<_> = target.components().filter_map(|part| part.as_os_str().to_str()).collect();
    let from = parts.iter().position(|part| *part == "devices").unwrap_or(parts.len());
    let mut directory = sys.to_owned();
    let mut bridges = Vec::new();
    for part in &parts[from..] {
        directory.push(part);
        if is_address(part) && *part != address {
            bridges.push(BridgeControl {
                address: (*part).to_owned(),
                control: control(&directory.join("config")),
            });
        }
    }
    bridges
}

/// `0000:01:00.0`.
fn is_address(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_hexdigit() || ":.".contains(c);
    name.len() >= 12 && name.matches(':').count() == 2 && name.contains('.') && name.chars().all(is_allowed)
}

fn control(config: &Path) -> Result<Option<u16>, String> {
    let mut space = Vec::new();
    let read = open(config).and_then(|file| file.take(SPACE as u64).read_to_end(&mut space));
    read.map_err(|error| unreadable(config, &error).to_string())?;
    if space.len() < STANDARD {
        return Err(format!("{}: only root reads all of it", config.display()));
    }
    Ok(access_control(&space))
}

/// The control register of Access Control Services, in a configuration space.
fn access_control(space: &[u8]) -> Option<u16> {
    /// As many capabilities as fit.
    const MOST: usize = SPACE / 8;
    let (identity, register) = ACS;
    let mut at = EXTENDED;
    for _ in 0..MOST {
        let header = u32::from_le_bytes(space.get(at..at + 4)?.try_into().ok()?);
        if header & 0xffff == identity {
            let control = space.get(at + register..at + register + 2)?;
            return Some(u16::from_le_bytes(control.try_into().ok()?));
        }
        at = usize::try_from(header >> 20).ok()? & !3;
        if at < EXTENDED {
            return None;
        }
    }
    None
}

fn symbols(kallsyms: &Path) -> Seen<DmaBufSymbols> {
    let mut seen = DmaBufSymbols::default();
    let read = lines(kallsyms, KALLSYMS, |line| {
        note(line, &mut seen);
        ControlFlow::Continue(())
    });
    read.map(|_| seen).map_err(|error| unreadable(kallsyms, &error))
}

/// `0000000000000000 t mlx5_ib_reg_user_mr_dmabuf\t[mlx5_ib]`; the kernel's own have no module.
fn note(line: &[u8], seen: &mut DmaBufSymbols) {
    let Ok(line) = std::str::from_utf8(line) else { return };
    let mut fields = line.split([' ', '\t']).skip(1);
    let (Some(kind), Some(name)) = (fields.next(), fields.next()) else { return };
    let module = fields.next().and_then(|word| word.strip_prefix('[')?.strip_suffix(']'));
    let is_function = matches!(kind, "t" | "T");
    match module {
        None => {
            seen.has_core = true;
            seen.has_p2pdma |= is_function && name.starts_with(P2PDMA);
        }
        Some(module) if !seen.modules.contains(module) => _ = seen.modules.insert(module.to_owned()),
        Some(_) => {}
    }
    if let Some(driver) = name.strip_suffix(REGISTERS).filter(|_| is_function) {
        seen.registering.extend([driver, module.unwrap_or(driver)].map(str::to_owned));
    }
}

/// The first processor's flags name the hypervisor (x86).
pub(super) fn is_guest(cpuinfo: &Path) -> bool {
    line_after(cpuinfo, CPUINFO, "flags")
        .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_register_is_found_behind_other_capabilities() {
        let mut space = vec![0; 4096];
        space[0x100..0x104].copy_from_slice(&0x2a01_0001_u32.to_le_bytes());
        space[0x2a0..0x2a4].copy_from_slice(&0x0001_000d_u32.to_le_bytes());
        space[0x2a6..0x2a8].copy_from_slice(&0x001d_u16.to_le_bytes());
        assert_eq!(access_control(&space), Some(0x1d));
        assert_eq!(access_control(&space[..0x200]), None);
        // A list that leads back to itself ends.
        space[0x2a0..0x2a4].copy_from_slice(&0x1001_0002_u32.to_le_bytes());
        assert_eq!(access_control(&space), None);
    }

    #[test]
    fn a_driver_registers_by_its_own_function_only() {
        let mut seen = DmaBufSymbols::default();
        for line in words! {
            "0 t mlx5_ib_reg_user_mr_dmabuf\t[mlx5_ib]" "0 d efa_reg_user_mr_dmabuf\t[efa]"
            "0 t irdma_reg_user_mr\t[irdma]" "0 T pci_p2pdma_add_resource"
            "0 r __ksymtab_pci_p2pdma_add_resource" "odd"
        } {
            note(line.as_bytes(), &mut seen);
        }
        assert!(seen.has_core && seen.has_p2pdma);
        assert_eq!(seen.registering.into_iter().collect::<Vec<_>>(), ["mlx5_ib"]);
        assert_eq!(seen.modules.into_iter().collect::<Vec<_>>(), ["efa", "irdma", "mlx5_ib"]);
    }

    #[test]
    fn a_bridge_is_named_by_its_address() {
        assert!(["0000:01:00.0", "10000:e0:06.0"].iter().all(|name| is_address(name)));
        assert!(["pci0000:00", "devices", "0000:01", "infiniband"].iter().all(|name| !is_address(name)));
    }
}

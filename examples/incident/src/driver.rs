// SPDX-License-Identifier: Apache-2.0
//! The GPU driver's root on the scratch tree: its sources, the kernel's headers, and module files as
//! a compiler would leave them, made by hand for the node's machine.

#[path = "../../../src/peermem/module_file/tests/image.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod image;

use crate::node::{KERNEL, Node, PEER_MEMORY};
use image::Image;
use std::io;

pub(crate) const VERSION: &str = "580.95.05";
const P2P: [(&str, u32); 2] = [("nvidia_p2p_get_pages", 0x8561_e0cf), ("nvidia_p2p_put_pages", 0xf128_f5e3)];
const BUILD_ID: [u8; 20] = [0x5a; 20];

fn modules() -> String {
    format!("driver/lib/modules/{KERNEL}")
}

/// The file that modprobe would load.
pub(crate) fn module() -> String {
    format!("{}/kernel/drivers/video/nvidia-peermem.ko", modules())
}

/// The note of the loaded nvidia, as sysfs shows it.
pub(crate) fn build_id_note() -> Vec<u8> {
    [&[4_u32, 20, 3].map(u32::to_le_bytes).concat()[..], b"GNU\0", &BUILD_ID].concat()
}

/// Everything that a build takes is there; nvidia-peermem.ko is not.
pub(crate) fn unpack(node: &Node) -> io::Result<()> {
    let (modules, sources) = (modules(), format!("driver/usr/src/nvidia-{VERSION}"));
    let video = "kernel/drivers/video";
    for (name, text) in [
        (format!("{sources}/Kbuild"), format!("ccflags-y += -DNV_VERSION_STRING=\\\"{VERSION}\\\"\n")),
        (format!("{sources}/conftest.sh"), "MLNX_OFED_KERNEL_DIR=/usr/src/ofa_kernel\n".to_owned()),
        (
            format!("{modules}/modules.dep"),
            format!("{video}/nvidia.ko:\n{video}/nvidia-peermem.ko: {video}/nvidia.ko\n"),
        ),
    ] {
        node.write(&name, text)?;
    }
    for name in ["Makefile", "common/inc/nv.h", "nvidia-peermem/nvidia-peermem.Kbuild", "nvidia/nv-p2p.h"] {
        node.write(&format!("{sources}/{name}"), "\n")?;
    }
    for name in ["build/Makefile", "build/include/generated/autoconf.h"] {
        node.write(&format!("{modules}/{name}"), "\n")?;
    }
    for name in ["usr/bin/make", "usr/bin/gcc", "usr/sbin/depmod"] {
        node.write_program(&format!("driver/{name}"))?;
    }
    node.write("driver/var/lib/state", "")?;
    node.write(&format!("{modules}/{video}/nvidia.ko"), nvidia())?;
    node.write("built/stub.ko", peermem(&[]))?;
    node.write("built/real.ko", peermem(&[&PEER_MEMORY[..], &P2P].concat()))
}

fn nvidia() -> Vec<u8> {
    let mut image = image("nvidia", "");
    image.build_id(&BUILD_ID);
    for (symbol, crc) in P2P {
        image.export_absolute(symbol, crc);
    }
    of_the_nodes_machine(&image)
}

/// A stub imports nothing of MOFED's and of nvidia's.
fn peermem(imports: &[(&str, u32)]) -> Vec<u8> {
    let mut image = image("nvidia_peermem", if imports.is_empty() { "" } else { "nvidia,ib_uverbs" });
    let versions: Vec<_> = imports.iter().map(|(symbol, crc)| (*symbol, u64::from(*crc))).collect();
    image.versions(&[&[("module_layout", 0x9060_323f)][..], &versions].concat());
    for (symbol, _) in imports {
        image.import(symbol);
    }
    of_the_nodes_machine(&image)
}

fn image(name: &str, depends: &str) -> Image {
    let lines = [
        "license=Dual BSD/GPL".to_owned(),
        format!("depends={depends}"),
        format!("name={name}"),
        format!("version={VERSION}"),
        format!("vermagic={KERNEL} SMP preempt mod_unload modversions aarch64"),
    ];
    Image::new(&lines.each_ref().map(String::as_str))
}

fn of_the_nodes_machine(image: &Image) -> Vec<u8> {
    /// elf(5): `EM_AARCH64`.
    const AARCH64: u8 = 0xb7;
    let mut bytes = image.build();
    bytes[18] = AARCH64;
    bytes
}

// SPDX-License-Identifier: Apache-2.0
//! The report of `inspect`: what a file says of itself, and what it is good for.

use crate::offline::{Expected, FileReason, Fitness, judge};
use peermem_gate::ready::PEER_MEMORY_SYMBOLS;
use peermem_gate::ready::observation::ModuleInfo;
use peermem_gate::words::report::style::{Style, Tone};
use peermem_gate::words::report::{SCHEMA, hanging};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// One file; its JSON form is stable (contract: `peermem-gate/v1`).
#[derive(Clone, Debug, Serialize)]
pub struct InspectedFile {
    schema: &'static str,
    version: &'static str,
    file: String,
    verdict: Fitness,
    reason: FileReason,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<&'static str>,
    #[serde(flatten)]
    module: Option<Module>,
}

/// A module by its own account.
#[derive(Clone, Debug, Serialize)]
struct Module {
    name: String,
    kernel: String,
    vermagic: String,
    arch: String,
    /// `MODULE_VERSION`, which is the driver's.
    nvidia: Option<String>,
    signed: bool,
    signer: Option<String>,
    build_id: Option<String>,
    /// The CRCs that it was built against, of the two symbols that MOFED exports.
    peer_memory: BTreeMap<&'static str, Option<String>>,
}

impl InspectedFile {
    /// A file that was read, judged.
    pub fn read(path: &Path, info: ModuleInfo, signer: Option<String>, expected: &Expected) -> Self {
        let file_name = path.file_name().unwrap_or_default().to_string_lossy();
        let (reason, message) = judge(&info, &file_name, expected);
        let crc = |symbol: &str| info.versions.get(symbol).map(|crc| format!("{crc:#010x}"));
        let module = Module {
            peer_memory: PEER_MEMORY_SYMBOLS.map(|symbol| (symbol, crc(symbol))).into(),
            kernel: info.release().to_owned(),
            name: info.name,
            vermagic: info.vermagic,
            arch: info.machine,
            nvidia: info.version,
            signed: info.signed,
            signer,
            build_id: info.build_id,
        };
        Self { module: Some(module), ..Self::unread(path, reason, message) }
    }

    /// A file that says nothing.
    pub fn unread(path: &Path, reason: FileReason, message: String) -> Self {
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            file: path.display().to_string(),
            verdict: reason.fitness(),
            reason,
            message,
            remedy: reason.remedy(),
            module: None,
        }
    }

    /// The fitness of the file.
    pub fn fitness(&self) -> Fitness {
        self.verdict
    }

    /// The verdict and the file, what it says of itself, why, and what a person can do.
    pub fn text(&self, style: Style) -> String {
        let mut page = crate::text::page(style.columns);
        let tone = match self.verdict {
            Fitness::Usable => Tone::Good,
            Fitness::Unfit => Tone::Bad,
            Fitness::Unknown => Tone::Unknown,
        };
        page.painted(format_args!("{}: {}: {}", self.verdict, self.reason, self.file), style.tone(tone));
        page.entry(&indented(), &self.message);
        if let Some(module) = &self.module {
            page.entry(&indented(), module.sentence());
        }
        if let Some(remedy) = self.remedy {
            page.entry(&indented(), format_args!("what to do: {remedy}"));
        }
        page.into_text()
    }
}

fn indented() -> peermem_gate::text::LinePrefixText {
    peermem_gate::text::LinePrefixText { first: " ".repeat(4), ..hanging(4) }
}

impl Module {
    fn sentence(&self) -> String {
        let version = self.nvidia.as_deref().unwrap_or("of no version");
        let signed = match (&self.signer, self.signed) {
            (Some(signer), _) => format!("signed by {signer}"),
            (None, true) => "signed, by an unknown form of signature".to_owned(),
            (None, false) => "not signed".to_owned(),
        };
        format!("{} {version} for kernel {} ({}), {signed}", self.name, self.kernel, self.arch)
    }
}

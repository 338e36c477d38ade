// SPDX-License-Identifier: Apache-2.0
//! Settings in a runtime's configuration file. Text in, plain data out.

use crate::symptoms::runtime::{CRI_TABLES, CdiSpec, Handler, RuntimeSettings, cri_table};
use serde::Deserialize;
use std::collections::BTreeSet;
use toml::{Table, Value};

/// The longest version of a driver.
const VERSION: usize = 16;

/// Where a runtime's program is named; the others are of version 1's runtimes.
const BINARY: &[&[&str]] = &[&["options", "BinaryName"], &["options", "Runtime"], &["runtime_engine"]];
/// containerd, plugins/nri.
const NRI: &str = "io.containerd.nri.v1.nri";
/// Where version 4 keeps the socket; older ones have `[grpc]`.
const GRPC: &str = "io.containerd.server.v1.grpc";

/// A file of containerd's.
///
/// # Errors
/// When it is not TOML: the line, and the parser's words.
pub fn of_containerd(text: &str) -> Result<RuntimeSettings, String> {
    let file = parse(text)?;
    let version = file.get("version").and_then(Value::as_integer).unwrap_or(1);
    let plugins = table(&file, "plugins");
    let plugin = |name: &str| plugins.and_then(|plugins| table(plugins, name));
    let cri = plugin(cri_table(version));
    let containerd = cri.and_then(|cri| table(cri, "containerd"));
    let strings = |values: &Value| {
        values.as_array().map(|all| all.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    };
    let others = CRI_TABLES.iter().filter(|name| **name != cri_table(version));
    let has_nvidia = |name: &&&str| {
        let runtimes = plugin(name).and_then(|cri| table(table(cri, "containerd")?, "runtimes"));
        runtimes.is_some_and(|runtimes| handlers(runtimes, BINARY).iter().any(Handler::is_nvidias))
    };
    let address = plugin(GRPC).or_else(|| table(&file, "grpc")).and_then(|grpc| text_at(grpc, "address"));
    Ok(RuntimeSettings {
        version,
        imports: file.get("imports").and_then(strings),
        address: address.filter(|address| !address.is_empty()),
        default_runtime: containerd.and_then(|c| text_at(c, "default_runtime_name")),
        handlers: containerd
            .and_then(|containerd| table(containerd, "runtimes"))
            .map(|runtimes| handlers(runtimes, BINARY))
            .unwrap_or_default(),
        other_tables: others.filter(has_nvidia).map(|name| (*name).to_owned()).collect(),
        enable_cdi: cri.and_then(|cri| cri.get("enable_cdi")).and_then(Value::as_bool),
        nri: plugin(NRI).and_then(|nri| nri.get("disable")).and_then(Value::as_bool).map(|off| !off),
    })
}

/// A file of CRI-O's (cri-o, docs/crio.conf.5.md). It has no version and no imports.
///
/// # Errors
/// As [`of_containerd`].
pub fn of_crio(text: &str) -> Result<RuntimeSettings, String> {
    let file = parse(text)?;
    let crio = table(&file, "crio");
    let runtime = crio.and_then(|crio| table(crio, "runtime"));
    let nri = crio.and_then(|crio| table(crio, "nri")?.get("enable_nri")?.as_bool());
    Ok(RuntimeSettings {
        address: crio.and_then(|crio| text_at(table(crio, "api")?, "listen")),
        default_runtime: runtime.and_then(|runtime| text_at(runtime, "default_runtime")),
        handlers: runtime
            .and_then(|runtime| table(runtime, "runtimes"))
            .map(|runtimes| handlers(runtimes, &[&["runtime_path"]]))
            .unwrap_or_default(),
        nri,
        ..RuntimeSettings::default()
    })
}

/// `580.95.05` of `/usr/lib64/libcuda.so.580.95.05`: a driver's libraries are named by its version.
fn library_versions(spec: &str) -> BTreeSet<String> {
    let behind = spec.split(".so.").skip(1);
    let version = behind.map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        rest[..end].trim_end_matches('.')
    });
    version.filter(|version| version.len() <= VERSION && version.contains('.')).map(str::to_owned).collect()
}

/// The part of a CDI specification that the node shows too; of one that cannot be parsed only the versions.
pub fn cdi_spec(text: &str) -> CdiSpec {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct CdiDocument {
        container_edits: CdiEdits,
        devices: Vec<CdiDevice>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct CdiDevice {
        container_edits: CdiEdits,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct CdiEdits {
        device_nodes: Vec<CdiNode>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct CdiNode {
        path: String,
        #[serde(rename = "hostPath")]
        host_path: Option<String>,
        major: Option<u64>,
        minor: Option<u64>,
    }
    let CdiDocument { container_edits, devices } = serde_saphyr::from_str(text).unwrap_or_default();
    let edits =
        std::iter::once(container_edits).chain(devices.into_iter().map(|device| device.container_edits));
    let nodes = edits.flat_map(|edits| edits.device_nodes);
    let nodes = nodes.map(|node| (node.host_path.unwrap_or(node.path), node.major.zip(node.minor)));
    CdiSpec { versions: library_versions(text), nodes: nodes.collect() }
}

/// `nvidia-container-runtime.mode` of the toolkit's configuration; `None` where it has none or cannot be parsed.
pub fn toolkit_mode(text: &str) -> Option<String> {
    let table = parse(text).ok()?;
    let mode = table.get("nvidia-container-runtime")?.get("mode")?.as_str()?;
    Some(mode.to_owned())
}

fn parse(text: &str) -> Result<Table, String> {
    text.parse::<Table>().map_err(|error| {
        let line = error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        let at = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        format!("{at}{}", error.message())
    })
}

fn handlers(runtimes: &Table, binary: &[&[&str]]) -> Vec<Handler> {
    let is_crio = binary != BINARY;
    let at = |runtime: &Value, keys: &[&str]| {
        let found = keys.iter().try_fold(runtime, |value, key| value.get(key))?;
        found.as_str().filter(|path| !path.is_empty()).map(str::to_owned)
    };
    let named = |(name, runtime): (&String, &Value)| Handler {
        name: name.clone(),
        binary: binary.iter().find_map(|keys| at(runtime, keys)),
        // Version 1's runtimes of before have an engine in its place.
        has_type: is_crio
            || [&["runtime_type"], &["runtime_engine"]].iter().any(|keys| at(runtime, *keys).is_some()),
    };
    runtimes.iter().map(named).collect()
}

fn table<'a>(of: &'a Table, name: &str) -> Option<&'a Table> {
    of.get(name)?.as_table()
}

fn text_at(of: &Table, name: &str) -> Option<String> {
    of.get(name)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_version(version: &str, table: &str) -> RuntimeSettings {
        let text = format!(
            "{version}\n[plugins.\"{table}\".containerd]\ndefault_runtime_name = \"runc\"\n\
             [plugins.\"{table}\".containerd.runtimes.nvidia.options]\nBinaryName = \"/usr/bin/nvidia-container-runtime\"\n"
        );
        of_containerd(&text).unwrap()
    }

    #[test]
    fn each_containerd_version_has_its_own_table_name() {
        let right = [
            ("", "cri"),
            ("version = 1", "cri"),
            ("version = 2", "io.containerd.grpc.v1.cri"),
            ("version = 3", "io.containerd.cri.v1.runtime"),
            ("version = 4", "io.containerd.cri.v1.runtime"),
        ];
        for (version, table) in right {
            let settings = of_version(version, table);
            assert_eq!(settings.default_runtime.as_deref(), Some("runc"), "{version}");
            assert!(settings.handlers[0].is_nvidias() && settings.other_tables.is_empty(), "{version}");
            for other in CRI_TABLES.iter().filter(|other| **other != table) {
                let settings = of_version(version, other);
                assert!(settings.handlers.is_empty(), "{version} {other}");
                assert_eq!(settings.other_tables, [*other]);
            }
        }
    }

    #[test]
    fn an_error_in_a_toml_file_names_its_line() {
        let why = of_containerd("version = 2\n[plugins\n").unwrap_err();
        assert!(why.starts_with("line 2: "), "{why}");
        assert!(of_containerd("version = 2\nversion = 3\n").unwrap_err().starts_with("line 2: "));
        assert!(of_crio("[crio.runtime]\ndefault_runtime = \n").unwrap_err().starts_with("line 2: "));
    }

    #[test]
    fn a_specification_names_the_driver_by_its_libraries() {
        let spec = "hostPath: /usr/lib64/libcuda.so.580.95.05\n- hostPath: \"/x/libnvidia-ml.so.580.95.05\"\n\
                    hostPath: /usr/lib64/libc.so.6\nhostPath: /x/libEGL.so.570.8\nhostPath: /x/a.so.\n";
        let versions: Vec<_> = library_versions(spec).into_iter().collect();
        assert_eq!(versions, ["570.8", "580.95.05"]);
        assert!(library_versions(&".so.1".repeat(1000)).is_empty());
    }

    #[test]
    fn the_toolkits_mode_is_read_from_its_configuration() {
        let of = |mode: &str| toolkit_mode(&format!("[nvidia-container-runtime]\nmode = {mode}\n"));
        assert_eq!(of("\"cdi\"").as_deref(), Some("cdi"));
        assert_eq!((of("7"), toolkit_mode("mode = \"cdi\""), toolkit_mode("[")), (None, None, None));
    }

    #[test]
    fn containerd_settings_of_a_wrong_type_are_ignored() {
        let settings = of_containerd("version = \"2\"\nimports = \"x\"\nplugins = 7\n").unwrap();
        assert_eq!(settings, RuntimeSettings { version: 1, ..RuntimeSettings::default() });
    }
}

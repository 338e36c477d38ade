// SPDX-License-Identifier: Apache-2.0
//! A runtime's configuration: the main file, and the files that it imports (containerd,
//! cmd/containerd/server/config: breadth first, each file once; a pattern without a match is none).

use super::{entries, settings, text};
use crate::symptoms::runtime::{ConfigFile, Distribution, Runtime, RuntimeSettings, Unusable};
use peermem_gate::ready::files::read;
use peermem_gate::ready::files::read::unreadable;
use peermem_gate::ready::node::below;
use std::collections::VecDeque;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// For containerd 1, and for containerd 2.
const TEMPLATES: [&str; 2] = ["config.toml.tmpl", "config-v3.toml.tmpl"];
/// Where nvidia-ctk 1.19 puts CRI-O's drop-in, and CRI-O does not look (nvidia-container-toolkit PR 1829).
const CRIO_UNREAD: &str = "/etc/crio/conf.d";
/// A loop of imports ends by itself, each file being read once; a directory of thousands does not.
const MAX_FILES: usize = 100;

/// Reads all files of one runtime; its socket and process are for the caller to see.
pub(super) fn runtime(root: &Path, distribution: Distribution, config: &str, drop_ins: &[&str]) -> Runtime {
    let full = below(root, Path::new(config));
    let drop_ins: Vec<_> = drop_ins.iter().map(|directory| below(root, Path::new(directory))).collect();
    let parse = if distribution == Distribution::CriO { settings::of_crio } else { settings::of_containerd };
    let read = ConfigReader { root, parse };
    let (files, not_imported) = match distribution {
        // Every file of its directory counts.
        Distribution::CriO => {
            let files = read.with_directory(&full, &drop_ins);
            let unread = drop_ins.iter().all(|directory| *directory != below(root, Path::new(CRIO_UNREAD)));
            (files, if unread { read.beside(&below(root, Path::new(CRIO_UNREAD))) } else { Vec::new() })
        }
        _ => read.with_imports(&full, &drop_ins),
    };
    Runtime {
        distribution,
        config: PathBuf::from(config),
        socket: String::new(),
        has_socket: false,
        process: None,
        files,
        not_imported,
        bare_templates: bare_templates(root, distribution, &full),
    }
}

/// k3s and RKE2 write the configuration from a template beside it, if there is one, and from nothing else. Their own
/// settings are in it only by `{{ template "base" . }}`, or by what it was copied from (k3s, docs/advanced).
fn bare_templates(root: &Path, distribution: Distribution, config: &Path) -> Vec<PathBuf> {
    if !matches!(distribution, Distribution::K3s | Distribution::Rke2) {
        return Vec::new();
    }
    let beside = TEMPLATES.iter().map(|name| config.with_file_name(name));
    beside.filter(|path| text(root, path).is_ok_and(|text| !text.contains("{{"))).collect()
}

struct ConfigReader<'a> {
    root: &'a Path,
    parse: fn(&str) -> Result<RuntimeSettings, String>,
}

impl ConfigReader<'_> {
    fn with_directory(&self, main: &Path, directories: &[PathBuf]) -> Vec<ConfigFile> {
        let listed = directories.iter().flat_map(|directory| self.listed(directory));
        let drop_ins = listed.filter_map(|path| self.file(&path));
        self.file(main).into_iter().chain(drop_ins).take(MAX_FILES).collect()
    }

    /// The files in a directory that the runtime does not read.
    fn beside(&self, directory: &Path) -> Vec<ConfigFile> {
        let listed = entries(self.root, directory).unwrap_or_default();
        listed.into_iter().take(MAX_FILES).filter_map(|path| self.file(&path)).collect()
    }

    fn with_imports(&self, main: &Path, directories: &[PathBuf]) -> (Vec<ConfigFile>, Vec<ConfigFile>) {
        let mut files: Vec<ConfigFile> = Vec::new();
        let mut patterns = Vec::new();
        let mut pending = VecDeque::from([main.to_owned()]);
        while let Some(path) = pending.pop_front().filter(|_| files.len() < MAX_FILES) {
            if files.iter().any(|file| file.path == path) {
                continue;
            }
            let Some(file) = self.file(&path).or_else(|| (path != main).then(|| missing(&path))) else {
                continue;
            };
            for import in file.settings.iter().filter_map(|settings| settings.imports.as_ref()).flatten() {
                let import = self.absolute(&path, import);
                pending.extend(self.matching(&import));
                patterns.push(import);
            }
            files.push(file);
        }
        if files.is_empty() {
            // Its defaults count: since 2.2 they import the first of these directories.
            return (self.with_directory(main, &directories[..directories.len().min(1)]), Vec::new());
        }
        let is_covered = |path: &PathBuf| {
            let is_read = files.iter().any(|file| file.path == *path);
            is_read || patterns.iter().any(|pattern| is_match(pattern, path))
        };
        let beside =
            directories.iter().flat_map(|directory| entries(self.root, directory).unwrap_or_default());
        let left = beside.filter(|path| path.extension().is_some_and(|e| e == "toml") && !is_covered(path));
        let not_imported = left.take(MAX_FILES).filter_map(|path| self.file(&path)).collect();
        (files, not_imported)
    }

    fn absolute(&self, importer: &Path, import: &str) -> PathBuf {
        match Path::new(import) {
            path if path.is_absolute() => below(self.root, path),
            path => importer.parent().unwrap_or(self.root).join(path),
        }
    }

    /// The files that an import names.
    fn matching(&self, import: &Path) -> Vec<PathBuf> {
        if !import.to_string_lossy().contains('*') {
            return vec![import.to_owned()];
        }
        let directory = import.parent().unwrap_or(self.root);
        let is_one = |path: &PathBuf| path == directory || is_match(import, path);
        self.listed(directory).into_iter().filter(is_one).collect()
    }

    /// The files in a directory; or the directory itself, if it cannot be listed. Reading it gives the error.
    fn listed(&self, directory: &Path) -> Vec<PathBuf> {
        entries(self.root, directory).unwrap_or_else(|_| vec![directory.to_owned()])
    }

    /// `None` where there is no such file.
    fn file(&self, path: &Path) -> Option<ConfigFile> {
        let metadata = read::metadata(self.root, path);
        let read = metadata.and_then(|metadata| Ok((metadata.mtime(), text(self.root, path)?)));
        let (written, settings) = match read {
            Ok((written, text)) => (Some(written), (self.parse)(&text).map_err(Unusable::Broken)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => (None, Err(Unusable::Unreadable(unreadable(path, &error)))),
        };
        Some(ConfigFile { path: path.to_owned(), written, settings })
    }
}

/// An import by its full name that is not there: the runtime does not start.
fn missing(path: &Path) -> ConfigFile {
    let why = "it is imported, but does not exist".to_owned();
    ConfigFile { path: path.to_owned(), written: None, settings: Err(Unusable::Broken(why)) }
}

fn is_match(pattern: &Path, path: &Path) -> bool {
    let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::default() };
    let pattern = glob::Pattern::new(&pattern.to_string_lossy());
    pattern.is_ok_and(|pattern| pattern.matches_path_with(path, options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_cannot_be_listed_is_reported_as_unreadable() {
        let root = tempfile::tempdir().unwrap();
        let crio = root.path().join("etc/crio");
        std::fs::create_dir_all(&crio).unwrap();
        std::os::unix::fs::symlink("crio.conf.d", crio.join("crio.conf.d")).unwrap();
        let drop_ins = ["/etc/crio/crio.conf.d"];
        let runtime = runtime(root.path(), Distribution::CriO, "/etc/crio/crio.conf", &drop_ins);
        let settings: Vec<_> = runtime.files.iter().map(|file| &file.settings).collect();
        assert!(
            matches!(settings.as_slice(), [Err(Unusable::Unreadable(why))] if why.path.ends_with("crio.conf.d")),
            "{settings:?}"
        );
    }
}

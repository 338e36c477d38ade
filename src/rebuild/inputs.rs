// SPDX-License-Identifier: Apache-2.0
//! What a build reads, as one number: a build that failed is tried again when it has changed.

use super::Material;
use super::recipe;
use super::signing::{CERTIFICATE, KEY};
use crate::ready::files::root::resolve;
use crate::ready::node::below;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A number for the tools, headers, sources and symbols of a build. Only metadata is read: a new file has another
/// inode or time.
#[must_use]
pub fn fingerprint(material: &Material) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut hash = |root: &Path, path: &Path| {
        let metadata = resolve(root, &below(root, path)).and_then(|real| real.metadata());
        let id = metadata.ok().map(|m| (m.ino(), m.len(), m.mtime(), m.mtime_nsec()));
        (path, id).hash(&mut hasher);
    };
    material.tools.iter().for_each(|(tool, path)| hash(material.root_of(*tool), path));
    if let Some(headers) = &material.headers {
        hash(&material.build_root, headers);
        hash(&material.build_root, &headers.join("Makefile"));
    }
    for sources in &material.sources {
        hash(&sources.root, &sources.directory);
        for name in recipe::SOURCES {
            hash(&sources.root, &sources.directory.join(name));
        }
    }
    if let Some(signing) = &material.signing {
        for name in [KEY, CERTIFICATE] {
            hash(Path::new("/"), &signing.directory.join(name));
        }
    }
    material.symvers.as_ref().ok().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebuild::sample;
    use std::fs;

    #[test]
    fn a_new_compiler_header_source_or_symbol_makes_another_number() {
        let root = tempfile::tempdir().unwrap();
        let mut material = sample::material();
        (material.driver_root, material.build_root) = (root.path().to_owned(), root.path().to_owned());
        material.sources[0].root = root.path().to_owned();
        let nothing = fingerprint(&material);
        assert_eq!(fingerprint(&material), nothing);
        let mut seen = vec![nothing];
        let sources = &material.sources[0].directory;
        for path in [
            Path::new("/usr/bin/gcc"),
            &material.headers.as_ref().unwrap().join("Makefile"),
            &sources.join("conftest.sh"),
        ] {
            let path = below(root.path(), path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "new").unwrap();
            seen.push(fingerprint(&material));
        }
        material.symvers = material.symvers.map(|(path, text)| (path, text + "\n"));
        seen.push(fingerprint(&material));
        for (index, number) in seen.iter().enumerate() {
            assert!(!seen[..index].contains(number), "change {index} makes no difference");
        }
    }
}

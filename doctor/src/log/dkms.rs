// SPDX-License-Identifier: Apache-2.0
//! Builds of DKMS that failed: its `make.log`, which it leaves in `build` only then, and its own words, as a package
//! manager shows them (dkms, `do_build`, `report_build_problem`). Known by content, whatever the file's name. Pure.

use super::trouble::plain_trouble;

/// Modules that GPUs or RDMA need begin so.
const WATCHED: [&str; 12] =
    ["doca", "efa", "gdr", "ib_", "iser", "isert", "knem", "mlnx", "mlx", "nv", "rdma", "xpmem"];
/// Of the programs' words as much as fits.
const HEAD: &str = "make.log for ";
const BAD: &str = "Bad return status for module build on kernel: ";
const CONSULT: &str = "Consult /var/lib/dkms/";

/// A build that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DkmsFailure {
    /// `NAME/VERSION`.
    pub module: String,
    /// The kernel's release.
    pub kernel: String,
    /// What the compiler, or another command of the build, said of it; empty where the text has none of it.
    pub words: String,
}

/// The failed build that a text is of, if it is about one of a module that GPUs or RDMA need.
pub fn failed_build(text: &[u8]) -> Option<DkmsFailure> {
    let lines: Vec<_> = String::from_utf8_lossy(text).lines().map(|line| line.trim().to_owned()).collect();
    let found = lines.iter().find_map(|line| {
        // `DKMS (dkms-3.2.2) make.log for NAME/VERSION for kernel RELEASE (ARCH)`
        let (before, rest) = line.split_once(HEAD)?;
        let (module, rest) = rest.split_once(" for kernel ")?;
        let kernel = rest.split(' ').next()?;
        before.starts_with("DKMS ").then(|| (module.to_owned(), kernel.to_owned()))
    });
    let is_log = found.is_some();
    let (module, kernel) = found.or_else(|| by_own_words(&lines))?;
    let is_plain =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+-/~".contains(&byte));
    let is_watched = WATCHED.iter().any(|name| module.starts_with(name));
    let words = plain_trouble(text).filter(|_| is_log);
    let has_failed = !is_log || words.is_some() && lines.iter().any(|line| line.contains("*** ["));
    (is_watched && has_failed && is_plain(&module) && is_plain(&kernel)).then(|| DkmsFailure {
        module,
        kernel,
        words: words.unwrap_or_default(),
    })
}

/// `Error! Bad return status for module build on kernel: RELEASE (ARCH)`, and where its log is.
fn by_own_words(lines: &[String]) -> Option<(String, String)> {
    let at = lines.iter().position(|line| line.contains(BAD))?;
    let kernel = lines[at].split(BAD).nth(1)?.split(' ').next()?.to_owned();
    let path = lines[at..].iter().find_map(|line| line.split(CONSULT).nth(1))?;
    let mut parts = path.split('/');
    Some((format!("{}/{}", parts.next()?, parts.next()?), kernel))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "DKMS (dkms-3.2.2) make.log for efa-nv-peermem/1.2.2 for kernel 6.12.0 (x86_64)\n\
        make[1]: Entering directory '/usr/src/kernels/6.12.0'\n\
        x.o: error: objtool: cleanup_module(): Magic init_module() function name is deprecated\n\
        make[3]: *** [scripts/Makefile.build:239: x.o] Error 255\n# exit code: 2\n";

    #[test]
    fn a_failed_build_is_known_by_its_log_and_by_dkms_own_words() {
        let build = failed_build(LOG.as_bytes()).unwrap();
        assert_eq!((build.module.as_str(), build.kernel.as_str()), ("efa-nv-peermem/1.2.2", "6.12.0"));
        assert!(build.words.contains("Magic init_module()"), "{}", build.words);
        let own = "Error! Bad return status for module build on kernel: 6.12.0 (x86_64)\n\
            Consult /var/lib/dkms/nvidia/580.1/build/make.log for more information.\n";
        assert_eq!(failed_build(own.as_bytes()).unwrap().module, "nvidia/580.1");
        for other in [LOG.replace("*** [", "[").as_str(), &LOG.replace("efa-nv", "zfs"), "make.log for a", ""]
        {
            assert_eq!(failed_build(other.as_bytes()), None, "{other}");
        }
    }
}

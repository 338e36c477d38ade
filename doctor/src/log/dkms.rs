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
/// kbuild's, of two compilers.
const BUILT_BY: &str = "The kernel was built by: ";
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
    /// The compiler that built the kernel, where another one builds the module.
    pub compiler: String,
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
        compiler: lines
            .iter()
            .find_map(|line| line.split_once(BUILT_BY))
            .map_or_else(String::new, |(_, its)| short(its)),
    })
}

/// `gcc-12` of `x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0`, `gcc 11.4.1` of `gcc (GCC) 11.4.1 …`.
fn short(compiler: &str) -> String {
    let mut words = compiler.split_whitespace();
    let name = words.next().unwrap_or_default();
    let name =
        ["gcc", "clang"].iter().filter_map(|kind| name.rfind(kind)).max().map_or(name, |at| &name[at..]);
    let version = words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'));
    let version = version.filter(|_| !name.contains('-')).unwrap_or_default();
    format!("{name} {version}").trim().to_owned()
}

/// `Error! Bad return status for module build on kernel: RELEASE (ARCH)`, and where its log is.
fn by_own_words(lines: &[String]) -> Option<(String, String)> {
    let at = lines.iter().position(|line| line.contains(BAD))?;
    let kernel = lines[at].split(BAD).nth(1)?.split(' ').next()?.to_owned();
    let path = lines[at..].iter().find_map(|line| line.split(CONSULT).nth(1))?;
    let mut parts = path.split('/');
    Some((format!("{}/{}", parts.next()?, parts.next()?), kernel))
}

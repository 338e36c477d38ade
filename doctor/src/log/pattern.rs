// SPDX-License-Identifier: Apache-2.0
//! A pattern's words against a text: literal parts, and fields in angle brackets.
//!
//! `<version>` is one word; its name says what it may contain ([`may_hold`]). `<why..>` is whatever is
//! there, nothing included; `<chain..>` only what is kubelet's own ([`is_chain`]). The whole text must fit: what
//! comes before or behind them makes it another one.

use super::kubelet::is_chain;

/// The fields of a text that fits, by name.
pub(super) type Fields<'t> = Vec<(&'static str, &'t [u8])>;

/// No word that we look for is longer: kernel releases, paths.
const WORD: usize = 256;

/// The words before the first field.
pub(super) fn opening(words: &'static str) -> &'static str {
    words.split('<').next().unwrap_or_default()
}

/// How many bytes of the words are not of fields.
pub(super) fn own_words(words: &'static str) -> usize {
    words.split('<').map(|part| part.split_once('>').map_or(part, |(_, own)| own).len()).sum()
}

/// The fields, where the text fits the words.
pub(super) fn fit<'t>(words: &'static str, text: &'t [u8]) -> Option<Fields<'t>> {
    let mut fields = Fields::new();
    fits(words, text, &mut fields).then_some(fields)
}

fn fits<'t>(words: &'static str, text: &'t [u8], fields: &mut Fields<'t>) -> bool {
    let opening = opening(words);
    let Some(text) = text.strip_prefix(opening.as_bytes()) else { return false };
    let Some((name, rest)) = words[opening.len()..].strip_prefix('<').and_then(|rest| rest.split_once('>'))
    else {
        return text.is_empty();
    };
    let (name, is_word) = match name.strip_suffix("..") {
        Some(name) => (name, false),
        None => (name, true),
    };
    let next = self::opening(rest).as_bytes();
    let longest = if is_word {
        text.iter().position(|byte| *byte == b' ').unwrap_or(text.len()).min(WORD)
    } else {
        text.len()
    };
    ends(text, next, rest.is_empty(), longest).any(|end| {
        let field = &text[..end];
        if is_word && !may_hold(name, field) || name == "chain" && !is_chain(field) {
            return false;
        }
        fields.push((name, field));
        let fits = fits(rest, &text[end..], fields);
        if !fits {
            fields.pop();
        }
        fits
    })
}

/// Where a field may end: before the next literal part, or at the text's end where no part follows.
fn ends<'t>(
    text: &'t [u8],
    next: &'static [u8],
    is_last: bool,
    longest: usize,
) -> impl Iterator<Item = usize> + 't {
    let last = is_last.then_some(longest).filter(|end| *end == text.len());
    let inner =
        (!is_last).then(|| memchr::memmem::find_iter(text, next).take_while(move |end| *end <= longest));
    last.into_iter().chain(inner.into_iter().flatten())
}

/// Modules of the two stacks: a line of the kernel about any other does not count.
const MODULES: [&str; 36] = words! {
    "beegfs" "bnxt_re" "gdrdrv" "ib_cm" "ib_core" "ib_ipoib" "ib_iser" "ib_isert" "ib_srp" "ib_srpt" "ib_umad"
    "ib_uverbs" "irdma" "iw_cm" "ko2iblnd" "mana_ib" "mlx5_core" "mlx5_ib" "mlx5_vdpa" "mlx_compat" "mlxdevm"
    "mlxfw" "nouveau" "nv_peer_mem" "nvidia" "nvidia_drm" "nvidia_fs" "nvidia_modeset" "nvidia_peermem"
    "nvidia_uvm" "nvme_rdma" "nvmet_rdma" "rdma_cm" "rdma_ucm" "rds_rdma" "rpcrdma"
};

/// CNI plugins that give a pod an RDMA device.
const FABRICS: [&[u8]; 4] = [b"ib-sriov", b"ib-sriov-cni", b"ipoib", b"rdma"];

/// Why kubelet starts no container: what has never run. What ended says itself why.
const FAILURES: [&str; 4] =
    ["CreateContainerError", "CreateContainerConfigError", "RunContainerError", "InvalidImageName"];

/// May a field of this name contain this word?
fn may_hold(name: &str, word: &[u8]) -> bool {
    let all = |allowed: fn(u8) -> bool| word.iter().copied().all(allowed);
    !word.is_empty()
        && match name {
            "module" => MODULES.iter().any(|module| same_module(module, word)),
            "number" => all(|b| b.is_ascii_digit()),
            "version" => all(|b| b.is_ascii_alphanumeric() || b".-_+".contains(&b)),
            "symbol" => all(|b| b.is_ascii_alphanumeric() || b == b'_'),
            "bdf" => word.len() >= 7 && all(|b| b.is_ascii_hexdigit() || b":.".contains(&b)),
            "path" => word[0] == b'/',
            // Nothing of a container's author has a part in these.
            "stage" => matches!(word, b"initialization" | b"ldcache" | b"detection" | b"container"),
            // A GPU that has logged one of these works again after a reset (NVIDIA's Xid catalog).
            "xid" => matches!(word, b"48" | b"64" | b"95" | b"119" | b"120"),
            "fabric" => word.split(|b| b"\\\"".contains(b)).any(|part| FABRICS.contains(&part)),
            "failure" => FAILURES.iter().any(|failure| failure.as_bytes() == word),
            _ => true,
        }
}

/// Files have dashes where the kernel has underscores.
fn same_module(known: &str, word: &[u8]) -> bool {
    let folded = word.iter().map(|byte| if *byte == b'-' { b'_' } else { *byte });
    known.len() == word.len() && folded.eq(known.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(words: &'static str, text: &str) -> Option<Vec<(&'static str, String)>> {
        let fields = fit(words, text.as_bytes())?;
        Some(
            fields
                .into_iter()
                .map(|(name, field)| (name, String::from_utf8_lossy(field).into_owned()))
                .collect(),
        )
    }

    fn fit_as(words: &'static str, text: &str, expected: &[(&'static str, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(name, field)| (*name, (*field).to_owned())).collect();
        assert_eq!(fields(words, text), Some(expected), "{words} | {text}");
    }

    #[test]
    fn a_pattern_must_match_the_whole_text() {
        fit_as("a message", "a message", &[]);
        for text in ["a message.", " a message", "a messag", "A message", ""] {
            assert_eq!(fields("a message", text), None, "{text}");
        }
    }

    #[test]
    fn a_field_matches_one_word_or_any_text() {
        fit_as(
            "insert '<module>': <why..>",
            "insert 'nvidia_peermem': Invalid argument",
            &[("module", "nvidia_peermem"), ("why", "Invalid argument")],
        );
        fit_as("a <x..>[ OK ]", "a [60G[ OK ]", &[("x", "[60G")]);
        fit_as("a <x..>[ OK ]", "a [ OK ]", &[("x", "")]);
        fit_as("<x..> b <number>", "a b c b 7", &[("x", "a b c"), ("number", "7")]);
        assert_eq!(fields("a <x> c", "a b b c"), None);
        assert_eq!(fields("a <x> c", "a  c"), None, "a word is not empty");
        assert_eq!(fields("a <x..>[ OK ]", "a [ OK ] b"), None);
    }

    #[test]
    fn the_name_of_a_field_says_what_it_may_contain() {
        fit_as("<module>: x", "nvidia-peermem: x", &[("module", "nvidia-peermem")]);
        for (words, text) in [
            ("<module>: x", "xfs: x"),
            ("<module>: x", "nvidia_peermem2: x"),
            ("<number> s", "1.5 s"),
            ("at <bdf>", "at device"),
            ("of <version>", "of 25.07;rm"),
            ("of <symbol>", "of ib-core"),
            ("at <path>", "at etc"),
        ] {
            assert_eq!(fields(words, text), None, "{words} | {text}");
        }
    }
}

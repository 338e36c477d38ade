// SPDX-License-Identifier: Apache-2.0
//! The CUDA that an image requires, against the one that the driver supports.

use super::Case;
use crate::finding::Finding;
use crate::finding::fact::{CUDA_LACKING, CUDA_SUPPORTED};
use peermem_gate::words::remedy::CommandText;

/// A release of CUDA.
type CudaRelease = (u32, u32);

/// The first branch of drivers for each release (CUDA Toolkit's release notes, "CUDA Toolkit and Corresponding Driver
/// Versions"; 12.7 came with a driver only, and 13.1 and 13.2 are by what drivers 590 and 595 show).
const BRANCHES: [(CudaRelease, u32); 23] = [
    ((10, 2), 440),
    ((11, 0), 450),
    ((11, 1), 455),
    ((11, 2), 460),
    ((11, 3), 465),
    ((11, 4), 470),
    ((11, 5), 495),
    ((11, 6), 510),
    ((11, 7), 515),
    ((11, 8), 520),
    ((12, 0), 525),
    ((12, 1), 530),
    ((12, 2), 535),
    ((12, 3), 545),
    ((12, 4), 550),
    ((12, 5), 555),
    ((12, 6), 560),
    ((12, 7), 565),
    ((12, 8), 570),
    ((12, 9), 575),
    ((13, 0), 580),
    ((13, 1), 590),
    ((13, 2), 595),
];

/// With both numbers, and the drivers that would do.
pub(super) fn compared(case: &Case<'_>, finding: Finding) -> Finding {
    let driver = &case.symptoms.driver;
    let (source, version) = &driver.loaded;
    let version = version.iter().flatten().next();
    let branch = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    let of_branch = branch.and_then(|its| BRANCHES.iter().rev().find(|(_, least)| *least <= its));
    // Beside a library of CUDA compatibility nvidia-smi shows that library's.
    let supported =
        driver.cuda.as_deref().and_then(release).into_iter().chain(of_branch.map(|(cuda, _)| *cuda)).min();
    let required = finding.evidence.iter().find_map(|one| required(&one.seen));
    let least = required.and_then(|cuda| BRANCHES.iter().find(|(its, _)| *its >= cuda));
    let drivers = match least {
        Some((_, least)) => {
            let branch = CommandText::plain(&least.to_string(), "");
            CommandText::from("a driver of branch ").and(branch).and(" or newer")
        }
        None => "a newer driver".into(),
    };
    let finding = finding.word("cuda-driver", drivers);
    let Some(version) = version else { return finding };
    let Some(((has, wants), least)) = supported.zip(required).zip(least) else {
        return finding.seen(source.display(), format!("the driver is {version}"));
    };
    let (has_it, newer) = (has >= wants, least.1);
    let [has, wants] = [has, wants].map(|(major, minor)| format!("CUDA {major}.{minor}"));
    let seen = format!("the driver is {version}, which supports {has}");
    let seen = if has_it { seen } else { format!("{seen}: {wants} needs branch {newer} or newer") };
    finding.seen(source.display(), seen).with(CUDA_LACKING, !has_it).with(CUDA_SUPPORTED, has_it)
}

/// `cuda>=12.8`, however it is written.
fn required(words: &str) -> Option<CudaRelease> {
    let is_sign = |c: char| " <>=".contains(c);
    let words = words.to_lowercase();
    words.split("cuda").skip(1).find_map(|rest| release(rest.trim_start_matches(is_sign)))
}

fn release(text: &str) -> Option<CudaRelease> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    text.contains('.').then_some((major, minor))
}

// SPDX-License-Identifier: Apache-2.0
//! A verb's help behind its options. The rows are of the same kind as peermem-gate's.

use peermem_gate::cli::help::{FAILED, Guide, MIRRORS, NEIGHBORS, RDMA_ENABLED_THERE, REPORTED};

/// One row a verb.
pub const GUIDES: &[Guide] = &[
    Guide {
        verb: "",
        exits: &[
            ("0", "nothing is wrong"),
            ("1", "something is wrong, or not ready"),
            ("2", "refused, or cannot tell"),
            FAILED,
        ],
        examples: &[
            ("peermem-doctor doctor", "what is wrong with GPUDirect RDMA on this node, and what to do"),
            ("peermem-gate doctor", "the same, where both programs are installed"),
        ],
        variables: &[MIRRORS],
    },
    Guide {
        verb: "timeline",
        exits: &[("0", "drawn"), ("2", "nothing of the node is in what was read; or bad usage"), FAILED],
        examples: &[
            ("peermem-gate timeline", "on the node, as root: the last boot"),
            (
                "peermem-gate timeline --format svg must-gather/ >race.svg",
                "a picture from a must-gather, for an issue",
            ),
        ],
        variables: &[MIRRORS, REPORTED],
    },
    Guide {
        verb: "doctor",
        exits: &[
            ("0", "nothing is wrong, and the node is ready or does not use RDMA"),
            ("1", "a finding is critical or a warning, or the node is not ready"),
            ("2", "cannot tell: something needed cannot be read; or bad usage"),
            FAILED,
        ],
        examples: &[
            ("peermem-gate doctor", "on the node, as root"),
            (
                "peermem-gate doctor --root /host --format json",
                "in a pod with the host at /host; the JSON is for bug reports and for `fleet`",
            ),
            ("peermem-gate doctor --format line", "one sentence, for node-problem-detector and other probes"),
            ("peermem-gate doctor must-gather.tar.gz", "each node of a must-gather, away from the cluster"),
            ("peermem-gate doctor -", "what a pipe brings: logs, an archive, or output of kubectl"),
        ],
        variables: &[MIRRORS, RDMA_ENABLED_THERE, NEIGHBORS, REPORTED],
    },
    Guide {
        verb: "paths",
        exits: &[
            ("0", "the report was printed, whether or not a way is possible"),
            ("2", "cannot tell: something needed cannot be read or is not known; or bad usage"),
            FAILED,
        ],
        examples: &[
            ("peermem-gate paths", "on the node, as root"),
            (
                "peermem-gate paths --root /host --format json",
                "in a pod with the host at /host, for a script",
            ),
        ],
        variables: &[MIRRORS, RDMA_ENABLED_THERE, NEIGHBORS, REPORTED],
    },
    Guide {
        verb: "inspect",
        exits: &[
            ("0", "every file is a real nvidia-peermem, and fits --symvers and --kernel"),
            ("1", "some file is a stub, or unfit in another way"),
            ("2", "some file cannot be read; or bad usage"),
            FAILED,
        ],
        examples: &[
            (
                "peermem-gate inspect /lib/modules/*/updates/dkms/nvidia-peermem.ko*",
                "in the build of an image: fail where a module is a stub",
            ),
            (
                "peermem-gate inspect --symvers Module.symvers --format json nvidia-peermem.ko",
                "is it built for this MOFED? As JSON, one object per file",
            ),
        ],
        variables: &[MIRRORS],
    },
    Guide {
        verb: "explain",
        exits: &[("0", "explained"), ("2", "refused: nothing has this name"), FAILED],
        examples: &[
            ("peermem-gate explain StubModule", "what a finding of `doctor` means, and what to do"),
            ("peermem-gate explain EINVAL", "the same of any word of a log, a metric or an alert"),
            ("peermem-gate explain", "all words, with a line each"),
        ],
        variables: &[MIRRORS],
    },
    Guide {
        verb: "fleet",
        exits: &[
            ("0", "every node is ready or needs no MOFED, and has no critical finding or warning"),
            ("1", "some node is not ready or has a finding; --symvers: one needs a rebuild or a drain"),
            ("2", "cannot tell: no report, or one that cannot be read; or bad usage"),
            FAILED,
        ],
        examples: &[
            (
                "peermem-gate fleet reports.ndjson",
                "the file has a report of `doctor --format json` on each line",
            ),
            ("peermem-gate fleet --format json", "from standard input"),
            (
                "peermem-gate fleet --symvers Module.symvers reports.ndjson",
                "which nodes need a rebuild or a drain for the MOFED of this Module.symvers",
            ),
        ],
        variables: &[MIRRORS],
    },
];

/// The text below the options in the long help; for the empty word the program's own.
pub fn long(verb: &str) -> String {
    GUIDES.iter().find(|guide| guide.verb == verb).map(Guide::text).unwrap_or_default()
}

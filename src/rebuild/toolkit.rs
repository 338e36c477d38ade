// SPDX-License-Identifier: Apache-2.0
//! `OpenShift`: the driver toolkit's container builds once, and waits as long as `driver_built` is there. Where it
//! built a stub, that file is removed, and the container ends, starts again and builds again (gpu-driver-container,
//! `ocp_dtk_entrypoint`).

use crate::cli::environment::{Variables, value_of};
use crate::peermem::look::NodeProbe;
use crate::peermem::module_file::inspect;
use crate::peermem::pair;
use crate::ready::condition::{ConditionType, Reason};
use crate::ready::gate::Gate;
use crate::ready::look::Look;
use crate::ready::node::{Node, PeermemExpected};
use crate::ready::observation::{ModuleFile, Observation};
use crate::ready::probe::Depth;
use crate::ready::verdict::Verdict;
use crate::rebuild::{Kind, Obstacle, is_ready_for_a_build, toolkit_rebuild};
use crate::start::Start;
use crate::survey::pods;
use crate::words::judge;
use std::path::{Path, PathBuf};

const SHARED: &str = "/mnt/shared-nvidia-driver-toolkit";
const BUILT: &str = "driver_built";

/// The faults of a module that the toolkit's next build would cure.
const CURABLE: [Reason; 3] =
    [Reason::StubModule, Reason::SymbolVersionMismatch, Reason::SymbolVersionMissing];

/// Where the driver's containers share files.
pub(crate) fn directory(variables: &Variables) -> PathBuf {
    value_of(variables, "DRIVER_TOOLKIT_SHARED_DIR").map_or_else(|| SHARED.into(), PathBuf::from)
}

/// For `wait --rebuild auto`, once it is open: it has not looked at any module file.
pub(crate) fn order_when_open(start: &Start, node: &Node, gate: &Gate) {
    if let Some(order) = order(&directory(start.variables), node, gate) {
        say(order.give().map_err(|obstacle| obstacle.to_string()));
    }
}

/// Logs what was done, or why it was not.
pub(crate) fn say(outcome: Result<String, String>) {
    match outcome {
        Ok(done) => tracing::warn!("{done}"),
        Err(refused) => tracing::error!("{refused}"),
    }
}

/// The build that is due, by a look of its own, of the toolkit whose volume this is.
pub(crate) fn order(shared: &Path, node: &Node, gate: &Gate) -> Option<Order> {
    if !shared.join(BUILT).is_file() {
        return None;
    }
    let mut node = node.clone();
    node.expected.peermem = Some(PeermemExpected::default());
    node.places.finds_driver = false;
    let seen = NodeProbe::new(&node).look(Depth::Full, &mut || false)?;
    let verdict = judge(&node.expected, &seen);
    let look = gate.with_accepted(Look { verdict, identity: seen.identity(), next_build: None });
    due(shared, &node, &seen, &look.verdict, false)
}

/// A build that the toolkit should do again.
pub(crate) struct Order {
    shared: PathBuf,
    /// The fault of the module that it built.
    why: String,
    /// The build id of MOFED's module.
    mofed: String,
    /// A person asks for the build, so an earlier order does not count.
    is_asked: bool,
}

/// Whether the toolkit is at hand, has built, and what it built is a stub or of another ABI, while this verdict says
/// that MOFED is ready: a build that comes too early is a stub again.
pub(crate) fn due(
    shared: &Path,
    node: &Node,
    seen: &Observation,
    verdict: &Verdict,
    is_asked: bool,
) -> Option<Order> {
    let built = shared.join(BUILT);
    if !is_ready_for_a_build(verdict) || !built.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
        return None;
    }
    let module = pods::module_in(shared)?;
    let info = inspect(&module, &mut || false).ok()?;
    let mut seen = seen.clone();
    seen.peermem.as_mut()?.file = ModuleFile::Read {
        path: module,
        ignored_paths: Vec::new(),
        listed: Some(true),
        info: Box::new(info),
    };
    let verdict = judge(&node.expected, &seen);
    let usable = verdict.get(ConditionType::PeermemUsable).filter(|c| CURABLE.contains(&c.reason))?;
    let mofed = pair::pair(&node.places, &seen).mofed;
    Some(Order { shared: shared.to_owned(), why: usable.message.clone(), mofed, is_asked })
}

impl Order {
    fn built(&self) -> String {
        self.shared.join(BUILT).display().to_string()
    }

    /// The result that [`Order::give`] would have.
    pub(crate) fn plan(&self) -> Result<String, Obstacle> {
        match toolkit_rebuild::was_given(&self.shared, &self.mofed) {
            Ok(given) if self.is_asked || !given => Ok(format!(
                "the driver toolkit can build again: {}; rebuild would remove {}, and the toolkit's container would \
                 end, start again and build the whole driver against this MOFED",
                self.why,
                self.built()
            )),
            Ok(_) => Err(self.given_before()),
            Err(error) => Err(self.refused(&error)),
        }
    }

    /// Removes `driver_built`.
    pub(crate) fn give(&self) -> Result<String, Obstacle> {
        match toolkit_rebuild::again(&self.shared, BUILT, &self.mofed, self.is_asked) {
            Ok(true) => Ok(format!(
                "REMOVED {}: {}; the driver toolkit's container will restart and build against this MOFED",
                self.built(),
                self.why
            )),
            Ok(false) => Err(self.given_before()),
            Err(error) => Err(self.refused(&error)),
        }
    }

    fn given_before(&self) -> Obstacle {
        let why =
            format!("the driver toolkit was made to build for this MOFED within the hour, but {}", self.why);
        Obstacle::new(Kind::AlreadyTried, why)
    }

    fn refused(&self, error: &std::io::Error) -> Obstacle {
        let why = format!("cannot remove {}: {}", self.built(), crate::ready::errno::words(error));
        Obstacle::new(Kind::Unwritable, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peermem::module_file::tests::image::Image;
    use crate::ready::verdict::Condition;
    use crate::rebuild::sample;
    use std::fs;

    /// The toolkit's volume with this module in it, and whether it has to build again by this verdict.
    fn is_due(module: &Image, verdict: &Verdict, is_built: bool) -> bool {
        let shared = tempfile::tempdir().unwrap();
        fs::create_dir(shared.path().join("modules")).unwrap();
        fs::write(shared.path().join("modules/nvidia-peermem.ko"), module.build()).unwrap();
        if is_built {
            fs::write(shared.path().join(BUILT), "").unwrap();
        }
        due(shared.path(), &sample::node(shared.path()), &sample::seen(), verdict, false).is_some()
    }

    fn stub() -> Image {
        let vermagic = format!("vermagic={} SMP", sample::RELEASE);
        let mut image = Image::new(&["name=nvidia_peermem", "depends=", &vermagic]);
        image.versions(&[("module_layout", 1)]);
        image
    }

    fn ready() -> Verdict {
        Verdict::of(sample::conditions())
    }

    #[test]
    fn the_toolkit_builds_again_only_once_mofed_is_ready() {
        assert!(is_due(&stub(), &ready(), true));
        let unneeded =
            Verdict::of(vec![Condition::new(ConditionType::RdmaRequested, Reason::RdmaNotRequested, "no")]);
        assert!(!is_due(&stub(), &unneeded, true), "nobody needs MOFED");
        for (r#type, reason) in [
            (ConditionType::MarkerPresent, Reason::MarkerAbsent),
            (ConditionType::ModulesLive, Reason::ModuleNotLoaded),
            (ConditionType::HeadersReady, Reason::HeadersUnreadable),
        ] {
            let early = ready().replacing(Condition::new(r#type, reason, "as the test says"));
            assert!(!is_due(&stub(), &early, true), "{reason}");
        }
    }

    #[test]
    fn a_toolkit_that_still_builds_or_built_for_this_mofed_is_left_alone() {
        assert!(!is_due(&stub(), &ready(), false));
        let mut fits = stub().without("__versions");
        fits.versions(&crate::ready::PEER_MEMORY_SYMBOLS.map(|symbol| (symbol, sample::CRC.into())));
        for symbol in crate::ready::PEER_MEMORY_SYMBOLS {
            fits.import(symbol);
        }
        assert!(!is_due(&fits, &ready(), true));
    }
}

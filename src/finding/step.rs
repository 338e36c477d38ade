// SPDX-License-Identifier: Apache-2.0
//! The steps of a remedy, and what must be known of a node to choose among them.

use std::collections::BTreeMap;

/// No person reads more.
pub(super) const MOST: usize = 5;

/// Behind a command with a node's name that nobody has said.
const GUESSED: &str = " (The node's name is guessed from its hostname.)";

/// A step of a remedy: complete in itself, with its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// It helps only then.
    pub when: Option<Fact>,
    /// What to do; words in braces are filled from [`Facts`].
    pub text: &'static str,
}

impl Step {
    /// With its condition in words, for a reader who must judge it himself.
    #[must_use]
    pub fn conditional(&self) -> String {
        match self.when {
            Some(fact) => format!("{}: {}", fact.phrase(), uncapitalised(self.text)),
            None => self.text.to_owned(),
        }
    }
}

macro_rules! facts {
    ($($(#[$doc:meta])* $name:ident: $phrase:literal;)*) => {
        /// Something about a node that decides which step helps.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fact { $($(#[$doc])* $name,)* }

        impl Fact {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The condition in words, where nobody knows whether it holds.
            #[must_use]
            pub fn phrase(self) -> &'static str {
                match self { $(Self::$name => $phrase,)* }
            }
        }
    };
}

facts! {
    /// The GPU Operator's driver container is or was on this node.
    DriverPod: "If a driver container installs the driver";
    /// The driver is installed on the host.
    HostDriver: "If the driver is installed on the host";
    /// nvidia-driver-ctr and its driver toolkit share a volume with a finished build in it.
    ToolkitBuild: "On OpenShift with the driver toolkit";
    /// `/run/nvidia/nvidia-driver.state` is there: a new driver pod may skip the build.
    FastPath: "If `/run/nvidia/nvidia-driver.state` exists (GPU Operator 26.3 and later)";
    /// The driver's modules come with its image.
    Precompiled: "If the driver image is precompiled";
    /// The host provides MOFED.
    HostMofed: "If the host provides MOFED";
    /// A container provides MOFED.
    MofedPod: "If a container provides MOFED";
    /// The name of the driver's pod is not known.
    DriverPodUnnamed: "If you do not know the driver pod's name";
    /// The name of MOFED's pod is not known.
    MofedPodUnnamed: "If you do not know the MOFED pod's name";
    /// The third party's module that MOFED refuses is the kernel's own `iw_cm`.
    RefusesIwCm: "If the log names `iw_cm`";
    /// A third party's RDMA module is loaded.
    ThirdPartyLoaded: "If one of them is loaded";
    /// `nvidia_peermem` has users.
    PeermemUsed: "If nvidia_peermem is in use";
    /// It is `OpenShift`.
    OpenShift: "On OpenShift";
    /// The node is a virtual machine.
    VirtualMachine: "If the node is a virtual machine";
    /// `nvidia_drm` is loaded.
    DrmLoaded: "If nvidia_drm is loaded";
    /// MOFED has not set its marker.
    MarkerUnset: "If the marker is not set yet";
    /// nvidia-peermem.ko is there, and modules.dep does not list it.
    NotListed: "If modules.dep does not list the file";
    /// The bad parameter is on the kernel's command line.
    BootParameter: "If the kernel's command line has it";
    /// The bad parameter is in a file of modprobe's.
    FileParameter: "If a file of modprobe's has it";
}

/// A node's name, as commands need it.
#[derive(Clone, Debug, Default)]
pub struct NodeName {
    /// What Kubernetes calls it, or might.
    pub name: String,
    /// Nobody said so: it is the hostname.
    pub is_guess: bool,
}

/// What is known of the node: which facts hold, and the words for the braces.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    known: BTreeMap<Fact, bool>,
    words: BTreeMap<&'static str, String>,
    node: NodeName,
}

impl Facts {
    /// The same, with what is known of one fact; with `None` nothing is, whatever was before.
    #[must_use]
    pub fn with(mut self, fact: Fact, holds: Option<bool>) -> Self {
        match holds {
            Some(holds) => self.known.insert(fact, holds),
            None => self.known.remove(&fact),
        };
        self
    }

    /// The same, with the text for a word in braces.
    #[must_use]
    pub fn word(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.words.insert(name, text.into());
        self
    }

    /// The same, with the node's name for the word `{node}`.
    #[must_use]
    pub fn node(self, node: &NodeName) -> Self {
        Self { node: node.clone(), ..self }
    }

    /// The steps that may help here, in the order of the table, which has the likeliest first; none twice, at most
    /// five.
    #[must_use]
    pub fn choose(&self, steps: &[Step]) -> Vec<String> {
        let known = |step: &Step| step.when.map(|fact| (fact, self.known.get(&fact)));
        let helping = steps.iter().filter_map(|step| match known(step) {
            None | Some((_, Some(true))) => Some(step.text.to_owned()),
            Some((_, Some(false))) => None,
            Some((_, None)) => Some(step.conditional()),
        });
        let mut chosen: Vec<String> = Vec::new();
        for step in helping.map(|step| self.fill(&step)) {
            if chosen.len() < MOST && !chosen.contains(&step) {
                chosen.push(step);
            }
        }
        chosen
    }

    /// A text with its words filled in. A node's name that is a guess is said to be one.
    #[must_use]
    pub fn fill(&self, text: &str) -> String {
        const NODE: &str = "{node}";
        let filled =
            |text: String, (name, word): (&&str, &String)| text.replace(&format!("{{{name}}}"), word);
        let text = self.words.iter().fold(text.to_owned(), filled);
        let NodeName { name, is_guess } = &self.node;
        let doubt = if *is_guess && text.contains(NODE) { GUESSED } else { "" };
        text.replace(NODE, name) + doubt
    }
}

fn uncapitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn step(when: Option<Fact>, text: &'static str) -> Step {
        Step { when, text }
    }

    #[test]
    fn what_is_known_not_to_help_is_left_out_and_what_may_help_says_when() {
        let steps = [
            step(None, "Look at {node}."),
            step(Some(Fact::HostDriver), "Install it again."),
            step(Some(Fact::FastPath), "Remove the file."),
            step(Some(Fact::OpenShift), "Open it."),
            step(None, "Look at {node}."),
        ];
        let facts = Facts::default().with(Fact::HostDriver, Some(false)).with(Fact::FastPath, Some(true));
        let chosen = facts.with(Fact::OpenShift, None).node(&NodeName { name: "n1".into(), is_guess: false });
        let chosen = chosen.choose(&steps);
        assert_eq!(chosen, ["Look at n1.", "Remove the file.", "On OpenShift: open it."]);
    }

    #[test]
    fn a_guessed_name_is_said_to_be_one() {
        let of = |is_guess| {
            Facts::default().word("pod", "-A {node}").node(&NodeName { name: "n1".into(), is_guess })
        };
        assert_eq!(of(false).fill("Delete it: `{pod}`."), "Delete it: `-A n1`.");
        assert_eq!(of(true).fill("Delete it: `{pod}`."), format!("Delete it: `-A n1`.{GUESSED}"));
        assert_eq!(of(true).fill("Wait."), "Wait.");
    }

    #[test]
    fn nobody_reads_more_than_five() {
        let texts = ["A.", "B.", "C.", "D.", "E.", "F."];
        assert_eq!(Facts::default().choose(&texts.map(|text| step(None, text))).len(), MOST);
    }
}

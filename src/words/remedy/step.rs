// SPDX-License-Identifier: Apache-2.0
//! The steps of a remedy, and what must be known of a node to choose among them.

use crate::words::remedy::command::CommandText;
use crate::words::remedy::fact::{DRIVER_POD, Fact, MOFED_POD, NVIDIA_LOADED};
use crate::words::remedy::text::{DRAIN, DRAIN_BEFORE_MOFED, FAST_PATH};
use std::collections::BTreeMap;

/// No person reads more.
pub const MOST: usize = 5;

/// In a command for a node whose name is not known, or not a plain name.
const UNKNOWN_NODE: &str = "NODE";

/// Behind a command with a node's name that is not set by `NODE_NAME`.
const GUESSED: &str = " (The node's name is guessed from its hostname.)";

/// What an act of a step costs those who use the node, in words behind the step.
struct Price {
    /// Words by which a step is known to have the act.
    acts: &'static [&'static str],
    /// Words of a step that only mentions the act, or that says its price itself.
    except: &'static [&'static str],
    words: &'static str,
}

/// The price of every act that has one: a table, so no step can be written without it.
const PRICES: [Price; 7] = [
    Price {
        acts: &["kubectl drain", "rain the node", "rain and reboot"],
        except: &[],
        words: " The drain evicts every pod of the node, and deletes the data in their emptyDir volumes.",
    },
    Price {
        acts: &["eboot", "off and on"],
        except: &["rain ", "reboot alone", "after a reboot", "If a reboot"],
        words: " That ends every job on the node.",
    },
    Price { acts: &["openibd restart"], except: &[], words: " The restart takes the NIC away for a while." },
    Price {
        acts: &["systemctl restart nvidia-fabricmanager"],
        except: &[],
        words: " The restart ends every CUDA job on the node.",
    },
    Price {
        acts: &[
            "systemctl restart containerd",
            "systemctl restart crio",
            "`systemctl restart` it",
            "restart containerd",
        ],
        except: &["unning containers continue"],
        words: " Running containers continue.",
    },
    Price {
        acts: &["`driver."],
        except: OF_ONE_NODE,
        words: " This setting is of the whole cluster: with `driver.upgradePolicy.autoUpgrade` the operator then drains and restarts \
            the driver on every node.",
    },
    Price {
        acts: &["`spec.ofedDriver."],
        except: OF_ONE_NODE,
        words: " This setting is of the whole cluster: with `ofedDriver.upgradePolicy.autoUpgrade` the operator then drains and \
            restarts MOFED on every node.",
    },
];
/// A step that names a way for one node too.
const OF_ONE_NODE: &[&str] = &["NVIDIADriver", "label the node"];

/// A step of a remedy: complete in itself, with its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The step helps only where all of these facts are so.
    pub when: &'static [Fact],
    /// The step; words in braces are filled from [`Facts`].
    pub text: &'static str,
}

impl Step {
    /// With its conditions in words, for a reader who must judge them.
    #[must_use]
    pub fn conditional(&self) -> String {
        self.under(self.when.iter().copied())
    }

    /// With these of its conditions in words.
    #[must_use]
    pub fn under(&self, conditions: impl Iterator<Item = Fact>) -> String {
        let rest = |fact: Fact| uncapitalized(fact.phrase().strip_prefix("If ").unwrap_or(fact.phrase()));
        let joined = |all: String, fact: Fact| format!("{all} and {}", rest(fact));
        let mut phrases = conditions;
        let text = match phrases.next() {
            Some(first) => {
                format!("{}: {}", phrases.fold(first.phrase().to_owned(), joined), uncapitalized(self.text))
            }
            None => self.text.to_owned(),
        };
        text + &self.price()
    }

    /// What the step costs, by its acts.
    fn price(&self) -> String {
        let is_named = |words: &[&str]| words.iter().any(|part| self.text.contains(part));
        let rows = PRICES.iter().filter(|price| is_named(price.acts) && !is_named(price.except));
        rows.map(|price| price.words).collect()
    }
}

/// Steps, each behind `@` and its facts if it helps only then: `steps![@HOST_MOFED "Restart it.", "Or wait."]`.
#[macro_export]
macro_rules! steps {
    ($($(@$when:ident)* $text:expr),* $(,)?) => {
        &[$($crate::words::remedy::Step { when: &[$($when),*], text: $text }),*]
    };
}

/// What replaces a pod, and the end of the node's workloads before it.
const DRAINS: [(&str, Step); 2] =
    [("kubectl delete pod {driver}", DRAIN_STEP), ("kubectl delete pod {mofed}", MOFED_DRAIN_STEP)];

/// With the end of the node's workloads before the steps that replace the driver's pod or MOFED's.
#[must_use]
pub fn with_drain(mut steps: Vec<Step>) -> Vec<Step> {
    let is_drained = steps.iter().any(|step| step.text.contains("kubectl drain"));
    let drain = |step: &Step| DRAINS.iter().find(|(replaces, _)| step.text.contains(replaces));
    let first = steps.iter().position(|step| drain(step).is_some() || step.text == FAST_PATH);
    let drain = steps.iter().find_map(drain);
    if let (false, Some(at), Some((_, drain))) = (is_drained, first, drain) {
        steps.insert(at, *drain);
    }
    steps
}

/// [`DRAIN`] as [`with_drain`] adds it.
pub const DRAIN_STEP: Step = Step { when: &[DRIVER_POD, NVIDIA_LOADED], text: DRAIN };
/// [`DRAIN_BEFORE_MOFED`] as [`with_drain`] adds it.
pub const MOFED_DRAIN_STEP: Step = Step { when: &[MOFED_POD], text: DRAIN_BEFORE_MOFED };

/// What a step needs by its words, whoever wrote it.
#[derive(Debug, PartialEq, Eq)]
pub struct Premise {
    /// Words of the step.
    pub words: &'static str,
    /// What must be so.
    pub fact: Fact,
    /// Conditions with which it is so.
    pub with: &'static [Fact],
}

/// A node's name, as commands need it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeName {
    /// Kubernetes' name for it, or a guess.
    pub name: String,
    /// Nobody said so: it is the hostname.
    pub is_guess: bool,
}

/// Knowledge about the node: which facts are so, and the words for the braces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    known: BTreeMap<Fact, bool>,
    words: BTreeMap<&'static str, CommandText>,
    node: NodeName,
    premises: &'static [Premise],
}

impl Facts {
    /// The same, with what is known of one fact; with `None` nothing is, whatever was before.
    #[must_use]
    pub fn with(mut self, fact: Fact, is_so: Option<bool>) -> Self {
        match is_so {
            Some(is_so) => self.known.insert(fact, is_so),
            None => self.known.remove(&fact),
        };
        self
    }

    /// The same, with the facts that a step needs which has these words, whatever its own conditions are.
    #[must_use]
    pub fn premises(self, premises: &'static [Premise]) -> Self {
        Self { premises, ..self }
    }

    /// All that must be so for a step to help.
    #[must_use]
    pub fn conditions(&self, step: &Step) -> Vec<Fact> {
        let mut all = step.when.to_vec();
        for Premise { fact, with, .. } in self.premises.iter().filter(|one| step.text.contains(one.words)) {
            if !all.contains(fact) && !with.iter().any(|other| all.contains(other)) {
                all.push(*fact);
            }
        }
        all
    }

    /// The same, with the text for a word in braces.
    #[must_use]
    pub fn word(mut self, name: &'static str, text: impl Into<CommandText>) -> Self {
        self.words.insert(name, text.into());
        self
    }

    /// The same, with what others know; they have the last word.
    #[must_use]
    pub fn and(mut self, others: &Self) -> Self {
        self.known.extend(&others.known);
        self.words.extend(others.words.iter().map(|(name, text)| (*name, text.clone())));
        self
    }

    /// The same, with the node's name for the word `{node}`.
    #[must_use]
    pub fn node(self, node: &NodeName) -> Self {
        Self { node: node.clone(), ..self }
    }

    /// Whether a fact is so; `None` where that is not known.
    #[must_use]
    pub fn is(&self, fact: Fact) -> Option<bool> {
        self.known.get(&fact).copied()
    }

    /// The steps that may help here, in the order of the table, which has the likeliest first; none twice, at most
    /// five.
    #[must_use]
    pub fn choose(&self, steps: &[Step]) -> Vec<String> {
        let may_help = |step: &&Step| self.conditions(step).iter().all(|fact| self.is(*fact) != Some(false));
        let unknown = |step: &Step| self.conditions(step).into_iter().filter(|fact| self.is(*fact).is_none());
        let steps = with_drain(steps.iter().copied().filter(|step| may_help(&step)).collect());
        let helping = steps.iter().filter(may_help).map(|step| step.under(unknown(step)));
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
        let filled = |text: String, (name, word): (&&str, &CommandText)| {
            text.replace(&format!("{{{name}}}"), &word.to_string())
        };
        let text = self.words.iter().fold(text.to_owned(), filled);
        let NodeName { name, is_guess } = &self.node;
        let known = CommandText::plain(name, UNKNOWN_NODE).to_string();
        let doubt = if *is_guess && known == *name && text.contains(NODE) { GUESSED } else { "" };
        text.replace(NODE, &known) + doubt
    }
}

fn uncapitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::remedy::fact::{HOST_DRIVER, HOST_MOFED, MOFED_POD, STATE_FILE};

    const fn step(when: &'static [Fact], text: &'static str) -> Step {
        Step { when, text }
    }

    #[test]
    fn a_step_that_cannot_help_is_left_out_and_one_that_may_help_says_when() {
        let steps = [
            step(&[], "Look at {node}."),
            step(&[HOST_MOFED, HOST_DRIVER], "Install it again."),
            step(&[STATE_FILE], "Remove the file."),
            step(&[STATE_FILE, HOST_MOFED], "Open it."),
            step(&[HOST_MOFED, MOFED_POD], "Close it."),
            step(&[], "Look at {node}."),
        ];
        let facts = Facts::default().with(HOST_DRIVER, Some(false)).with(STATE_FILE, Some(true));
        let chosen = facts.with(HOST_MOFED, None).node(&NodeName { name: "n1".into(), is_guess: false });
        let chosen = chosen.choose(&steps);
        let expected = [
            "Look at n1.",
            "Remove the file.",
            "If the host provides MOFED: open it.",
            "If the host provides MOFED and a container provides MOFED: close it.",
        ];
        assert_eq!(chosen, expected);
    }

    #[test]
    fn a_remedy_says_that_a_name_is_guessed() {
        let of = |is_guess| {
            Facts::default().word("pod", "-A {node}").node(&NodeName { name: "n1".into(), is_guess })
        };
        assert_eq!(of(false).fill("Delete it: `{pod}`."), "Delete it: `-A n1`.");
        assert_eq!(of(true).fill("Delete it: `{pod}`."), format!("Delete it: `-A n1`.{GUESSED}"));
        assert_eq!(of(true).fill("Wait."), "Wait.");
        let odd = NodeName { name: "gpu-1`curl x|sh`".into(), is_guess: true };
        assert_eq!(Facts::default().node(&odd).fill("Drain it: `{node}`."), "Drain it: `NODE`.");
    }

    #[test]
    fn the_nodes_work_is_drained_before_its_driver_is_replaced_unless_nvidia_is_not_loaded() {
        let steps = [
            step(&[], "Rebuild it."),
            step(&[STATE_FILE], FAST_PATH),
            step(&[DRIVER_POD], "Delete it: `kubectl delete pod {driver}`."),
        ];
        let facts = Facts::default().with(STATE_FILE, Some(true)).with(DRIVER_POD, Some(true));
        let at =
            |facts: &Facts| facts.choose(&steps).iter().position(|step| step.contains("kubectl drain NODE"));
        assert_eq!(at(&facts.clone().with(NVIDIA_LOADED, Some(true))), Some(1));
        assert_eq!(at(&facts.clone().with(NVIDIA_LOADED, Some(false))), None);
        assert!(
            facts.choose(&steps)[1]
                .starts_with("If nvidia is loaded: before you delete the driver pod, end ")
        );
        let host = facts.with(DRIVER_POD, Some(false)).with(NVIDIA_LOADED, Some(true));
        assert_eq!(at(&host), None);
        let steps = [step(&[], "Delete it: `kubectl delete pod {mofed}`."), step(&[], "Wait.")];
        let at = |is_pods| Facts::default().with(MOFED_POD, Some(is_pods)).choose(&steps);
        assert!(at(true)[0].starts_with("Before you delete the MOFED pod") && at(true).len() == 3);
        assert_eq!(at(false).len(), 2);
    }

    #[test]
    fn a_setting_of_the_whole_cluster_is_said_to_be_one_where_no_way_for_one_node_is_named() {
        let is_warned = |text| step(&[], text).conditional().contains("every node");
        assert!(is_warned("Set `driver.version`.") && is_warned("Correct `spec.ofedDriver.env`."));
        assert!(!is_warned("Set `driver.version` in an NVIDIADriver.") && !is_warned("Set `--driver-root`."));
    }

    #[test]
    fn a_remedy_has_at_most_five_steps() {
        let texts = ["A.", "B.", "C.", "D.", "E.", "F."];
        assert_eq!(Facts::default().choose(&texts.map(|text| step(&[], text))).len(), MOST);
    }
}

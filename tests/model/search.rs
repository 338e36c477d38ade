// SPDX-License-Identifier: Apache-2.0
//! Every order of steps, by stateright: from a scene's first moment until no new one is found.

use super::laws::{Fault, LAWS, Sight};
use super::{Life, Step};
use stateright::{Checker, Model, Property};

/// A search that comes to more moments never ends: a mistake of the model.
const MOST: usize = 1_000_000;

/// A beginning, and what it is about.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) life: Life,
    pub(crate) sights: Vec<Sight>,
}

impl Model for Scene {
    type State = Life;
    type Action = Step;

    fn init_states(&self) -> Vec<Life> {
        vec![self.life.clone()]
    }

    fn actions(&self, life: &Life, steps: &mut Vec<Step>) {
        steps.extend(life.steps());
    }

    fn next_state(&self, last: &Life, step: Step) -> Option<Life> {
        Some(last.take(step))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let laws = LAWS.map(|(_, name, is_unbroken)| Property::always(name, is_unbroken));
        let sights = self.sights.iter().map(|(name, is_reached)| Property::sometimes(name, *is_reached));
        laws.into_iter().chain(sights).collect()
    }
}

/// The result of a search.
#[derive(Debug)]
pub(crate) struct Found {
    /// How many moments there are.
    pub(crate) moments: usize,
    /// The laws that are broken, and the shortest order of steps that breaks each.
    pub(crate) broken: Vec<(Fault, Vec<Step>)>,
    /// What no life comes to.
    pub(crate) unreached: Vec<&'static str>,
}

impl Scene {
    /// Searches all that can happen.
    pub(crate) fn search(self) -> Found {
        let sights = self.sights.clone();
        let checker = self.checker().target_state_count(MOST).spawn_bfs().join();
        let moments = checker.unique_state_count();
        assert!(moments < MOST, "a search without an end");
        let found = checker.discoveries();
        let steps = |name: &str| found.get(name).map(|path| path.clone().into_actions());
        Found {
            moments,
            broken: LAWS.iter().filter_map(|(fault, name, _)| Some((*fault, steps(name)?))).collect(),
            unreached: sights
                .into_iter()
                .map(|(name, _)| name)
                .filter(|name| !found.contains_key(name))
                .collect(),
        }
    }
}

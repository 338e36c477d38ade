// SPDX-License-Identifier: Apache-2.0
//! How a gate behaves in time.

use std::time::Duration;

/// How the gate behaves in time.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// `None` is forever, zero is one look.
    pub timeout: Option<Duration>,
    /// Open when the time is up.
    pub proceed_on_timeout: bool,
    /// How long every condition must be met without a break.
    pub settle: Duration,
    /// How long a suspect marker is not accepted.
    pub suspect_hold: Duration,
    /// End when blocked.
    pub fail_fast: bool,
    /// Open after one look.
    pub dry_run: bool,
    /// Time between two "still waiting" lines.
    pub heartbeat: Duration,
}

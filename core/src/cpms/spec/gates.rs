//! The feature gates of ControlPlaneMachineSets.

use crate::api::config_openshift_io::feature_gate::FeatureGate;

/// Which feature gates are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `CPMSMachineNamePrefix` (decision 5).
    pub name_prefix: bool,
    /// `CPMSRecreate` (decision 6).
    pub recreate: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            name_prefix: true,
            recreate: false,
        }
    }
}

impl Gates {
    /// The name of the gate of `machineNamePrefix`.
    pub const NAME_PREFIX: &'static str = "CPMSMachineNamePrefix";
    /// The name of the gate of strategy `Recreate`.
    pub const RECREATE: &'static str = "CPMSRecreate";

    /// The gates of `version`, or of the first entry if that version is not listed. A gate that the
    /// entry does not name keeps its default.
    pub fn of(gate: &FeatureGate, version: &str) -> Self {
        let all = &gate.status.feature_gates;
        let mut gates = Self::default();
        let Some(details) = all
            .iter()
            .find(|details| details.version == version)
            .or_else(|| all.first())
        else {
            return gates;
        };
        for (name, on) in [
            (Self::NAME_PREFIX, &mut gates.name_prefix),
            (Self::RECREATE, &mut gates.recreate),
        ] {
            if details.enabled.iter().any(|gate| gate.name == name) {
                *on = true;
            } else if details.disabled.iter().any(|gate| gate.name == name) {
                *on = false;
            }
        }
        gates
    }
}

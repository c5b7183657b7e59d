//! The features of Capstan, which are installed apart.

/// A part of Capstan that is installed, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// The webhooks and the policy of ControlPlaneMachineSets. It is the default of every way to
    /// install Capstan.
    Admission,
    /// The controllers: rollouts and the generator. They have no webhook.
    Controllers,
    /// The guards of objects that exist in both APIs, and of their infrastructure.
    Mirroring,
    /// The controllers of Machines that exist in both APIs. They have no webhook.
    MirroringControllers,
    /// The CRDs and the webhooks of KubeadmControlPlanes, in place of those of Cluster API.
    KubeadmControlPlane,
    /// The CRD and the webhooks of ControlPlanes.
    ControlPlane,
    /// The controller of KubeadmControlPlanes, in the place of the one of Cluster API. It has no
    /// webhook.
    KubeadmControlPlaneControllers,
    /// The controller of ControlPlanes. It has no webhook.
    ControlPlaneControllers,
    /// The webhooks of MachinePools.
    MachinePools,
    /// The controller of the Machines of MachinePools. It has no webhook.
    MachinePoolControllers,
}

impl Feature {
    /// Every feature, in the order in which their manifests are applied.
    pub const ALL: [Self; 10] = [
        Self::Admission,
        Self::Controllers,
        Self::Mirroring,
        Self::MirroringControllers,
        Self::KubeadmControlPlane,
        Self::ControlPlane,
        Self::KubeadmControlPlaneControllers,
        Self::ControlPlaneControllers,
        Self::MachinePools,
        Self::MachinePoolControllers,
    ];

    /// The name on the command line and in the names of files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::Controllers => "controllers",
            Self::Mirroring => "mirroring",
            Self::MirroringControllers => "mirroring-controllers",
            Self::KubeadmControlPlane => "kubeadm-control-plane",
            Self::ControlPlane => "control-plane",
            Self::KubeadmControlPlaneControllers => "kubeadm-control-plane-controllers",
            Self::ControlPlaneControllers => "control-plane-controllers",
            Self::MachinePools => "machine-pools",
            Self::MachinePoolControllers => "machine-pool-controllers",
        }
    }

    /// Whether the feature consists of controllers: a Deployment of its own, and no webhooks.
    pub fn is_controllers(self) -> bool {
        matches!(
            self,
            Self::Controllers
                | Self::MirroringControllers
                | Self::KubeadmControlPlaneControllers
                | Self::ControlPlaneControllers
                | Self::MachinePoolControllers
        )
    }

    /// The feature whose webhooks guard what these controllers execute; none for a feature without
    /// controllers.
    pub fn guard(self) -> Option<Self> {
        match self {
            Self::Controllers => Some(Self::Admission),
            Self::MirroringControllers => Some(Self::Mirroring),
            Self::KubeadmControlPlaneControllers => Some(Self::KubeadmControlPlane),
            Self::ControlPlaneControllers => Some(Self::ControlPlane),
            Self::MachinePoolControllers => Some(Self::MachinePools),
            Self::Admission | Self::Mirroring | Self::KubeadmControlPlane | Self::ControlPlane | Self::MachinePools => {
                None
            }
        }
    }

    /// The name of the webhook configurations with the webhooks of the feature; none for a feature
    /// without webhooks.
    pub fn webhook_configuration(self) -> Option<String> {
        match self {
            Self::Admission => Some(String::from("capstan")),
            feature if feature.is_controllers() => None,
            feature => Some(format!("capstan-{}", feature.name())),
        }
    }

    /// The feature with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|feature| feature.name() == name)
    }
}

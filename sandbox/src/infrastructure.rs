//! A simulated infrastructure provider that works on the objects of a real API server.
//!
//! It simulates the components around Capstan: the machine controller (phases, drain, termination,
//! the finalizer of a Machine), the kubelet (a Node that joins and becomes ready), the link between
//! Machine and Node, and the etcd operator (its deletion hook). Its caller chooses the duration of
//! each step and which machines fail. It never writes a ControlPlaneMachineSet.

pub(crate) mod etcd;
pub mod groups;
mod lifecycle;
mod provider;

pub(crate) use etcd::{HOOK, OWNER};
pub(crate) use lifecycle::{FINALIZER, Next, next};
pub use lifecycle::{Fault, Speeds};
pub use provider::{Options, Provider};

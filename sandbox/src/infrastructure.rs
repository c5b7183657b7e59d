//! Machines that behave like machines: a simulated provider that works on the objects of a real API server.
//!
//! It plays those around Capstan: the machine controller (phases, drain, termination, the machine's finalizer), the
//! kubelet (a Node that joins and becomes ready), the link between the two, and the etcd operator (its deletion hook,
//! decision 17). How fast each step goes, and which machines fail, is chosen by whoever starts it. It never touches a
//! ControlPlaneMachineSet, and knows nothing of Capstan.

pub(crate) mod etcd;
mod lifecycle;
mod provider;

pub(crate) use etcd::{HOOK, OWNER};
pub(crate) use lifecycle::{FINALIZER, Next, next};
pub use lifecycle::{Fault, Speeds};
pub use provider::{Options, Provider};

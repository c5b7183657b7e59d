//! The last ControlPlane that was parsed.
//!
//! Most reconciles follow a change of another object, and a live read usually shows what the caches
//! show. Must never: give an answer for another object, or for another input of the parse.

use std::sync::Arc;

use capstan_core::api::config_openshift_io::infrastructure::Infrastructure;
use capstan_core::api::machine_openshift_io::control_plane::ControlPlane;
use capstan_core::control_plane::spec::{Spec, parse};
use capstan_core::cpms::spec::{Gates, ParseContext};
use capstan_core::model::Violation;

/// The last ControlPlane that was parsed without a violation.
#[derive(Debug, Default)]
pub(super) struct Parsed(Option<Box<Last>>);

#[derive(Debug)]
struct Last {
    object: Arc<ControlPlane>,
    cluster: String,
    infrastructure: Option<Arc<Infrastructure>>,
    gates: Gates,
    spec: Spec,
}

impl Parsed {
    /// The spec of a ControlPlane.
    ///
    /// # Errors
    /// As [`parse`].
    pub(super) fn spec(
        &mut self,
        object: &Arc<ControlPlane>,
        cluster: &str,
        infrastructure: Option<&Arc<Infrastructure>>,
        gates: Gates,
    ) -> Result<Spec, Vec<Violation>> {
        let is_same = |last: &&Last| {
            let objects = Arc::ptr_eq(&last.object, object) || last.object == *object;
            let read_with = last.cluster == cluster && last.gates == gates;
            objects && read_with && last.infrastructure.as_ref() == infrastructure
        };
        if let Some(last) = self.0.as_deref().filter(is_same) {
            return Ok(last.spec.clone());
        }
        let context = ParseContext {
            infrastructure: infrastructure.map(Arc::as_ref),
            gates,
            ignore_gated_fields: true,
        };
        let spec = parse(object, cluster, &context)?;
        self.0 = Some(Box::new(Last {
            object: Arc::clone(object),
            cluster: cluster.to_owned(),
            infrastructure: infrastructure.cloned(),
            gates,
            spec: spec.clone(),
        }));
        Ok(spec)
    }
}

//! The gate of the kinds that exist in the Machine API and in Cluster API, and of the
//! infrastructure of Cluster API. It also judges the deletion of Clusters and infrastructure
//! clusters. The rules are in `authority`.

use crate::admission::feature::Feature;
use crate::admission::gate::{Context, Gate, Outcome, Phase, Route, RuleSource};
use crate::admission::mirrored_kinds;
use crate::admission::options::Options;
use crate::admission::snapshot::Source;
use crate::api::infrastructure_cluster_x_k8s_io::{self as infrastructure, CLUSTERS, OTHER_CLUSTERS, PLATFORMS};
use crate::api::kind::KindInfo;
use crate::api::machine_openshift_io::{machine, machine_health_check, machine_set};
use crate::api::{cluster_x_k8s_io, machine_openshift_io};
use crate::authority::live::LiveRead;
use crate::authority::rules::{self, Lookup};
use crate::authority::spec::Api;
use crate::cel::rules::RuleFile;
use crate::model::{Edit, RuleInfo};

/// The gate.
pub(super) struct Mirrored;

const RULE_SOURCES: &[RuleSource] = &[
    RuleSource {
        path: "webhooks/rules/authority-machine-api.yaml",
        text: include_str!("../../../../webhooks/rules/authority-machine-api.yaml"),
        kinds: "Machine, MachineSet, MachineHealthCheck",
    },
    RuleSource {
        path: "webhooks/rules/authority-cluster-api.yaml",
        text: include_str!("../../../../webhooks/rules/authority-cluster-api.yaml"),
        kinds: "Machine, MachineSet, MachineHealthCheck of Cluster API, and infrastructure",
    },
];

/// The plurals of the kinds that have the same names in both APIs.
const BOTH: [&str; 3] = [machine::PLURAL, machine_set::PLURAL, machine_health_check::PLURAL];

impl Gate for Mirrored {
    fn kinds(&self) -> Vec<KindInfo> {
        let mirrored = mirrored_kinds::all().map(|mirrored| &mirrored.kind);
        mirrored.chain(mirrored_kinds::clusters()).cloned().collect()
    }

    fn feature(&self) -> Feature {
        Feature::Mirroring
    }

    /// The status of a mirrored object is judged, because it names the authoritative API and must
    /// not change on a mirror. No rule reads the status of a cluster. Of the kinds, only MachineSet
    /// has a scale.
    fn routes(&self) -> Vec<Route> {
        let status = |plurals: &[&str]| plurals.iter().map(|plural| format!("{plural}/status")).collect();
        let scale_and_status = || [vec![format!("{}/scale", machine_set::PLURAL)], status(&BOTH)].concat();
        let machine_api = |path, phase, subresources| Route {
            path,
            phase,
            group: machine_openshift_io::GROUP,
            resources: BOTH.to_vec(),
            subresources,
            only_deletions: Vec::new(),
        };
        let mirrored: Vec<&'static str> = PLATFORMS
            .iter()
            .flat_map(|platform| [platform.machines, platform.templates])
            .collect();
        let clusters: Vec<&'static str> = CLUSTERS
            .iter()
            .chain(OTHER_CLUSTERS)
            .map(|cluster| cluster.plural)
            .collect();
        vec![
            machine_api("/mutate-machine-openshift-io-v1beta1", Phase::Mutate, Vec::new()),
            machine_api(
                "/validate-machine-openshift-io-v1beta1",
                Phase::Validate,
                scale_and_status(),
            ),
            Route {
                path: "/validate-cluster-x-k8s-io-v1beta2",
                phase: Phase::Validate,
                group: cluster_x_k8s_io::GROUP,
                resources: [&BOTH[..], &[cluster_x_k8s_io::cluster::PLURAL]].concat(),
                subresources: scale_and_status(),
                only_deletions: vec![cluster_x_k8s_io::cluster::PLURAL],
            },
            Route {
                path: "/validate-infrastructure-cluster-x-k8s-io",
                phase: Phase::Validate,
                group: infrastructure::GROUP,
                resources: [&mirrored[..], &clusters[..]].concat(),
                subresources: status(&mirrored),
                only_deletions: clusters,
            },
        ]
    }

    fn rule_sources(&self) -> &'static [RuleSource] {
        RULE_SOURCES
    }

    fn configure(&self, file: &mut RuleFile, options: &Options) {
        options.authority.configure(file);
    }

    fn rules(&self) -> Vec<RuleInfo> {
        rules::table()
    }

    fn reads_status(&self) -> bool {
        true
    }

    /// The guards apply only in the namespaces of the two APIs, so an object without a namespace is
    /// taken to be in the namespace of its API. Otherwise it would not be judged at all.
    fn default_namespace<'o>(&self, kind: &KindInfo, options: &'o Options) -> &'o str {
        let subject = mirrored_kinds::subject(&kind.group, &kind.kind);
        options
            .authority
            .namespace(subject.map_or(Api::ClusterApi, |subject| subject.api))
    }

    fn live_reads(&self, kind: &KindInfo, edit: &Edit<'_>, context: &Context<'_>) -> Vec<LiveRead> {
        let subject = mirrored_kinds::subject(&kind.group, &kind.kind);
        subject
            .map(|subject| rules::live_reads(subject, edit, &lookup(context)))
            .unwrap_or_default()
    }

    fn judge(&self, phase: Phase, kind: &KindInfo, edit: &Edit<'_>, context: &Context<'_>) -> Outcome {
        let lookup = lookup(context);
        let Some(subject) = mirrored_kinds::subject(&kind.group, &kind.kind) else {
            return judge_cluster(phase, edit, &lookup);
        };
        match phase {
            Phase::Mutate => {
                let (verdict, patch) = rules::mutate(subject, edit, &lookup);
                Outcome { verdict, patch }
            }
            Phase::Validate => Outcome {
                verdict: rules::validate(subject, edit, &lookup, context.rules),
                patch: None,
            },
        }
    }
}

fn lookup<'a>(context: &Context<'a>) -> Lookup<'a> {
    Lookup {
        mirrors: &context.snapshot.mirrors,
        config: &context.options.authority,
        wait_for_unknown: context.snapshot.source == Source::Cluster,
    }
}

fn judge_cluster(phase: Phase, edit: &Edit<'_>, lookup: &Lookup<'_>) -> Outcome {
    match phase {
        Phase::Mutate => Outcome::default(),
        Phase::Validate => Outcome {
            verdict: rules::validate_cluster(edit, lookup),
            patch: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::PAUSED_BY_SYNC;
    use crate::authority::config::COLLECTORS;

    #[test]
    fn the_rule_files_contain_the_configuration_of_a_default_installation() {
        let options = Options::default();
        for source in RULE_SOURCES {
            let file = RuleFile::parse(source.path, source.text).unwrap();
            let mut configured = file.clone();
            Mirrored.configure(&mut configured, &options);
            for (variable, same) in file.variables.iter().zip(&configured.variables) {
                assert_eq!(
                    variable.expression, same.expression,
                    "{} of {}",
                    variable.name, source.path
                );
                let collectors: Vec<String> = COLLECTORS.iter().map(|name| format!("'{name}'")).collect();
                let expected = match variable.name.as_str() {
                    "collectors" => format!("[{}]", collectors.join(", ")),
                    "pausedBySync" => format!("'{PAUSED_BY_SYNC}'"),
                    _ => continue,
                };
                assert_eq!(variable.expression, expected);
            }
        }
    }
}

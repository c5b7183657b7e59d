//! Values that one API can be without. They do not prevent a conversion, and each is an issue as
//! long as it changes a machine.

use serde_json::{Value, json};

use super::generated::round_trip;
use super::samples::{Sample, aws, samples};
use crate::conversion::{Context, Converted, Lookup, Severity, convert, normalise};

fn sample(platform: &str) -> Sample {
    let mut all = samples().into_iter();
    all.find(|sample| sample.platform == platform).unwrap()
}

/// The issues as pairs of the effect and the path.
fn effects(converted: &Converted) -> Vec<(Severity, &str)> {
    let issues = converted.issues.iter();
    issues.map(|issue| (issue.severity, issue.path.as_str())).collect()
}

/// Converts the machine of a sample to Cluster API, edits both objects, and converts them back.
fn back(sample: &Sample, edit: impl FnOnce(&mut Value, &mut Value)) -> Converted {
    let there = convert(&sample.machine(&sample.provider_spec), &sample.context());
    let [mut machine, mut infrastructure] = <[Value; 2]>::try_from(there.objects).unwrap();
    edit(&mut machine, &mut infrastructure);
    let context = Context {
        infrastructure_machine: Lookup::Found(&infrastructure),
        ..sample.context()
    };
    convert(&machine, &context)
}

fn remove(value: &mut Value, field: &str) {
    value.as_object_mut().unwrap().remove(field);
}

#[test]
fn a_field_that_the_machine_api_can_be_without_does_not_prevent_the_way_back() {
    for (platform, field) in [
        ("aws", "ami"),
        ("aws", "instanceType"),
        ("power-vs", "sshKey"),
        ("openstack", "flavor"),
    ] {
        let converted = back(&sample(platform), |_, machine| remove(&mut machine["spec"], field));
        let [(Severity::Loses, path)] = effects(&converted)[..] else {
            panic!("{platform} {field}: {:?}", converted.issues);
        };
        assert!(path.contains(field), "{path}");
    }
    let converted = back(&sample("openstack"), |_, machine| {
        remove(&mut machine["spec"]["image"]["filter"], "name");
    });
    assert!(converted.is_blocked(), "an image that is selected in another way");
    let converted = back(&aws(), |machine, _| machine["spec"]["bootstrap"] = json!({}));
    assert_eq!(
        effects(&converted),
        [(Severity::Loses, "spec.bootstrap.dataSecretName")]
    );
}

#[test]
fn a_field_that_cluster_api_requires_prevents_the_conversion() {
    for field in ["ami", "instanceType", "userDataSecret"] {
        let sample = aws();
        let mut spec = sample.provider_spec.clone();
        remove(&mut spec, field);
        assert!(
            convert(&sample.machine(&spec), &sample.context()).is_blocked(),
            "{field}"
        );
    }
}

#[test]
fn a_provider_id_that_the_machine_does_not_have_yet_is_reported() {
    let converted = back(&sample("power-vs"), |_, infrastructure| {
        infrastructure["spec"]["providerID"] = json!("ibmpowervs://dal/dal10/a/b");
    });
    assert_eq!(
        effects(&converted),
        [(Severity::Loses, "IBMPowerVSMachine spec.providerID")]
    );
    let converted = back(&sample("power-vs"), |machine, infrastructure| {
        machine["spec"]["providerID"] = json!("ibmpowervs://dal/dal10/a/c");
        infrastructure["spec"]["providerID"] = json!("ibmpowervs://dal/dal10/a/b");
    });
    assert_eq!(
        effects(&converted),
        [(Severity::Blocks, "IBMPowerVSMachine spec.providerID")]
    );
}

#[test]
fn a_system_type_that_not_every_release_of_the_crd_accepts_is_written_and_reported() {
    let sample = sample("power-vs");
    for (value, expected) in [
        ("s1022", &[][..]),
        ("s922", &[(Severity::Loses, "spec.providerSpec.value.systemType")]),
        ("s1122", &[(Severity::Loses, "spec.providerSpec.value.systemType")]),
        ("z1", &[(Severity::Blocks, "spec.providerSpec.value.systemType")]),
    ] {
        let mut spec = sample.provider_spec.clone();
        spec["systemType"] = json!(value);
        let converted = convert(&sample.machine(&spec), &sample.context());
        assert_eq!(effects(&converted), expected, "{value}");
        if !converted.is_blocked() {
            assert_eq!(converted.objects[1]["spec"]["systemType"], value);
            let returned = back(&sample, |_, machine| machine["spec"]["systemType"] = json!(value));
            assert_eq!(returned.issues.is_empty(), expected.is_empty(), "{value} back");
            assert_eq!(
                returned.objects[0]["spec"]["providerSpec"]["value"]["systemType"],
                value
            );
        }
    }
}

#[test]
fn other_credentials_of_power_vs_are_reported_and_the_machine_converts() {
    let sample = sample("power-vs");
    let mut spec = sample.provider_spec.clone();
    spec["credentialsSecret"]["name"] = json!("mine");
    let converted = convert(&sample.machine(&spec), &sample.context());
    let path = "spec.providerSpec.value.credentialsSecret.name";
    assert_eq!(effects(&converted), [(Severity::Loses, path)]);
}

#[test]
fn load_balancers_without_an_infrastructure_cluster_are_reported_and_the_machine_converts() {
    let sample = aws();
    let mut spec = sample.provider_spec.clone();
    spec["loadBalancers"] = json!([{"name": "int", "type": "network"}]);
    let context = Context {
        infrastructure_cluster: Lookup::Absent,
        role: Some(crate::conversion::Role::ControlPlane),
        ..sample.context()
    };
    let converted = convert(&sample.machine(&spec), &context);
    let path = "spec.providerSpec.value.loadBalancers";
    assert_eq!(effects(&converted), [(Severity::Loses, path)]);
}

#[test]
fn a_host_with_an_older_id_converts_to_the_machine_api_only() {
    let host = |id: &str| {
        back(&aws(), |_, machine| {
            machine["spec"]["tenancy"] = json!("host");
            machine["spec"]["hostAffinity"] = json!("host");
            machine["spec"]["hostID"] = json!(id);
        })
    };
    assert_eq!(effects(&host("h-0123456789abcdef0")), []);
    let path = "AWSMachine spec.hostID";
    assert_eq!(effects(&host("h-0123abcd")), [(Severity::Loses, path)]);
    assert_eq!(effects(&host("h-01234")), [(Severity::Blocks, path)]);
    let sample = aws();
    let mut spec = sample.provider_spec.clone();
    spec["placement"]["host"] = json!({"affinity": "DedicatedHost", "dedicatedHost": {"id": "h-0123abcd"}});
    assert!(convert(&sample.machine(&spec), &sample.context()).is_blocked());
}

#[test]
fn a_provider_spec_without_a_kind_is_one_of_the_platform_of_the_infrastructure() {
    for (platform, name) in [
        ("aws", "AWS"),
        ("azure", "Azure"),
        ("bare-metal", "BareMetal"),
        ("gcp", "GCP"),
        ("ibm-vpc", "IBMCloud"),
        ("nutanix", "Nutanix"),
        ("openstack", "OpenStack"),
        ("power-vs", "PowerVS"),
        ("vsphere", "VSphere"),
    ] {
        let mut sample = sample(platform);
        remove(&mut sample.provider_spec, "kind");
        remove(&mut sample.provider_spec, "apiVersion");
        let machine = sample.machine(&sample.provider_spec);
        let unknown = convert(&machine, &sample.context());
        assert_eq!(
            effects(&unknown),
            [(Severity::Blocks, "spec.providerSpec.value.kind")],
            "{platform}"
        );
        sample.infrastructure["status"]["platformStatus"]["type"] = json!(name);
        let (there, back) = round_trip(&machine, &sample.context());
        assert_eq!(there.issues, [], "{platform}");
        let back = back.unwrap();
        let context = sample.context();
        assert_eq!(
            normalise(&back.objects[0], &context),
            normalise(&machine, &context),
            "{platform}"
        );
    }
}

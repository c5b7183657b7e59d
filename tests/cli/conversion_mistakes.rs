//! `capstan convert` of files with mistakes: what it must name, and which advice it must give.

use serde_json::{Value, json};

use super::conversions::{cluster, machine, machine_of};
use super::{Folder, capstan, path, stderr, stdout};

const CLUSTER_LABEL: &str = "machine.openshift.io/cluster-api-cluster";
const PROVIDER_ID: &str = "aws:///us-east-1a/i-0123456789abcdef0";

/// A machine with the label of its cluster.
fn labelled(name: &str, cluster: &str) -> Value {
    let mut machine = machine(name, &json!({}));
    machine["metadata"]["labels"] = json!({CLUSTER_LABEL: cluster});
    machine
}

/// A machine with an instance.
fn running(name: &str) -> Value {
    let mut machine = machine(name, &json!({}));
    machine["spec"]["providerID"] = json!(PROVIDER_ID);
    machine
}

fn aws_cluster(name: &str) -> Value {
    let [_, mut cluster] = cluster();
    cluster["metadata"]["name"] = json!(name);
    cluster
}

/// Converts objects with others, and returns the exit code, standard output and standard error.
fn convert(with: &[Value], objects: &[Value]) -> (Option<i32>, String, String) {
    let folder = Folder::new();
    let with = folder.objects("with.yaml", with);
    let file = folder.objects("objects.yaml", objects);
    let output = capstan(&["convert", "--with", path(&with), path(&file)], "");
    (output.status.code(), stdout(&output), stderr(&output))
}

#[test]
fn w31_a_machine_of_a_misspelt_group_is_named_and_fails() {
    let mut misspelt = machine("b", &json!({}));
    misspelt["apiVersion"] = json!("machine.openshfit.io/v1beta1");
    let mut core = machine("c", &json!({}));
    core["apiVersion"] = json!("v1");
    let mut both = machine("d", &json!({}));
    both["apiVersion"] = json!("cluster.x-k8s.oi/v1beta2");
    both["kind"] = json!("Machin");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    let (code, text, report) = convert(&cluster(), &[machine("a", &json!({})), misspelt, core, both, secret]);
    assert_eq!(code, Some(1), "{report}");
    assert_eq!(text.matches("\nkind: Machine\n").count(), 1);
    for part in [
        "error: Machine openshift-machine-api/b: apiVersion\n",
        "reason: Capstan knows no Machine in \"machine.openshfit.io/v1beta1\"\n",
        "help: use machine.openshift.io/v1beta1\n",
        "error: Machine openshift-machine-api/c: apiVersion\n",
        "help: use machine.openshift.io/v1beta1 or cluster.x-k8s.io/v1beta2, or leave the object out\n",
        "error: Machin openshift-machine-api/d: apiVersion\n",
        "help: use cluster.x-k8s.io/v1beta2\n",
        "note: 1 of 4 objects converted without loss, 0 lose values, 3 cannot be converted\n",
    ] {
        assert!(report.contains(part), "{part} is missing in\n{report}");
    }
}

#[test]
fn w31_an_infrastructure_of_a_misspelt_group_has_a_note() {
    let [mut infrastructure, cluster] = cluster();
    infrastructure["apiVersion"] = json!("config.openshfit.io/v1");
    let (_, _, report) = convert(&[infrastructure, cluster], &[labelled("a", "prod-x7k2p")]);
    let note =
        "Infrastructure cluster is not used, because its group is config.openshfit.io; use config.openshift.io\n";
    assert!(report.contains(note), "{report}");
}

#[test]
fn w32_machines_with_an_instance_have_a_note_that_two_apis_would_act_on_it() {
    let (code, _, report) = convert(&cluster(), &[running("a"), running("b"), machine("c", &json!({}))]);
    assert_eq!(code, Some(0), "{report}");
    let note = "note: 2 of 3 objects are Machines with an instance, and they are not paused: beside the Machines that \
                they are made from, two APIs would act on each instance; use `capstan migrate`, or apply them with the \
                annotation cluster.x-k8s.io/paused, as the help shows\n";
    assert_eq!(report, note);
}

#[test]
fn w32_a_machine_set_with_replicas_has_a_note_that_both_sets_create_machines() {
    let template = machine("a", &json!({}))["spec"].clone();
    let set = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": {"name": "a", "namespace": "openshift-machine-api"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"set": "a"}},
            "template": {"metadata": {"labels": {"set": "a"}}, "spec": template}}});
    let (code, _, report) = convert(&cluster(), std::slice::from_ref(&set));
    assert_eq!(code, Some(0), "{report}");
    let note = "note: 1 of 1 objects are MachineSets with replicas, and they are not paused: beside the MachineSets \
                that they are made from, each creates its own machines; use `capstan migrate`, or apply them with the \
                annotation cluster.x-k8s.io/paused, as the help shows\n";
    assert_eq!(report, note);
    let mut empty = set;
    empty["spec"]["replicas"] = json!(0);
    let (_, _, report) = convert(&cluster(), &[empty]);
    assert_eq!(report, "");
}

/// The example of the help adds the annotation with `kubectl annotate`.
#[test]
fn w32_the_example_of_the_help_passes_the_admission_of_capstan() {
    let help = stdout(&capstan(&["convert", "--help"], ""));
    assert!(
        help.contains("kubectl annotate --local -f - cluster.x-k8s.io/paused= -o yaml"),
        "{help}"
    );
    let folder = Folder::new();
    let with = folder.objects("with.yaml", &cluster());
    let source = folder.objects("source.yaml", &[running("a")]);
    let output = capstan(&["convert", "-o", "json", "--with", path(&with), path(&source)], "");
    let rows: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let mut objects = rows[0]["objects"].as_array().unwrap().clone();
    let refused = folder.objects("live.yaml", &objects);
    let refused = capstan(
        &["check", "--with", path(&source), "--with", path(&with), path(&refused)],
        "",
    );
    assert_eq!(refused.status.code(), Some(1), "{}", stdout(&refused));
    for object in &mut objects {
        object["metadata"]["annotations"]["cluster.x-k8s.io/paused"] = json!("");
    }
    let paused = folder.objects("paused.yaml", &objects);
    let paused = capstan(
        &["check", "--with", path(&source), "--with", path(&with), path(&paused)],
        "",
    );
    assert_eq!(paused.status.code(), Some(0), "{}", stdout(&paused));
}

/// A machine of GCP with these disks.
fn gcp(disks: &Value) -> Value {
    let spec = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "GCPMachineProviderSpec",
        "machineType": "n2-standard-4", "zone": "us-central1-a", "disks": disks,
        "networkInterfaces": [{"network": "n", "subnetwork": "s"}], "userDataSecret": {"name": "worker-user-data"},
        "credentialsSecret": {"name": "gcp-cloud-credentials"}, "serviceAccounts": [{"email": "w@p.iam.gserviceaccount.com",
            "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}]});
    machine_of("a", &spec)
}

/// The Infrastructure and the GCPCluster.
fn gcp_cluster() -> [Value; 2] {
    let [mut infrastructure, mut cluster] = cluster();
    infrastructure["status"]["platformStatus"] = json!({"gcp": {"region": "us-central1", "projectID": "p"}});
    cluster["apiVersion"] = json!("infrastructure.cluster.x-k8s.io/v1beta1");
    cluster["kind"] = json!("GCPCluster");
    cluster["spec"] = json!({"project": "p", "region": "us-central1", "network": {"name": "n"}});
    [infrastructure, cluster]
}

#[test]
fn w33_no_advice_removes_the_image_of_the_disk_that_must_boot() {
    let disk = json!([{"autoDelete": true, "boot": false, "image": "projects/p/global/images/i", "sizeGb": 128}]);
    let (code, _, report) = convert(&gcp_cluster(), &[gcp(&disk)]);
    assert_eq!(code, Some(1), "{report}");
    assert!(
        report.contains("disks\n") && !report.contains("disks[0].image"),
        "{report}"
    );
    let without = json!([{"autoDelete": true, "boot": true, "sizeGb": 128}]);
    let (code, _, report) = convert(&gcp_cluster(), &[gcp(&without)]);
    assert_eq!(code, Some(1), "{report}");
    assert!(report.contains("spec.providerSpec.value.disks[0].image\n"), "{report}");
}

#[test]
fn w34_a_known_field_of_a_wrong_type_is_not_called_unknown() {
    let mut wrong = machine(
        "a",
        &json!({"userDataSecret": {"name": "worker-user-data", "namespace": 7}}),
    );
    wrong["spec"]["providerID"] = json!(5);
    let (_, _, report) = convert(&cluster(), &[wrong]);
    for part in [
        "reason: must be a string; it is 5\n",
        "reason: must be a string; it is 7\n",
    ] {
        assert!(report.contains(part), "{part} is missing in\n{report}");
    }
    assert!(
        !report.contains("knows no field") && !report.contains("remove the field"),
        "{report}"
    );
}

#[test]
fn w34_a_number_in_quotes_is_shown() {
    let set = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": {"name": "a", "namespace": "openshift-machine-api"}, "spec": {"replicas": "3"}});
    let (_, _, report) = convert(&cluster(), &[set]);
    assert!(
        report.contains("reason: must be an integer, at least 0; it is \"3\"\n"),
        "{report}"
    );
}

#[test]
fn w35_two_infrastructure_clusters_are_not_called_missing() {
    let two = [aws_cluster("a1"), aws_cluster("a2")];
    let region = json!({"placement": {"availabilityZone": "us-east-1a", "region": "us-east-1"}});
    let (code, _, report) = convert(&two, &[machine("a", &region)]);
    assert_eq!(code, Some(1));
    assert!(report.contains("2 AWSClusters were given: a1, a2"), "{report}");
    assert!(!report.contains("no AWSCluster"), "{report}");
    assert!(!report.contains("not given: AWSCluster"), "{report}");
    let (code, _, report) = convert(&two, &[labelled("a", "a2")]);
    assert_eq!(code, Some(0), "the label names one of them: {report}");
}

#[test]
fn w36_a_label_of_another_cluster_than_the_infrastructure_cluster_is_an_issue() {
    let (code, _, report) = convert(
        &[aws_cluster("aws-c1")],
        &[labelled("a", "aws-c2"), labelled("b", "aws-c1")],
    );
    assert_eq!(code, Some(1), "{report}");
    for part in [
        "error: Machine openshift-machine-api/a: metadata.labels[machine.openshift.io/cluster-api-cluster]\n",
        "reason: it is \"aws-c2\", but the AWSCluster that was given is \"aws-c1\"\n",
        "note: 1 of 2 objects converted without loss, 0 lose values, 1 cannot be converted\n",
    ] {
        assert!(report.contains(part), "{part} is missing in\n{report}");
    }
}

#[test]
fn w36_an_infrastructure_of_another_cluster_or_platform_has_a_note() {
    let [mut infrastructure, cluster] = cluster();
    let (code, _, report) = convert(
        &[infrastructure.clone(), aws_cluster("aws-c1")],
        &[labelled("a", "aws-c1"), labelled("b", "aws-c1")],
    );
    assert_eq!(code, Some(0), "{report}");
    for note in [
        "note: the AWSCluster aws-c1 is not the one of the cluster prod-x7k2p, which the Infrastructure names; give the \
         objects of one cluster\n",
        "note: 2 of 2 objects have another name in the label machine.openshift.io/cluster-api-cluster than the \
         Infrastructure, for example Machine openshift-machine-api/a: \"aws-c1\"; they are converted for the cluster \
         prod-x7k2p\n",
    ] {
        assert!(report.contains(note), "{note} is missing in\n{report}");
    }
    infrastructure["status"]["platformStatus"]["type"] = json!("Azure");
    let (code, _, report) = convert(&[infrastructure, cluster], &[labelled("a", "prod-x7k2p")]);
    assert_eq!(code, Some(0), "{report}");
    let note = "note: 1 of 1 objects are of another platform than the cluster, for example Machine \
                openshift-machine-api/a; the Infrastructure has the platform Azure\n";
    assert!(report.contains(note), "{report}");
}

#[test]
fn w37_a_provider_id_in_a_template_is_one_issue_at_its_path() {
    let mut template = machine("a", &json!({}))["spec"].clone();
    template["providerID"] = json!("aws:///a/b");
    let set = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": {"name": "a", "namespace": "openshift-machine-api"},
        "spec": {"selector": {"matchLabels": {"set": "a"}},
            "template": {"metadata": {"labels": {"set": "a"}}, "spec": template}}});
    let (_, _, report) = convert(&cluster(), &[set]);
    assert!(report.contains("spec.template.spec.providerID\n"), "{report}");
    assert_eq!(report.matches("error: ").count(), 1, "{report}");
}

#[test]
fn w38_a_misspelt_infrastructure_kind_is_corrected_and_no_one_waits_for_a_provider_id_that_is_set() {
    let [_, aws_cluster] = cluster();
    let folder = Folder::new();
    let with = folder.objects("with.yaml", &cluster());
    let file = folder.objects("machine.yaml", &[running("a")]);
    let output = capstan(&["convert", "-o", "json", "--with", path(&with), path(&file)], "");
    let rows: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let [object, infrastructure] = [0, 1].map(|index| rows[0]["objects"][index].clone());
    let mut misspelt = object.clone();
    misspelt["spec"]["infrastructureRef"]["kind"] = json!("AWSmachine");
    let (_, _, report) = convert(std::slice::from_ref(&aws_cluster), &[misspelt, infrastructure.clone()]);
    assert!(
        report.contains("help: use AWSMachine, or keep the Machine in Cluster API\n"),
        "{report}"
    );
    let mut other = infrastructure;
    other["spec"]["instanceID"] = json!("i-0f0f0f0f0f0f0f0f0");
    let (_, _, report) = convert(&[aws_cluster], &[object, other]);
    assert!(report.contains("help: correct the one that is wrong\n"), "{report}");
    assert!(!report.contains("wait until"), "{report}");
}

#[test]
fn w46_a_provider_id_of_another_platform_is_an_issue() {
    let mut machine = gcp(
        &json!([{"autoDelete": true, "boot": true, "image": "projects/p/global/images/i",
        "sizeGb": 128, "type": "pd-ssd"}]),
    );
    machine["spec"]["providerID"] = json!(PROVIDER_ID);
    let (code, _, report) = convert(&gcp_cluster(), &[machine.clone()]);
    assert_eq!(code, Some(1), "{report}");
    assert!(
        report.contains("reason: it is the ID of an instance on AWS, and the machine is on GCP\n"),
        "{report}"
    );
    machine["spec"]["providerID"] = json!("gce://p/us-central1-a/a");
    let (code, _, report) = convert(&gcp_cluster(), &[machine]);
    assert_eq!(code, Some(0), "{report}");
}

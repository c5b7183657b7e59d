//! The arguments of `capstan migrate`. `tests/mirroring` runs it with a cluster.

use super::{Folder, capstan, path, stderr};

#[test]
fn a_migration_needs_one_direction_and_a_cluster() {
    let refused = |arguments: &[&str], text: &str| {
        let output = capstan(&[&["migrate"], arguments].concat(), "");
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(text), "{error}");
    };
    refused(&["machine", "a"], "--to <TO>");
    refused(
        &["machine", "a", "--to", "clusterAPI", "--cancel"],
        "cannot be used with",
    );
    refused(&["machine", "a", "--to", "elsewhere"], "machineAPI, clusterAPI");
    refused(&["pod", "a", "--to", "clusterAPI"], "machine, machineset");
    refused(&["machine", "--to", "clusterAPI"], "NAME");
    refused(
        &["machine", "a", "--selector", "pool=a", "--to", "clusterAPI"],
        "cannot be used with",
    );
    refused(&["machine", "a", "--to", "clusterAPI", "--parallel", "2"], "--wait");
    let folder = Folder::new();
    let kubeconfig = folder.file(
        "kubeconfig",
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n\
         users: [{name: a, user: {}}]\nclusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n",
    );
    let cluster = [
        "machineset",
        "a",
        "--to",
        "machineAPI",
        "--kubeconfig",
        path(&kubeconfig),
    ];
    refused(&cluster, "cannot reach the API server at http://127.0.0.1:1");
}

//! Fuzzing of what the shell reads: files of objects, and certificates. The targets of core are in
//! `core/tests/fuzz`; `make fuzz RUNS=100000` lets all of them run longer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that fails is what these are for, and the number of executions is for the caller"
)]

use capstan::cli::documents;
use capstan::tls::issue::{Authority, DAY, Names};
use capstan::tls::{Certificates, inspect};
use proptest::prelude::*;

#[path = "../core/tests/fuzz/inputs.rs"]
#[allow(dead_code, reason = "the targets of core use the rest")]
mod inputs;
#[path = "../core/tests/fuzz/runner.rs"]
mod runner;

use inputs::spoilt;
use runner::fuzz;

#[test]
fn a_file_of_objects_is_read_or_refused_and_every_object_knows_its_line() {
    let list = br#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"A","metadata":{"name":"x"}}]}"#;
    let flow = b"# a comment\n---\n{apiVersion: v1, kind: A}\n---\n- apiVersion: v1\n  kind: B\n...\n";
    let seeds = vec![
        include_bytes!("fixtures/aws/set.yaml").to_vec(),
        include_bytes!("fixtures/aws/infrastructure.yaml").to_vec(),
        list.to_vec(),
        flow.to_vec(),
        b"apiVersion: v1\nkind: A\ndata: &x {a: b}\nagain: *x\ntext: |\n  ---\n  more\n".to_vec(),
    ];
    fuzz("documents", 1500, &spoilt(seeds), |bytes| {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match documents::parse("fuzz", &text) {
            Ok(read) => {
                for document in read {
                    prop_assert!(!document.text("/kind").is_empty());
                    prop_assert!((1..=text.lines().count().max(1)).contains(&document.line));
                }
            }
            Err(error) => prop_assert!(error.to_string().starts_with("fuzz: document "), "{error}"),
        }
        Ok(())
    });
}

#[test]
fn a_certificate_is_read_or_refused_and_never_served_without_its_key() {
    let now = 1_800_000_000;
    let authority = Authority::issue("fuzz", now, DAY).unwrap();
    let names = Names::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let (leaf, other) = (
        authority.leaf(&names, now, DAY).unwrap(),
        authority.leaf(&names, now, DAY).unwrap(),
    );
    let chain = [leaf.certificate.as_bytes(), authority.certificate.as_bytes()].concat();
    let keys = vec![leaf.key.as_bytes().to_vec(), other.key.as_bytes().to_vec()];
    fuzz(
        "certificates",
        1000,
        &(spoilt(vec![chain, leaf.certificate.as_bytes().to_vec()]), spoilt(keys)),
        |(chain, key)| {
            let _read = inspect::certificates(&chain);
            let served = Certificates::new().serve(&chain, &key, now);
            prop_assert!(
                key != other.key.as_bytes() || served.is_err(),
                "the key of another certificate"
            );
            prop_assert!(
                served.is_err() || !chain.is_empty() && !key.is_empty(),
                "nothing is no certificate"
            );
            Ok(())
        },
    );
}

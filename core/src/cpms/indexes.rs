//! The index of a machine in the control plane.
//!
//! The number at the end of the name is the index. Installers and this controller create such
//! names. For a machine without a number, the controller writes the index into an annotation when
//! it adopts the machine. Until then the machine gets the lowest free index, in the order of
//! failure domain and name. The result is always the same, also after only some of the annotations
//! were written (defect B22).

use std::collections::{BTreeMap, BTreeSet};

use super::domains::FailureDomain;

/// The index of a machine whose name has none; written on adoption.
pub const INDEX: &str = "capstan.dev/index";
/// The UID of the machine that a machine replaces; written on creation.
pub const REPLACES: &str = "capstan.dev/replaces";
/// The UID of a set that is being deleted and must not adopt the machine again; written during its
/// removal.
pub const RELEASED: &str = "capstan.dev/released";

/// The annotation of a set with the name of the machine that was created last for each index: a
/// JSON object of index and name.
pub const LAST_CREATED: &str = "capstan.dev/last-created";
/// The fields that the controller copied from the template, so that it removes them when the
/// template no longer has them.
pub const FROM_TEMPLATE: &str = "capstan.dev/from-template";

/// The properties of a machine that decide its index.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Name of the machine.
    pub name: &'a str,
    /// UID of the machine.
    pub uid: &'a str,
    /// Annotations of the machine.
    pub annotations: &'a BTreeMap<String, String>,
    /// Its failure domain.
    pub domain: Option<&'a FailureDomain>,
}

/// The index of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// The index.
    pub value: u32,
    /// Whether the name or the annotation has the index. Otherwise the annotation must be written.
    pub recorded: bool,
}

/// The number after the last `-` of a name; `None` without one.
pub fn of_name(name: &str) -> Option<u32> {
    let (_, digits) = name.rsplit_once('-')?;
    let number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let index: u32 = number.then(|| digits.parse().ok()).flatten()?;
    // The limit of the operator that OpenShift ships.
    i32::try_from(index).ok().map(|_| index)
}

/// The index of each machine, in the order of `members`.
pub fn assign(members: &[Member<'_>]) -> Vec<Index> {
    let recorded = |member: &Member<'_>| {
        of_name(member.name).or_else(|| member.annotations.get(INDEX).and_then(|index| index.parse().ok()))
    };
    // A machine that is being replaced keeps its index without its annotation.
    let replaced: BTreeMap<&str, u32> = members
        .iter()
        .filter_map(|member| Some((member.annotations.get(REPLACES)?.as_str(), recorded(member)?)))
        .collect();
    let mut indexes: Vec<Option<Index>> = members
        .iter()
        .map(|member| {
            let known = recorded(member).map(|value| Index { value, recorded: true });
            let by_replacement = || {
                replaced.get(member.uid).map(|value| Index {
                    value: *value,
                    recorded: false,
                })
            };
            known.or_else(by_replacement)
        })
        .collect();
    let used: BTreeSet<u32> = indexes.iter().flatten().map(|index| index.value).collect();
    let mut free = (0..).filter(|index| !used.contains(index));
    let mut open: Vec<(usize, &Member<'_>)> = members
        .iter()
        .enumerate()
        .filter(|(position, _)| indexes.get(*position).is_some_and(Option::is_none))
        .collect();
    open.sort_by_key(|(_, member)| (member.domain, member.name, member.uid));
    for (position, _) in open {
        if let (Some(slot), Some(value)) = (indexes.get_mut(position), free.next()) {
            *slot = Some(Index { value, recorded: false });
        }
    }
    let none = Index {
        value: 0,
        recorded: false,
    };
    indexes.into_iter().map(|index| index.unwrap_or(none)).collect()
}

/// The indexes that more than one machine has, with the names of these machines.
///
/// While no rollout runs, each index has one machine. Machines share an index if their names end in
/// the same number, for example in the last byte of an address.
pub fn shared<'a>(machines: impl IntoIterator<Item = (u32, &'a str)>) -> BTreeMap<u32, Vec<&'a str>> {
    let mut names: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for (index, name) in machines {
        names.entry(index).or_default().push(name);
    }
    names.retain(|_, names| names.len() > 1);
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cpms::domains::Platform;

    #[test]
    fn the_index_is_the_number_after_the_last_dash() {
        assert_eq!(of_name("ocp-x7k2p-master-0"), Some(0));
        assert_eq!(of_name("ocp-x7k2p-master-fghij-12"), Some(12));
        for none in [
            "master",
            "master-a",
            "master-",
            "master-1a",
            "master-+1",
            "0",
            "m-4294967296",
            "m-2147483648",
        ] {
            assert_eq!(of_name(none), None, "{none}");
        }
    }

    /// Name, zone, annotations.
    type Sample<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

    fn values(machines: &[Sample<'_>]) -> Vec<u32> {
        let domains: Vec<FailureDomain> = machines
            .iter()
            .map(|(_, zone, _)| FailureDomain::new(Platform::Gcp, json!({ "zone": zone })))
            .collect();
        let annotations: Vec<BTreeMap<String, String>> = machines
            .iter()
            .map(|(_, _, pairs)| {
                pairs
                    .iter()
                    .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                    .collect()
            })
            .collect();
        let members: Vec<Member<'_>> = machines
            .iter()
            .zip(&domains)
            .zip(&annotations)
            .map(|(((name, _, _), domain), annotations)| Member {
                name,
                uid: name,
                annotations,
                domain: Some(domain),
            })
            .collect();
        assign(&members).iter().map(|index| index.value).collect()
    }

    #[test]
    fn machines_without_numbers_take_the_free_indexes_in_the_order_of_their_domains() {
        assert_eq!(values(&[("x", "b", &[]), ("y", "a", &[]), ("z", "c", &[])]), [1, 0, 2]);
        assert_eq!(
            values(&[("x", "b", &[]), ("m-1", "c", &[]), ("m-2", "a", &[])]),
            [0, 1, 2]
        );
        assert_eq!(
            values(&[("x", "a", &[]), ("y", "a", &[]), ("m-0", "a", &[])]),
            [1, 2, 0]
        );
    }

    /// OpenShift's operator takes the first index of a map in random order that has the machine's
    /// domain.
    #[test]
    fn b22_indexes_do_not_depend_on_the_order_of_machines_in_repeated_domains() {
        let machines: [Sample<'_>; 4] = [("x", "a", &[]), ("y", "a", &[]), ("z", "a", &[]), ("m-1", "a", &[])];
        let expected = [0, 2, 3, 1];
        for turn in 0..24_usize {
            // All orders of four machines.
            let mut left: Vec<usize> = vec![0, 1, 2, 3];
            let order: Vec<usize> = [turn / 6, (turn / 2) % 3, turn % 2, 0]
                .iter()
                .map(|at| left.remove(*at))
                .collect();
            let read: Vec<Sample<'_>> = order.iter().map(|at| machines[*at]).collect();
            let found = values(&read);
            let of_machine: Vec<u32> = (0..4)
                .map(|at| found[order.iter().position(|there| *there == at).unwrap()])
                .collect();
            assert_eq!(of_machine, expected, "{order:?}");
        }
    }

    #[test]
    fn indexes_stay_when_only_some_annotations_were_written() {
        let all = values(&[("x", "b", &[]), ("y", "a", &[]), ("z", "c", &[])]);
        for written in 0..3 {
            let texts: Vec<String> = all.iter().map(u32::to_string).collect();
            let note = [(INDEX, texts[written].as_str())];
            let notes: [&[(&str, &str)]; 3] = std::array::from_fn(|at| if at == written { &note[..] } else { &[] });
            assert_eq!(
                values(&[("x", "b", notes[0]), ("y", "a", notes[1]), ("z", "c", notes[2])]),
                all
            );
        }
    }

    #[test]
    fn s4_machines_whose_names_end_in_the_same_number_share_an_index() {
        let machines = [(10, "a-10"), (0, "b-0"), (10, "c-10"), (1, "d-1")];
        assert_eq!(shared(machines), [(10, vec!["a-10", "c-10"])].into());
        assert!(shared([(0, "a-0"), (1, "b-1")]).is_empty());
    }

    #[test]
    fn a_machine_that_is_being_replaced_keeps_its_index_without_its_annotation() {
        let replaced = values(&[
            ("x", "b", &[]),
            ("y", "a", &[]),
            ("z", "c", &[]),
            ("m-q-1", "b", &[(REPLACES, "x")]),
        ]);
        assert_eq!(replaced, [1, 0, 2, 1]);
    }
}

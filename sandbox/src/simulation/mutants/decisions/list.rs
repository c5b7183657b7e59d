//! The mutants of decisions. The numbers of schedules are those that `capstan-sandbox decisions`
//! prints.

use super::{Decision, Edit, End};

/// The mutants.
pub const DECISIONS: &[Decision] = &[
    Decision {
        id: "revert-s1",
        defect: "S1",
        wrong: "A machine that was created from the template is compared with the template as it is in the set; a field that a webhook drops creates and deletes machines without end.",
        edits: &[
            Edit {
                file: "core/src/cpms/reconcile_cache.rs",
                around: "let created_from = @;",
                old: "CreatedFrom::read(machine)",
                new: "None",
            },
            Edit {
                file: "core/src/cpms/stored_template.rs",
                around: "let stored = @;",
                old: "answers.iter().find(|answer| answer.template == key).cloned()",
                new: "None",
            },
        ],
        end: End::Found {
            scenario: "neighbours",
            by: "P3",
            schedules: 1,
        },
    },
    Decision {
        id: "revert-s3",
        defect: "S3",
        wrong: "The selector alone decides which machines belong to the set, and it also matches workers.",
        edits: &[Edit {
            file: "core/src/cpms/selector.rs",
            around: "@",
            old: "is_control_plane(labels) && self.matches(labels)",
            new: "self.matches(labels)",
        }],
        end: End::Found {
            scenario: "neighbours",
            by: "P2",
            schedules: 3,
        },
    },
    Decision {
        id: "revert-s8",
        defect: "S8",
        wrong: "A report of the etcd operator is healthy unless it contains the word unhealthy.",
        edits: &[
            Edit {
                file: "core/src/cpms/etcd.rs",
                around: "(Some((_, text)), None) if @ => None,",
                old: "all_members_available(text)",
                new: "!text.contains(\"unhealthy\")",
            },
            Edit {
                file: "core/src/cpms/etcd.rs",
                around: "(None, _) => @,",
                old: "message(available.message.as_ref(), \"it does not report its members\")",
                new: "None",
            },
            Edit {
                file: "core/src/cpms/etcd.rs",
                around: "if let Some((type_, text)) = @ {",
                old: "reported",
                new: "None",
            },
        ],
        end: End::Found {
            scenario: "neighbours",
            by: "C12",
            schedules: 25,
        },
    },
    Decision {
        id: "revert-s7",
        defect: "S7",
        wrong: "A node that no machine claims counts as one that joins, for ever.",
        edits: &[Edit {
            file: "core/src/cpms/degraded.rs",
            around: "let late = @;",
            old: "until.is_some_and(|until| until <= now)",
            new: "false",
        }],
        end: End::Found {
            scenario: "neighbours",
            by: "P7",
            schedules: 30,
        },
    },
    Decision {
        id: "preconditions",
        defect: "",
        wrong: "A machine is deleted without a precondition.",
        edits: &[Edit {
            file: "src/runtime/write.rs",
            around: "@",
            old: "precondition.map(|(uid, version)| Preconditions {\n                uid: Some(uid.clone()),\n                resource_version: Some(version.clone()),\n            })",
            new: "None",
        }],
        end: End::Found {
            scenario: "corners",
            by: "P14",
            schedules: 2,
        },
    },
    Decision {
        id: "finish-any-current",
        defect: "",
        wrong: "An old machine is deleted as soon as its replacement exists.",
        edits: &[Edit {
            file: "core/src/cpms/plan/rollout.rs",
            around: "@",
            old: "updated.last()",
            new: "live.iter().find(|machine| machine.is_current())",
        }],
        end: End::Found {
            scenario: "rollout",
            by: "C2",
            schedules: 1,
        },
    },
    Decision {
        id: "finish-unready-only",
        defect: "",
        wrong: "Of several outdated machines, the oldest one is deleted, and not one that is not ready.",
        edits: &[Edit {
            file: "core/src/cpms/plan/rollout.rs",
            around: "let unready = outdated.iter().find(|machine| !machine.is_ready());\n            if let Some(old) = @ {",
            old: "unready.or(outdated.first())",
            new: "outdated.first()",
        }],
        end: End::Found {
            scenario: "corners",
            by: "P15",
            schedules: 3,
        },
    },
    Decision {
        id: "start-first-unready",
        defect: "",
        wrong: "The first machine of an index decides whether the index is outdated.",
        edits: &[Edit {
            file: "core/src/cpms/plan/rollout.rs",
            around: "let waiting = @;",
            old: "self.staying(index).all(|machine| !machine.is_current())",
            new: "self.staying(index).next().is_some_and(|machine| !machine.is_current())",
        }],
        end: End::Survives(
            "a second machine of an index is one more than replicas, and the surge limit stops the start",
        ),
    },
    Decision {
        id: "pause",
        defect: "",
        wrong: "A pause is ignored.",
        edits: &[Edit {
            file: "core/src/cpms/plan/rollout.rs",
            around: "@",
            old: "self.spec.rollout.paused",
            new: "false",
        }],
        end: End::Found {
            scenario: "pauses",
            by: "P1",
            schedules: 5,
        },
    },
    Decision {
        id: "pause-deletion",
        defect: "",
        wrong: "A pause does not stop deletions.",
        edits: &[Edit {
            file: "core/src/cpms/plan/rollout.rs",
            around: "fn blocks_deletion(self, target: &MachineState) -> Option<(WaitReason, String)> {\n        if @ {",
            old: "self.paused()",
            new: "false",
        }],
        end: End::Found {
            scenario: "pauses",
            by: "P1",
            schedules: 5,
        },
    },
    Decision {
        id: "sub-two",
        defect: "",
        wrong: "A ready machine is deleted while two others are not ready.",
        edits: &[Edit {
            file: "core/src/cpms/plan/rollout.rs",
            around: "(@, self",
            old: "replicas.saturating_sub(1)",
            new: "replicas.saturating_sub(2)",
        }],
        end: End::Found {
            scenario: "deletions",
            by: "C12",
            schedules: 7,
        },
    },
    Decision {
        id: "limit",
        defect: "",
        wrong: "The rollout replaces one machine more than its limit.",
        edits: &[Edit {
            file: "core/src/cpms/plan/rollout.rs",
            around: "if @ {",
            old: "done >= limit",
            new: "done > limit",
        }],
        end: End::Found {
            scenario: "pauses",
            by: "P9",
            schedules: 11,
        },
    },
    Decision {
        id: "min-ready",
        defect: "",
        wrong: "A machine counts as ready at once.",
        edits: &[Edit {
            file: "core/src/cpms/machine_state.rs",
            around: "@",
            old: "since.checked_add(settings.min_ready).unwrap_or(Timestamp::MAX)",
            new: "since",
        }],
        end: End::Found {
            scenario: "neighbours",
            by: "P10",
            schedules: 1,
        },
    },
    Decision {
        id: "etcd-degraded-arm",
        defect: "",
        wrong: "The status of the condition Degraded of the etcd operator is ignored.",
        edits: &[Edit {
            file: "core/src/cpms/etcd.rs",
            around: "match @ {\n            \"False\" => {}",
            old: "degraded.status.as_str()",
            new: "\"False\"",
        }],
        end: End::Found {
            scenario: "neighbours",
            by: "C12",
            schedules: 199,
        },
    },
    Decision {
        id: "etcd-reported",
        defect: "",
        wrong: "The etcd operator cannot query its members, and that is ignored.",
        edits: &[Edit {
            file: "core/src/cpms/etcd.rs",
            around: "type_ => @,",
            old: "type_ == MEMBERS_UNKNOWN",
            new: "false",
        }],
        end: End::Found {
            scenario: "neighbours",
            by: "C12",
            schedules: 356,
        },
    },
    Decision {
        id: "etcd-degraded-lines",
        defect: "",
        wrong: "Members that the condition Degraded of the etcd operator lists are ignored.",
        edits: &[Edit {
            file: "core/src/cpms/etcd.rs",
            around: "MEMBERS_DEGRADED => @,",
            old: "*text != NO_MEMBER_DEGRADED",
            new: "false",
        }],
        end: End::Found {
            scenario: "corners",
            by: "C12",
            schedules: 20,
        },
    },
    Decision {
        id: "etcd-available",
        defect: "",
        wrong: "The status of the condition Available of the etcd operator is ignored.",
        edits: &[Edit {
            file: "core/src/cpms/etcd.rs",
            around: "if @ {",
            old: "available.status != \"True\"",
            new: "false",
        }],
        end: End::Found {
            scenario: "neighbours",
            by: "C12",
            schedules: 121,
        },
    },
    Decision {
        id: "selector",
        defect: "",
        wrong: "A label of the selector may have any value.",
        edits: &[Edit {
            file: "core/src/cpms/selector.rs",
            around: "Self::Equals(key, value) => @,",
            old: "labels.get(key) == Some(value)",
            new: "labels.contains_key(key)",
        }],
        end: End::Found {
            scenario: "neighbours",
            by: "P2",
            schedules: 3,
        },
    },
    Decision {
        id: "in-place",
        defect: "",
        wrong: "Labels of the template are not applied to existing machines.",
        edits: &[Edit {
            file: "core/src/cpms/plan/in_place.rs",
            around: "if @ {",
            old: "has_all(spec, machine)",
            new: "true",
        }],
        end: End::Found {
            scenario: "neighbours",
            by: "ESR",
            schedules: 4,
        },
    },
    Decision {
        id: "images",
        defect: "",
        wrong: "A new image starts a rollout, and roll-on-image-change stops it.",
        edits: &[Edit {
            file: "core/src/cpms/spec.rs",
            around: "images: @,",
            old: "self.rollout.images",
            new: "!self.rollout.images",
        }],
        end: End::Found {
            scenario: "neighbours",
            by: "G9",
            schedules: 4,
        },
    },
    Decision {
        id: "joining-always-unmanaged",
        defect: "",
        wrong: "The node of a machine that is starting is unmanaged.",
        edits: &[Edit {
            file: "core/src/cpms/degraded.rs",
            around: "@",
            old: "nodes.len() > state.each_machine().filter(joining).count()",
            new: "true",
        }],
        end: End::Found {
            scenario: "neighbours",
            by: "P13",
            schedules: 7,
        },
    },
    Decision {
        id: "removal-early",
        defect: "",
        wrong: "A set that is being deleted has no steps.",
        edits: &[Edit {
            file: "core/src/cpms/removal.rs",
            around: "if @ {\n        return Plan::default();",
            old: "!set.metadata.is_deleting()",
            new: "true",
        }],
        end: End::Found {
            scenario: "set-deleted",
            by: "G8",
            schedules: 2,
        },
    },
    Decision {
        id: "removal-plan",
        defect: "",
        wrong: "A set that is being deleted has no plan.",
        edits: &[Edit {
            file: "core/src/cpms/plan.rs",
            around: "return @;",
            old: "removal::plan(spec, &state.observed.machines)",
            new: "Plan::default()",
        }],
        end: End::Survives(
            "the controller takes the steps of a deletion from another function, which also works for a set that does not parse",
        ),
    },
    Decision {
        id: "removal-finalizer",
        defect: "",
        wrong: "The finalizer of the set is removed together with the owner references.",
        edits: &[Edit {
            file: "core/src/cpms/removal.rs",
            around: "if @ {",
            old: "steps.is_empty() && held",
            new: "held",
        }],
        end: End::Survives("the finalizer is removed last, and only if the steps before succeeded"),
    },
    Decision {
        id: "removal-release",
        defect: "",
        wrong: "A machine that was not adopted gets no mark when its set is deleted.",
        edits: &[Edit {
            file: "core/src/cpms/removal.rs",
            around: "(@",
            old: "adoptable && !marked",
            new: "adoptable && !marked && false",
        }],
        end: End::Found {
            scenario: "corners",
            by: "C6",
            schedules: 10,
        },
    },
    Decision {
        id: "operator-inactive",
        defect: "",
        wrong: "The ClusterOperator reports that all is well.",
        edits: &[Edit {
            file: "core/src/cpms/status/cluster_operator.rs",
            around: "@",
            old: "set.filter(|_| active)",
            new: "set.filter(|_| false)",
        }],
        end: End::Found {
            scenario: "neighbours",
            by: "P11",
            schedules: 1,
        },
    },
    Decision {
        id: "updated",
        defect: "",
        wrong: "status.updatedReplicas counts all machines.",
        edits: &[Edit {
            file: "core/src/cpms/status.rs",
            around: "updated_replicas: number(@),",
            old: "counts.updated",
            new: "counts.replicas",
        }],
        end: End::Found {
            scenario: "neighbours",
            by: "P11",
            schedules: 1,
        },
    },
    Decision {
        id: "error",
        defect: "",
        wrong: "The condition Error is never True.",
        edits: &[Edit {
            file: "core/src/cpms/status.rs",
            around: "match @ {",
            old: "error",
            new: "None",
        }],
        end: End::Found {
            scenario: "neighbours",
            by: "P12",
            schedules: 24,
        },
    },
];

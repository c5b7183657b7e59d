//! Generates machines of both APIs from the menus.

use serde_json::{Map, Value};

use super::menus;
use super::samples::Sample;
use crate::conversion::convert;

/// A generator of numbers. The same seed gives the same numbers.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, most: usize) -> usize {
        // The constants of Knuth's MMIX. The upper bits are the random ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most.max(1)
    }

    fn value(&mut self, menu: &Value) -> Value {
        match menu {
            Value::Object(fields) => {
                if let Some(Value::Array(values)) = fields.get("$or") {
                    let chosen = self.below(values.len());
                    return self.value(&values[chosen]);
                }
                if let Some(Value::Array(values)) = fields.get("$bad") {
                    let chosen = usize::from(self.below(60) == 0);
                    return self.value(&values[chosen]);
                }
                if let Some(item) = fields.get("$list") {
                    return (0..self.below(4)).map(|_| self.value(item)).collect();
                }
                Value::Object(self.fields(fields))
            }
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            other => other.clone(),
        }
    }

    fn fields(&mut self, menu: &Map<String, Value>) -> Map<String, Value> {
        let mut fields = Map::new();
        for (field, menu) in menu {
            let (name, always) = field
                .strip_suffix('!')
                .map_or((field.as_str(), false), |name| (name, true));
            if always || self.below(3) == 0 {
                fields.insert(name.to_owned(), self.value(menu));
            }
        }
        fields
    }

    /// The base with fields of the menu.
    fn spec(&mut self, base: &Value, menu: &Value) -> Value {
        let mut spec = base.as_object().cloned().unwrap_or_default();
        spec.extend(self.fields(menu.as_object().unwrap()));
        spec.into()
    }

    fn labels(&mut self) -> Value {
        const KEYS: [&str; 8] = [
            "a",
            "example.com/b",
            "machine.openshift.io/cluster-api-machine-role",
            "machine.openshift.io/cluster-api-machine-type",
            "node-role.kubernetes.io/infra",
            "node-role.kubernetes.io/worker",
            "machine.openshift.io/zone",
            "cluster.x-k8s.io/other",
        ];
        let mut labels = Map::new();
        for key in KEYS {
            if self.below(3) == 0 {
                let values = if key.starts_with("node-role") {
                    ["", "x"]
                } else {
                    ["worker", "infra"]
                };
                labels.insert(key.to_owned(), values[self.below(2)].into());
            }
        }
        labels.into()
    }

    /// Labels of a node. Those of the domain of Cluster API are an issue, so that most nodes have
    /// none.
    fn node_labels(&mut self) -> Value {
        let mut labels = self.labels();
        if let Some(labels) = labels.as_object_mut().filter(|_| self.below(30) != 0)
            && let Some(value) = labels.remove("cluster.x-k8s.io/other")
        {
            labels.insert(String::from("node.cluster.x-k8s.io/other"), value);
        }
        labels
    }
}

/// A generated Machine or MachineSet of the Machine API.
pub(super) fn machine_api(sample: &Sample, random: &mut Random) -> Value {
    let spec = random.spec(&sample.provider_spec, &menus::of(sample.platform).0);
    if random.below(2) == 0 {
        let mut machine = sample.machine(&spec);
        merge(&mut machine["metadata"]["labels"], &random.labels());
        machine["spec"]["metadata"]["labels"] = random.node_labels();
        machine["metadata"]["annotations"] = random.labels();
        let hooks = serde_json::json!([{"name": "b-hook", "owner": "owner"}, {"name": "a-hook", "owner": "owner"}]);
        if random.below(4) == 0 {
            machine["spec"]["lifecycleHooks"]["preDrain"] = hooks;
        }
        if random.below(4) == 0 {
            machine["spec"]["taints"] = serde_json::json!([{"key": "a", "value": "b", "effect": "NoSchedule"}]);
        }
        return machine;
    }
    let mut set = sample.set(&spec);
    let extra = random.labels();
    merge(&mut set["spec"]["template"]["metadata"]["labels"], &extra);
    if random.below(2) == 0 {
        set["spec"]["template"]["spec"]["metadata"]["labels"] = random.node_labels();
    }
    merge(&mut set["metadata"]["labels"], &random.labels());
    set["spec"]["deletePolicy"] = ["", "Random", "Newest"][random.below(3)].into();
    set["spec"]["minReadySeconds"] = random.below(3).into();
    if random.below(3) == 0 {
        set["spec"]["selector"]["matchLabels"] = set["spec"]["template"]["metadata"]["labels"].clone();
    }
    set
}

fn merge(into: &mut Value, more: &Value) {
    for (key, value) in more.as_object().unwrap() {
        into[key] = value.clone();
    }
}

/// A generated Machine or MachineSet of Cluster API with its infrastructure.
pub(super) fn cluster_api(sample: &Sample, random: &mut Random) -> (Value, Value) {
    let is_set = random.below(2) == 0;
    let source = if is_set {
        sample.set(&sample.provider_spec)
    } else {
        sample.machine(&sample.provider_spec)
    };
    let there = convert(&source, &sample.context());
    let (mut object, mut infrastructure) = (there.objects[0].clone(), there.objects[1].clone());
    let at = if is_set { "/spec/template/spec" } else { "/spec" };
    let spec = infrastructure.pointer_mut(at).unwrap();
    *spec = random.spec(&spec.clone(), &menus::of(sample.platform).1);
    let fresh = random.below(2) == 0;
    if fresh {
        // An object that a user wrote carries nothing.
        object["metadata"].as_object_mut().unwrap().remove("annotations");
    }
    merge(&mut object["metadata"]["labels"], &random.labels());
    if !is_set {
        infrastructure["metadata"]["labels"] = object["metadata"]["labels"].clone();
    }
    (object, infrastructure)
}

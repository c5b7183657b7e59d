use serde_json::json;

use super::*;

fn normal(kind: &str, unknown: UnknownFields, value: Value) -> Value {
    normalize(of_kind(kind).unwrap(), unknown, value)
}

#[test]
fn fields_are_in_order_and_the_first_level_is_that_of_the_platform() {
    for platform in crate::platforms::ALL {
        let Some(fields) = of_kind(platform.kind) else { continue };
        let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, platform.fields, "{}", platform.kind);
    }
}

#[test]
fn unknown_fields_are_dropped_at_any_depth_unless_they_are_kept() {
    let sent = json!({"foo": "x", "blockDevices": [{"ebs": {"foo": "y", "volumeSize": 1}}]});
    assert_eq!(
        normal("AWSMachineProviderConfig", UnknownFields::Drop, sent.clone()),
        json!({"blockDevices": [{"ebs": {"volumeSize": 1}}]})
    );
    assert_eq!(
        normal("AWSMachineProviderConfig", UnknownFields::Keep, sent.clone()),
        sent
    );
}

#[test]
fn a_zero_is_absent_except_behind_a_pointer() {
    let sent = json!({"deviceIndex": 0, "publicIp": false, "spotMarketOptions": {}, "keyName": "", "subnet": {},
        "blockDevices": [{"ebs": {"encrypted": false, "iops": 0, "kmsKey": {}}}], "tags": [], "ami": null});
    assert_eq!(
        normal("AWSMachineProviderConfig", UnknownFields::Drop, sent),
        json!({"publicIp": false, "spotMarketOptions": {}, "blockDevices": [{"ebs": {"encrypted": false, "iops": 0}}]})
    );
}

#[test]
fn keys_match_in_any_case_and_numbers_become_text_where_the_type_has_text() {
    let sent = json!({"InstanceType": 5, "Placement": {"region": "r"}, "placement": {"availabilityZone": "a"}});
    assert_eq!(
        normal("AWSMachineProviderConfig", UnknownFields::Keep, sent),
        json!({"instanceType": "5", "placement": {"region": "r", "availabilityZone": "a"}})
    );
}

#[test]
fn quantities_have_one_form() {
    let sent =
        json!({"memorySize": "16384Mi", "systemDiskSize": 128_849_018_880_u64, "dataDisks": [{"diskSize": "0"}]});
    assert_eq!(
        normal("NutanixMachineProviderConfig", UnknownFields::Drop, sent),
        json!({"memorySize": "16Gi", "systemDiskSize": "120Gi", "dataDisks": [{}]})
    );
}

#[test]
fn a_value_that_the_type_cannot_hold_stays() {
    for sent in [
        json!("text"),
        json!({"disks": "none", "canIPForward": 1, "labels": [1]}),
    ] {
        assert_eq!(
            normal("GCPMachineProviderSpec", UnknownFields::Drop, sent.clone()),
            sent
        );
    }
}

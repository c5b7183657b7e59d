//! Answers a ConversionReview, which an API server sends to convert stored objects.
//!
//! Every object is converted, whatever it contains. Only a version that does not exist is refused.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Versions, to_v1beta1, to_v1beta2};
use crate::api::controlplane_cluster_x_k8s_io::{API_VERSION, API_VERSION_V1BETA1};

/// The answer to a ConversionReview.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversionAnswer {
    /// The uid of the review.
    pub uid: String,
    /// The kind of the objects; empty without objects.
    pub kind: String,
    /// The ConversionReview as JSON.
    pub body: Vec<u8>,
    /// Why the objects were not converted.
    pub failure: Option<String>,
}

#[derive(Deserialize)]
struct Review {
    request: Request,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: String,
    objects: Vec<Value>,
}

/// Answers a review.
///
/// # Errors
/// The body is not a ConversionReview, so that there is no uid to answer with.
pub fn answer_conversion(body: &[u8], versions: Versions<'_>) -> Result<ConversionAnswer, String> {
    let review: Review =
        serde_json::from_slice(body).map_err(|error| format!("must be a ConversionReview: {error}"))?;
    let request = review.request;
    let objects = request.objects.iter();
    let converted: Option<Vec<Value>> = match request.desired_api_version.as_str() {
        API_VERSION => Some(objects.map(to_v1beta2).collect()),
        API_VERSION_V1BETA1 => Some(objects.map(|object| to_v1beta1(object, versions)).collect()),
        _ => None,
    };
    let kind = request.objects.first().and_then(|object| object.get("kind"));
    let (response, failure) = match converted {
        Some(objects) => {
            let result = json!({"status": "Success"});
            let response = json!({"uid": request.uid, "result": result, "convertedObjects": objects});
            (response, None)
        }
        None => {
            let other = &request.desired_api_version;
            let message = format!("the version must be {API_VERSION} or {API_VERSION_V1BETA1}, not {other}");
            let result = json!({"status": "Failure", "message": message});
            (json!({"uid": request.uid, "result": result}), Some(message))
        }
    };
    let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response});
    Ok(ConversionAnswer {
        kind: kind.and_then(Value::as_str).unwrap_or_default().to_owned(),
        uid: request.uid,
        body: review.to_string().into_bytes(),
        failure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(api_version: &str, objects: &Value) -> Value {
        let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "u-1", "desiredAPIVersion": api_version, "objects": objects}});
        let versions = |group: &str, _: &str| (group == "example.org").then(|| String::from("v1"));
        let answer = answer_conversion(review.to_string().as_bytes(), &versions).unwrap();
        assert_eq!(answer.uid, "u-1");
        serde_json::from_slice(&answer.body).unwrap()
    }

    fn object(group: &str) -> Value {
        json!({"apiVersion": API_VERSION, "kind": "KubeadmControlPlane", "metadata": {"name": "a", "namespace": "n"},
            "spec": {"machineTemplate": {"spec": {"infrastructureRef": {"apiGroup": group, "kind": "T", "name": "t"}}}}})
    }

    #[test]
    fn all_objects_of_a_review_are_converted() {
        let answer = review(
            API_VERSION_V1BETA1,
            &json!([object("example.org"), object("example.org")]),
        );
        let response = &answer["response"];
        assert_eq!(
            (&response["uid"], &response["result"]["status"]),
            (&json!("u-1"), &json!("Success"))
        );
        let converted = response["convertedObjects"].as_array().unwrap();
        assert_eq!(converted.len(), 2);
        assert_eq!(
            converted[0]["spec"]["machineTemplate"]["infrastructureRef"]["apiVersion"],
            "example.org/v1"
        );
        let back = review(API_VERSION, &json!([converted[0]]));
        let spec = &back["response"]["convertedObjects"][0]["spec"];
        assert_eq!(*spec, object("example.org")["spec"]);
    }

    #[test]
    fn a_version_that_does_not_exist_fails_the_review() {
        let answer = review("controlplane.cluster.x-k8s.io/v1", &json!([object("example.org")]));
        assert_eq!(answer["response"]["result"]["status"], "Failure");
        assert_eq!(answer["response"].get("convertedObjects"), None);
        let message = answer["response"]["result"]["message"].as_str().unwrap();
        assert!(message.starts_with("the version must be"), "{message}");
    }

    #[test]
    fn w10_an_object_whose_infrastructure_has_no_known_version_stops_no_list() {
        let objects = json!([object("example.org"), object("other.org")]);
        let answer = review(API_VERSION_V1BETA1, &objects);
        assert_eq!(answer["response"]["result"]["status"], "Success");
        let converted = &answer["response"]["convertedObjects"];
        let version = "/spec/machineTemplate/infrastructureRef/apiVersion";
        assert_eq!(converted[0].pointer(version), Some(&json!("example.org/v1")));
        assert_eq!(converted[1].pointer(version), Some(&json!("other.org/v1beta1")));
        // The version is not stored in v1beta2, and a write in v1beta1 keeps the group.
        let back = review(API_VERSION, &json!([converted[1]]));
        let spec = &back["response"]["convertedObjects"][0]["spec"];
        assert_eq!(*spec, object("other.org")["spec"]);
    }

    #[test]
    fn a_body_that_is_not_a_review_is_an_error() {
        let versions = |_: &str, _: &str| None;
        assert!(answer_conversion(b"{}", &versions).is_err());
        assert!(answer_conversion(b"[", &versions).is_err());
    }
}

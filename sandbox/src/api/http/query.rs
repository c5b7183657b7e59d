//! The query of a URL.

use crate::api::failure::Failure;
use crate::api::request::{ListOptions, WriteOptions};
use crate::api::selector::Selector;

/// The parameters of a query, decoded.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter_map(|pair| {
            let (key, value) = pair.split_once('=')?;
            Some((decode(key), decode(value)))
        });
        Self(pairs.collect())
    }

    /// The value of a parameter; empty if the query does not have it.
    pub(super) fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// The options of a list.
    pub(super) fn list(&self) -> Result<ListOptions, Failure> {
        Ok(ListOptions {
            selector: self.selector()?,
            limit: self.get("limit").parse().unwrap_or(0),
            continue_: self.get("continue").to_owned(),
        })
    }

    pub(super) fn selector(&self) -> Result<Selector, Failure> {
        Selector::parse(self.get("labelSelector"), self.get("fieldSelector"))
    }

    /// The options of a write. Without `fieldManager`, the manager is the product in the user
    /// agent.
    pub(super) fn write(&self, user_agent: &str) -> Result<WriteOptions, Failure> {
        let dry_run = match self.get("dryRun") {
            "" => false,
            "All" => true,
            other => {
                let text = format!("PatchOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: {other:?}");
                return Err(Failure::new(422, "Invalid", text));
            }
        };
        let manager = match self.get("fieldManager") {
            "" => user_agent.split('/').next().unwrap_or_default(),
            manager => manager,
        };
        Ok(WriteOptions {
            dry_run,
            manager: manager.to_owned(),
            force: self.get("force") == "true",
            field_validation: self.get("fieldValidation").to_owned(),
        })
    }
}

/// Decodes a percent-encoded parameter.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let digits = String::from_utf8_lossy(&digits).into_owned();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap_or(b'?'));
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

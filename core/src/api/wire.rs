//! The macro for wire types of Cluster API, version `v1beta2`.
//!
//! In that version an absent field and an empty field mean the same, except where the type is an
//! `Option`. The macro therefore leaves out every empty field, so that two objects that mean the
//! same become the same JSON. It must never drop a field that it does not know.

/// Whether a field has the value of an absent field.
pub(super) fn is_empty<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Declares wire types. Each gets `unknown_fields`, and each field is optional in JSON.
macro_rules! wire {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident { $( $(#[$field_meta:meta])* pub $field:ident: $type:ty, )* }
    )*) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $(
                $(#[$field_meta])*
                #[serde(default, skip_serializing_if = "crate::api::wire::is_empty")]
                pub $field: $type,
            )*
            /// Other fields.
            #[serde(flatten)]
            pub unknown_fields: crate::api::UnknownFields,
        }
    )* };
}

pub(super) use wire;

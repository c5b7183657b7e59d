//! Structural schemas: the CustomResourceDefinitions that come out of the wire types.
pub mod crd;
mod structural;

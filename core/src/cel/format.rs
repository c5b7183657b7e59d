//! The part of the `format` library of Kubernetes CEL that the CRDs of this project and of the
//! Machine API use. `format.dns1123Subdomain().validate(text)` is an empty optional for a valid
//! text, and an optional list of reasons otherwise.

use std::any::Any;

use cel_interpreter::common::types::{self, CelList, CelOptional, CelString, Type};
use cel_interpreter::common::value::{CowVal, StaticVal, Val};
use cel_interpreter::{DeclarationError, Env, ExecutionError};

static FORMAT: Type = Type::new_unspecified_type("kubernetes.NamedFormat");

/// A format of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Dns1123Label,
    Dns1123Subdomain,
    Dns1035Label,
}

impl Val for Format {
    fn get_type(&self) -> &Type {
        <Self as Val>::cel_type()
    }

    fn cel_type() -> &'static Type {
        &FORMAT
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Self>() == Some(self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(*self)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Format {}

/// Adds the library to an environment.
pub(super) fn library(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(FORMAT.to_owned())?;
    env.add_overload("format.dns1123Label", "format_dns1123Label", vec![], |_| {
        Ok(CowVal::owned(Format::Dns1123Label))
    })?;
    env.add_overload("format.dns1123Subdomain", "format_dns1123Subdomain", vec![], |_| {
        Ok(CowVal::owned(Format::Dns1123Subdomain))
    })?;
    env.add_overload("format.dns1035Label", "format_dns1035Label", vec![], |_| {
        Ok(CowVal::owned(Format::Dns1035Label))
    })?;
    env.add_member_overload(
        "validate",
        "format_validate",
        FORMAT.to_owned(),
        vec![types::STRING_TYPE],
        validate,
    )
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the signature of an overload is the library's"
)]
fn validate<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let (Some(format), Some(text)) = (
        arguments.first().and_then(|value| value.downcast_ref::<Format>()),
        arguments.get(1).and_then(|value| value.downcast_ref::<CelString<'_>>()),
    ) else {
        return Err(ExecutionError::MissingArgumentOrTarget);
    };
    let reasons = format.reasons(text.inner());
    if reasons.is_empty() {
        return Ok(CowVal::owned(CelOptional::none()));
    }
    let reasons = reasons
        .into_iter()
        .map(|reason| Box::new(CelString::from(reason)) as Box<dyn Val + 'v>);
    Ok(CowVal::owned(CelOptional::of(Box::new(CelList::from(
        reasons.collect::<Vec<_>>(),
    )))))
}

impl Format {
    fn reasons(self, text: &str) -> Vec<String> {
        let (longest, shape) = match self {
            Self::Dns1123Label => (63, is_dns1123_label(text)),
            Self::Dns1123Subdomain => (253, is_dns1123_subdomain(text)),
            Self::Dns1035Label => (
                63,
                is_dns1123_label(text) && text.starts_with(|first: char| first.is_ascii_lowercase()),
            ),
        };
        let mut reasons = Vec::new();
        if text.len() > longest {
            reasons.push(format!("must be no more than {longest} bytes"));
        }
        if !shape {
            reasons.push(String::from(
                "must consist of lower case alphanumeric characters or '-', and parts of them",
            ));
        }
        reasons
    }
}

/// Lower-case letters, digits and dashes, with a letter or digit at both ends.
fn is_dns1123_label(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let (Some(&first), Some(&last)) = (text.as_bytes().first(), text.as_bytes().last()) else {
        return false;
    };
    alphanumeric(first) && alphanumeric(last) && text.bytes().all(|byte| alphanumeric(byte) || byte == b'-')
}

/// Labels that are separated by dots.
fn is_dns1123_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns1123_label)
}

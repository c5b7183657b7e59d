//! A compiled expression, in the environment of a CRD validation: `self` and, in a transition rule,
//! `oldSelf`.
//!
//! Expressions come from rule files and CRDs. Nothing here may evaluate text from a request: the
//! CEL library has no cost limit.

use std::sync::{Arc, LazyLock};

use cel_interpreter::common::types::{CelBool, CelOptional};
use cel_interpreter::common::value::{CowVal, Val};
use cel_interpreter::context::VariableResolver;
use cel_interpreter::{Context, Env};
use serde_json::Value;
use thiserror::Error;

use super::{format, json};

/// The environment, which is the same for every expression. To build it costs more than to evaluate
/// most expressions.
static ENV: LazyLock<Result<Arc<Env>, String>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    env.add_extension(format::library)
        .map_err(|error| format!("{error:?}"))?;
    env.add_extension(cel_interpreter::extensions::strings)
        .map_err(|error| format!("{error:?}"))?;
    env.add_extension(cel_interpreter::extensions::lists)
        .map_err(|error| format!("{error:?}"))?;
    Ok(Arc::new(env))
});

/// Why an expression could not be compiled or evaluated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CelError {
    /// The text is not an expression of this environment.
    #[error("the CEL expression {expression:?} does not compile: {reason}")]
    Compile {
        /// The expression.
        expression: String,
        /// The message of the compiler.
        reason: String,
    },
    /// The expression met a value that it cannot handle, for example because a field is missing.
    #[error("the CEL expression {expression:?} cannot be evaluated: {reason}")]
    Evaluate {
        /// The expression.
        expression: String,
        /// The message of the interpreter.
        reason: String,
    },
}

/// A compiled expression. Threads may share it.
#[derive(Debug)]
pub struct Program {
    expression: String,
    program: cel_interpreter::Program,
    uses_old_self: bool,
    is_constant: bool,
}

/// The names that an expression may use.
struct Bindings<'a> {
    this: &'a Value,
    old: Option<&'a Value>,
    old_is_optional: bool,
}

impl VariableResolver for Bindings<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        match variable {
            "self" => Some(CowVal::Owned(json::cel_value(self.this))),
            "oldSelf" if self.old_is_optional => Some(CowVal::owned(match self.old {
                Some(old) => CelOptional::of(json::cel_value(old)),
                None => CelOptional::none(),
            })),
            "oldSelf" => self.old.map(|old| CowVal::Owned(json::cel_value(old))),
            _ => None,
        }
    }
}

impl Program {
    /// Compiles an expression over `self` and `oldSelf`.
    ///
    /// # Errors
    /// The text does not compile.
    pub fn compile(expression: &str) -> Result<Self, CelError> {
        let failed = |reason: String| CelError::Compile {
            expression: expression.to_owned(),
            reason,
        };
        let env = ENV.as_ref().map_err(|reason| failed(reason.clone()))?;
        let program = env.compile(expression).map_err(|errors| failed(errors.to_string()))?;
        let references = program.references();
        let uses_old_self = references.has_variable("oldSelf");
        let is_constant = references.variables().is_empty();
        Ok(Self {
            expression: expression.to_owned(),
            program,
            uses_old_self,
            is_constant,
        })
    }

    /// Whether the expression names no variable, so that it always has the same value.
    pub(super) fn is_constant(&self) -> bool {
        self.is_constant
    }

    /// Whether the expression is a transition rule, which compares with the value before an update.
    pub fn uses_old_self(&self) -> bool {
        self.uses_old_self
    }

    /// The text that was compiled.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// Whether the expression holds for `this` and, if it is named, the value before an update.
    ///
    /// # Errors
    /// The expression cannot be evaluated. The API server refuses the object, and so must the
    /// caller.
    pub fn evaluate(&self, this: &Value, old: Option<&Value>) -> Result<bool, CelError> {
        self.run(&Bindings {
            this,
            old,
            old_is_optional: false,
        })
    }

    /// The same for a rule with `optionalOldSelf`, in which `oldSelf` is an optional that is empty
    /// for a creation.
    ///
    /// # Errors
    /// The expression cannot be evaluated.
    pub fn evaluate_optional(&self, this: &Value, old: Option<&Value>) -> Result<bool, CelError> {
        self.run(&Bindings {
            this,
            old,
            old_is_optional: true,
        })
    }

    /// Whether the expression holds with these names.
    pub(super) fn run(&self, bindings: &dyn VariableResolver) -> Result<bool, CelError> {
        self.resolve(bindings, |result| {
            let verdict = result.downcast_ref::<CelBool>().map(|verdict| *verdict.inner());
            verdict.ok_or_else(|| format!("the result is of type {}, not bool", result.get_type().name()))
        })
    }

    /// The value of the expression with these names. A map of a JSON object cannot be such a value.
    pub(super) fn value(&self, bindings: &dyn VariableResolver) -> Result<Value, CelError> {
        self.resolve(bindings, |result| {
            json::to_json(result).ok_or_else(|| format!("the result is of type {}", result.get_type().name()))
        })
    }

    fn resolve<R>(
        &self,
        bindings: &dyn VariableResolver,
        read: impl FnOnce(&dyn Val) -> Result<R, String>,
    ) -> Result<R, CelError> {
        let failed = |reason: String| CelError::Evaluate {
            expression: self.expression.clone(),
            reason,
        };
        let env = ENV.as_ref().map_err(|reason| failed(reason.clone()))?;
        let mut context = Context::with_env(Arc::clone(env));
        context.set_variable_resolver(bindings);
        let result = cel_interpreter::Value::resolve_val(self.program.expression(), &context)
            .map_err(|error| failed(error.to_string()))?;
        read(result.as_ref()).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(expression: &str, this: &Value, old: Option<&Value>) -> bool {
        Program::compile(expression).unwrap().evaluate(this, old).unwrap()
    }

    #[test]
    fn scalars_maps_and_lists_compare_by_value() {
        assert!(holds(
            "self == oldSelf",
            &json!({"a": [1, {"b": "x"}]}),
            Some(&json!({"a": [1, {"b": "x"}]}))
        ));
        assert!(!holds(
            "self == oldSelf",
            &json!({"a": [1, {"b": "x"}]}),
            Some(&json!({"a": [1, {"b": "y"}]}))
        ));
        assert!(!holds(
            "self == oldSelf",
            &json!({"a": 1}),
            Some(&json!({"a": 1, "b": 2}))
        ));
        assert!(!holds("self == oldSelf", &json!([1, 2]), Some(&json!([1]))));
        assert!(holds("self == 5", &json!(5), None));
        assert!(holds("self.a == ['x']", &json!({"a": ["x"]}), None));
    }

    #[test]
    fn has_accepts_field_names_with_underscores() {
        let value = json!({"machines_v1beta1_machine_openshift_io": {}});
        assert!(holds("has(self.machines_v1beta1_machine_openshift_io)", &value, None));
        assert!(!holds("has(self.other)", &value, None));
        assert!(holds("!has(self.a) || !has(self.a.b)", &json!({"a": {}}), None));
    }

    #[test]
    fn comprehensions_iterate_over_items_and_keys() {
        assert!(holds("self.all(x, x.size() > 0)", &json!(["a", "b"]), None));
        assert!(!holds("self.all(x, x.size() > 0)", &json!(["a", ""]), None));
        assert!(holds(
            "self.exists(k, self[k] == 'master')",
            &json!({"role": "master"}),
            None
        ));
        assert!(holds("'k' in self && self['k'] == 'v'", &json!({"k": "v"}), None));
        assert!(holds("self.filter(x, x > 1).size() == 2", &json!([1, 2, 3]), None));
        assert!(holds(
            "self.all(x, self.exists_one(y, y == x))",
            &json!(["a", "b"]),
            None
        ));
    }

    #[test]
    fn integers_are_int_and_support_arithmetic() {
        assert!(holds("self % 2 == 1 && self * 2 == 6", &json!(3), None));
    }

    #[test]
    fn the_format_library_validates_subdomains() {
        let expression = "!format.dns1123Subdomain().validate(self).hasValue()";
        for valid in ["a", "control-plane", "a.b-c.d0"] {
            assert!(holds(expression, &json!(valid), None), "{valid}");
        }
        for invalid in ["", "A", "-a", "a-", "a..b", "a_b", "é", &"x".repeat(254)] {
            assert!(!holds(expression, &json!(invalid), None), "{invalid}");
        }
    }

    #[test]
    fn an_expression_over_a_missing_field_is_an_error() {
        let program = Program::compile("self.missing == 1").unwrap();
        assert!(matches!(
            program.evaluate(&json!({}), None),
            Err(CelError::Evaluate { .. })
        ));
    }

    #[test]
    fn an_expression_that_names_old_self_is_a_transition_rule() {
        assert!(Program::compile("self == oldSelf").unwrap().uses_old_self());
        assert!(!Program::compile("self == 'oldSelf'").unwrap().uses_old_self());
    }

    #[test]
    fn an_optional_old_self_is_empty_for_a_creation() {
        let program = Program::compile("!oldSelf.hasValue() || oldSelf.value() == self").unwrap();
        assert!(program.evaluate_optional(&json!(1), None).unwrap());
        assert!(!program.evaluate_optional(&json!(1), Some(&json!(2))).unwrap());
    }

    #[test]
    fn text_that_does_not_compile_is_an_error() {
        assert!(matches!(Program::compile("self =="), Err(CelError::Compile { .. })));
    }
}

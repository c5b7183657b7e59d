//! The environment of a rule about a request: `request`, `object`, `oldObject`, the variables of
//! its rule file, and, in a rule about the keys of a map, `key`.
//!
//! As in an admission policy, a variable is evaluated when an expression first names it, and once
//! for all rules of a file. A name is resolved with all its fields, such as
//! `oldObject.status.phase`, so that no CEL value is made of the objects on the way.

use std::borrow::Cow;
use std::sync::OnceLock;

use cel_interpreter::common::types::CelString;
use cel_interpreter::common::value::CowVal;
use cel_interpreter::context::VariableResolver;
use serde_json::{Map, Value};

use super::{CelError, Program, json};
use crate::model::{Edit, Operation, Propagation, Stored};

/// A variable whose value the caller knows better than its expression does. The API server has only
/// the expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariableOverride {
    /// The name of the variable.
    pub variable: &'static str,
    /// Its value.
    pub value: bool,
}

/// How the variable of a rule file is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Definition<'t> {
    /// By a CEL expression. It may name the variables before it.
    Expression(&'t str),
    /// As the map at this path below `object` or `oldObject`, or an empty map if the path does not
    /// exist. [`map_expression`] says the same in CEL.
    Map(&'t str),
}

/// The variables of a rule file, in their order.
#[derive(Debug, Default)]
pub(super) struct Variables(Vec<Variable>);

#[derive(Debug)]
struct Variable {
    name: String,
    source: Source,
}

/// Where the value of a variable comes from.
#[derive(Debug)]
enum Source {
    /// It is the same for every request.
    Constant(Value),
    /// It is the map at a path below `object` or `oldObject`.
    Map(Vec<String>),
    /// It is evaluated for every request.
    Expression(Program),
}

impl Variables {
    /// Compiles variables.
    ///
    /// # Errors
    /// An expression does not compile, or a constant one cannot be evaluated.
    pub(super) fn compile<'t>(variables: impl Iterator<Item = (&'t str, Definition<'t>)>) -> Result<Self, CelError> {
        let compile = |(name, definition): (&str, Definition<'_>)| {
            Ok(Variable {
                name: name.to_owned(),
                source: Source::of(definition)?,
            })
        };
        variables.map(compile).collect::<Result<_, _>>().map(Self)
    }
}

impl Source {
    fn of(definition: Definition<'_>) -> Result<Self, CelError> {
        let expression = match definition {
            Definition::Map(path) => return Ok(Self::Map(path.split('.').map(str::to_owned).collect())),
            Definition::Expression(expression) => expression,
        };
        let program = Program::compile(expression)?;
        if program.is_constant() {
            return program.value(&NoVariables).map(Self::Constant);
        }
        Ok(Self::Expression(program))
    }
}

/// The map at a path below `object` or `oldObject` as a CEL expression.
pub(super) fn map_expression(path: &str) -> String {
    format!("has({path}) ? {path} : {{}}")
}

/// The environment of a constant expression.
struct NoVariables;

impl VariableResolver for NoVariables {
    fn resolve<'b>(&'b self, _variable: &str) -> Option<CowVal<'b, 'b>> {
        None
    }
}

/// The value of `request`. Of an edit, only the named fields are made.
enum RequestSource<'a> {
    Json(&'a Value),
    Edit {
        edit: &'a Edit<'a>,
        user: OnceLock<Value>,
        whole: OnceLock<Value>,
    },
}

/// One request that the rules of one file judge, with the values of the variables so far.
pub(super) struct RuleRequest<'a> {
    request: RequestSource<'a>,
    object: &'a Value,
    old: &'a dyn Stored,
    /// The old object as one value, for expressions that name it without a field.
    whole_old: OnceLock<Cow<'a, Value>>,
    variables: &'a Variables,
    /// The value of each variable, once it was evaluated.
    values: Vec<OnceLock<Result<Cow<'a, Value>, CelError>>>,
    overridden: Option<VariableOverride>,
}

impl<'a> RuleRequest<'a> {
    /// The request of an edit.
    pub(super) fn of(edit: &'a Edit<'a>, variables: &'a Variables, overridden: Option<VariableOverride>) -> Self {
        let request = RequestSource::Edit {
            edit,
            user: OnceLock::new(),
            whole: OnceLock::new(),
        };
        Self::new(request, edit.object, edit.old, variables, overridden)
    }

    fn new(
        request: RequestSource<'a>,
        object: Option<&'a Value>,
        old: Option<&'a dyn Stored>,
        variables: &'a Variables,
        overridden: Option<VariableOverride>,
    ) -> Self {
        Self {
            request,
            object: object.unwrap_or(&Value::Null),
            old: old.unwrap_or(&Value::Null),
            whole_old: OnceLock::new(),
            variables,
            values: std::iter::repeat_with(OnceLock::new).take(variables.0.len()).collect(),
            overridden,
        }
    }

    /// Whether an expression holds. In a rule about keys, `key` is the key that it is evaluated
    /// for.
    ///
    /// # Errors
    /// The expression, or a variable that it names, cannot be evaluated.
    pub(super) fn holds(&self, program: &Program, key: Option<&str>) -> Result<bool, CelError> {
        let names = Names {
            request: self,
            variables: self.variables.0.len(),
            key,
        };
        program.run(&names).map_err(|error| {
            // The expression reports a variable that failed as unknown. The reason is its own
            // error.
            let mut failed = self.values.iter().filter_map(|value| value.get()?.as_ref().err());
            failed.next().cloned().unwrap_or(error)
        })
    }

    /// The value of one of the first `visible` variables.
    fn variable(&self, name: &str, visible: usize) -> Option<&Value> {
        static TRUE: Value = Value::Bool(true);
        static FALSE: Value = Value::Bool(false);
        if let Some(known) = self.overridden.filter(|known| known.variable == name) {
            return Some(if known.value { &TRUE } else { &FALSE });
        }
        let mut variables = self.variables.0.iter().take(visible).enumerate();
        let (position, variable) = variables.find(|(_, variable)| variable.name == name)?;
        let evaluate = || match &variable.source {
            Source::Constant(value) => Ok(Cow::Borrowed(value)),
            Source::Map(path) => Ok(self.map(path)),
            Source::Expression(program) => program
                .value(&Names {
                    request: self,
                    variables: position,
                    key: None,
                })
                .map(Cow::Owned),
        };
        self.values.get(position)?.get_or_init(evaluate).as_deref().ok()
    }

    /// The map at a path below `object` or `oldObject`; empty if the path does not exist.
    fn map(&self, path: &[String]) -> Cow<'a, Value> {
        let map = match path {
            [root, first, rest @ ..] => {
                let field = if root == "object" {
                    self.object.get(first)
                } else {
                    self.old.field(first)
                };
                field.and_then(|field| rest.iter().try_fold(field, |value, field| value.get(field)))
            }
            _ => None,
        };
        map.map_or_else(|| Cow::Owned(Value::Object(Map::new())), Cow::Borrowed)
    }

    /// `request`, or the value at dotted fields of it.
    fn request(&self, fields: Option<&str>) -> Option<CowVal<'_, '_>> {
        let (edit, user, whole) = match &self.request {
            RequestSource::Json(request) => return at(request, fields),
            RequestSource::Edit { edit, user, whole } => (edit, user, whole),
        };
        let text = |text: &'a str| Some(CowVal::owned(CelString::from(text)));
        match fields {
            None => Some(CowVal::Owned(json::cel_value(whole.get_or_init(|| request_of(edit))))),
            Some("namespace") => text(edit.namespace),
            Some("name") => text(edit.name),
            Some("operation") => text(edit.operation.as_str()),
            Some("subResource") => text(edit.subresource),
            Some("userInfo.username") => text(&edit.user.name),
            Some(fields) => {
                let fields = fields.strip_prefix("userInfo")?;
                let fields = if fields.is_empty() {
                    None
                } else {
                    Some(fields.strip_prefix('.')?)
                };
                at(user.get_or_init(|| user_of(edit)), fields)
            }
        }
    }
}

impl Program {
    /// Whether the expression holds for a request, in the environment of an admission policy:
    /// `request`, `object` and `oldObject`.
    ///
    /// # Errors
    /// The expression cannot be evaluated.
    pub fn evaluate_request(
        &self,
        request: &Value,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<bool, CelError> {
        let variables = Variables::default();
        let old = old.map(|old| old as &dyn Stored);
        RuleRequest::new(RequestSource::Json(request), object, old, &variables, None).holds(self, None)
    }
}

/// The names that an expression about a request may use.
struct Names<'x, 'a> {
    request: &'x RuleRequest<'a>,
    /// The number of variables that are visible: a variable sees only those before it.
    variables: usize,
    key: Option<&'x str>,
}

impl VariableResolver for Names<'_, '_> {
    fn resolve<'b>(&'b self, name: &str) -> Option<CowVal<'b, 'b>> {
        let request = self.request;
        let (root, fields) = name
            .split_once('.')
            .map_or((name, None), |(root, fields)| (root, Some(fields)));
        match root {
            "object" => at(request.object, fields),
            "oldObject" => match fields {
                None => at(request.whole_old.get_or_init(|| request.old.whole()), None),
                Some(fields) => Some(CowVal::Owned(json::cel_value(request.old.at(fields)?))),
            },
            "variables" => at(request.variable(fields?, self.variables)?, None),
            "request" => request.request(fields),
            "key" if fields.is_none() => self.key.map(|key| CowVal::owned(CelString::from(key))),
            _ => None,
        }
    }
}

/// The value at dotted fields, if they exist. If not, the interpreter resolves the name field by
/// field, and so finds out which field is missing.
fn at<'v>(value: &'v Value, fields: Option<&str>) -> Option<CowVal<'v, 'v>> {
    let mut fields = fields.into_iter().flat_map(|fields| fields.split('.'));
    let found = fields.try_fold(value, |value, field| value.get(field))?;
    Some(CowVal::Owned(json::cel_value(found)))
}

/// `request` as an admission policy sees it.
fn request_of(edit: &Edit<'_>) -> Value {
    let policy = edit.propagation.map(|propagation| match propagation {
        Propagation::Foreground => "Foreground",
        Propagation::Background => "Background",
        Propagation::Orphan => "Orphan",
    });
    let options = match (edit.operation, policy) {
        (Operation::Delete, Some(policy)) => serde_json::json!({ "propagationPolicy": policy }),
        _ => serde_json::json!({}),
    };
    serde_json::json!({
        "operation": edit.operation.as_str(),
        "name": edit.name,
        "namespace": edit.namespace,
        "subResource": edit.subresource,
        "dryRun": edit.dry_run,
        "options": options,
        "userInfo": user_of(edit),
    })
}

fn user_of(edit: &Edit<'_>) -> Value {
    serde_json::json!({ "username": edit.user.name, "groups": edit.user.groups, "extra": edit.user.extra })
}

//! The environment of a rule about a request: `request`, `object`, `oldObject`, the variables of its file, and in a rule about
//! keys `key`.
//!
//! As in an admission policy, a variable is evaluated when it is named first, and once for all rules of a file. A name is
//! looked up as a whole, `oldObject.status.phase` in one go, so that nothing is made of what lies on the way.

use std::borrow::Cow;
use std::sync::OnceLock;

use cel_interpreter::common::types::{CelBool, CelInt, CelList, CelNull, CelString};
use cel_interpreter::common::value::{CowVal, Val};
use cel_interpreter::context::VariableResolver;
use serde_json::{Map, Value};

use super::{CelError, Program, json};
use crate::model::{Edit, Operation, Propagation, Stored};

/// A variable that whoever asks knows better than its expression, which is all that an API server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The variable.
    pub variable: &'static str,
    /// What it is.
    pub holds: bool,
}

/// The variables of a rule file, in their order.
#[derive(Debug, Default)]
pub(super) struct Variables(Vec<Variable>);

#[derive(Debug)]
struct Variable {
    name: String,
    meaning: Meaning,
}

#[derive(Debug)]
enum Meaning {
    /// The same for every request.
    Constant(Value),
    /// `object` or `oldObject`, and the fields down to a map, which is empty where there is none.
    Map(Vec<String>),
    Expression(Program),
}

impl Variables {
    /// Compiles names and expressions; an expression names only variables before it.
    pub(super) fn compile<'t>(variables: impl Iterator<Item = (&'t str, &'t str)>) -> Result<Self, CelError> {
        let mut compiled = Self::default();
        for (name, expression) in variables {
            let meaning = compiled.meaning(expression)?;
            let name = name.to_owned();
            compiled.0.push(Variable { name, meaning });
        }
        Ok(compiled)
    }

    fn meaning(&self, expression: &str) -> Result<Meaning, CelError> {
        if let Some(path) = path_of_map(expression) {
            return Ok(Meaning::Map(path));
        }
        let program = Program::compile(expression)?;
        if program.names_nothing() {
            return program.value(&Nothing).map(Meaning::Constant);
        }
        Ok(Meaning::Expression(program))
    }
}

/// The path in `has(object.a.b) ? object.a.b : {}`, with `object` or `oldObject`.
fn path_of_map(expression: &str) -> Option<Vec<String>> {
    let path = expression.strip_prefix("has(")?.split_once(')')?.0;
    let plain = |part: &str| !part.is_empty() && part.chars().all(|letter| letter.is_ascii_alphanumeric());
    let said = expression == format!("has({path}) ? {path} : {{}}");
    let path: Vec<String> = path.split('.').map(str::to_owned).collect();
    let root = path.first().is_some_and(|root| root == "object" || root == "oldObject");
    (said && root && path.len() > 1 && path.iter().all(|part| plain(part))).then_some(path)
}

/// The environment of an expression that names nothing.
struct Nothing;

impl VariableResolver for Nothing {
    fn resolve<'b>(&'b self, _variable: &str) -> Option<CowVal<'b, 'b>> {
        None
    }
}

/// What an expression knows as `request`: made as far as it is named.
enum Request<'a> {
    Whole(&'a Value),
    Of {
        edit: &'a Edit<'a>,
        user: OnceLock<Value>,
        whole: OnceLock<Value>,
    },
}

/// One request, with what its variables turned out to be.
pub(super) struct Asked<'a> {
    request: Request<'a>,
    object: &'a Value,
    old: &'a dyn Stored,
    /// The same as one tree, where it is named as a whole.
    whole: OnceLock<Cow<'a, Value>>,
    variables: &'a Variables,
    known: Vec<OnceLock<Result<Cow<'a, Value>, CelError>>>,
    told: Option<Told>,
}

impl<'a> Asked<'a> {
    /// An edit.
    pub(super) fn of(edit: &'a Edit<'a>, variables: &'a Variables, told: Option<Told>) -> Self {
        let (user, whole) = (OnceLock::new(), OnceLock::new());
        let request = Request::Of { edit, user, whole };
        Self::new(request, edit.object, edit.old, variables, told)
    }

    /// A request as it is written down.
    pub(super) fn written(
        request: &'a Value,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
        variables: &'a Variables,
    ) -> Self {
        let old = old.map(|old| old as &dyn Stored);
        Self::new(Request::Whole(request), object, old, variables, None)
    }

    fn new(
        request: Request<'a>,
        object: Option<&'a Value>,
        old: Option<&'a dyn Stored>,
        variables: &'a Variables,
        told: Option<Told>,
    ) -> Self {
        Self {
            request,
            object: object.unwrap_or(&Value::Null),
            old: old.unwrap_or(&Value::Null),
            whole: OnceLock::new(),
            variables,
            known: std::iter::repeat_with(OnceLock::new).take(variables.0.len()).collect(),
            told,
        }
    }

    /// Whether an expression holds; in a rule about keys, of this one.
    pub(super) fn holds(&self, program: &Program, key: Option<&str>) -> Result<bool, CelError> {
        let names = Names {
            asked: self,
            variables: self.variables.0.len(),
            key,
        };
        program.run(&names).map_err(|error| {
            // A variable that is nothing is unknown to the expression; why it is says more.
            let mut failed = self.known.iter().filter_map(|known| known.get()?.as_ref().err());
            failed.next().cloned().unwrap_or(error)
        })
    }

    fn variable(&self, name: &str, visible: usize) -> Option<&Value> {
        static YES: Value = Value::Bool(true);
        static NO: Value = Value::Bool(false);
        if let Some(told) = self.told.filter(|told| told.variable == name) {
            return Some(if told.holds { &YES } else { &NO });
        }
        let mut variables = self.variables.0.iter().take(visible).enumerate();
        let (position, variable) = variables.find(|(_, variable)| variable.name == name)?;
        let known = self.known.get(position)?;
        let evaluate = || match &variable.meaning {
            Meaning::Constant(value) => Ok(Cow::Borrowed(value)),
            Meaning::Map(path) => Ok(self.map(path)),
            Meaning::Expression(program) => program
                .value(&Names {
                    asked: self,
                    variables: position,
                    key: None,
                })
                .map(Cow::Owned),
        };
        known.get_or_init(evaluate).as_deref().ok()
    }

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

    /// `request`, or what is at dotted fields of it.
    fn request(&self, fields: Option<&str>) -> Option<CowVal<'_, '_>> {
        let (edit, user, whole) = match &self.request {
            Request::Whole(whole) => return at(whole, fields),
            Request::Of { edit, user, whole } => (edit, user, whole),
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

/// What an expression may name.
struct Names<'x, 'a> {
    asked: &'x Asked<'a>,
    /// So many variables: one that is evaluated knows those before it.
    variables: usize,
    key: Option<&'x str>,
}

impl VariableResolver for Names<'_, '_> {
    fn resolve<'b>(&'b self, name: &str) -> Option<CowVal<'b, 'b>> {
        let (root, fields) = name
            .split_once('.')
            .map_or((name, None), |(root, fields)| (root, Some(fields)));
        match root {
            "object" => at(self.asked.object, fields),
            "oldObject" => match fields {
                None => at(self.asked.whole.get_or_init(|| self.asked.old.whole()), None),
                Some(fields) => Some(CowVal::Owned(json::cel_value(self.asked.old.at(fields)?))),
            },
            "variables" => at(self.asked.variable(fields?, self.variables)?, None),
            "request" => self.asked.request(fields),
            "key" if fields.is_none() => self.key.map(|key| CowVal::owned(CelString::from(key))),
            _ => None,
        }
    }
}

/// What is at dotted fields of a value, if it is there. What is not is told apart by the interpreter, field by field.
fn at<'v>(value: &'v Value, fields: Option<&str>) -> Option<CowVal<'v, 'v>> {
    let mut fields = fields.into_iter().flat_map(|fields| fields.split('.'));
    let found = fields.try_fold(value, |value, field| value.get(field))?;
    Some(CowVal::Owned(json::cel_value(found)))
}

/// What a variable turned out to be, if that can be kept: what is looked into where it stands has a form of its own.
pub(super) fn kept(value: &dyn Val) -> Option<Value> {
    if let Some(flag) = value.downcast_ref::<CelBool>() {
        return Some(Value::Bool(*flag.inner()));
    }
    if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        return Some(Value::from(text.inner()));
    }
    if let Some(number) = value.downcast_ref::<CelInt>() {
        return Some(Value::from(*number.inner()));
    }
    if value.downcast_ref::<CelNull>().is_some() {
        return Some(Value::Null);
    }
    let list = value.downcast_ref::<CelList<'_>>()?;
    list.inner().iter().map(|item| kept(item.as_ref())).collect()
}

/// What an admission policy sees as `request`.
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

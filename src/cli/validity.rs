//! Notes about objects in files that `capstan check` refuses. A plan and a state of such an
//! object are still shown: files are also written by hand, and may lack what does not matter.

use anyhow::Context as _;
use capstan_core::admission::{Admission, Check, Checker, Options, Snapshot};
use capstan_core::model::{Operation, User};
use serde_json::Value;

use super::documents::{Document, note};

/// Notes each object that fits `is_judged` and is refused as a creation, with the reasons.
///
/// # Errors
/// The built-in rules or schemas are broken.
pub(super) fn note_refused(
    documents: &[Document],
    is_judged: impl Fn(&Value) -> bool,
    options: Options,
) -> anyhow::Result<()> {
    let mut judged = documents
        .iter()
        .filter(|document| is_judged(&document.object))
        .peekable();
    if judged.peek().is_none() {
        return Ok(());
    }
    let admission = Admission::new(options).context("loading the built-in rules")?;
    let checker = Checker::new(admission).context("loading the built-in schemas")?;
    let user = User::default();
    for document in judged {
        let check = Check {
            operation: Operation::Create,
            object: &document.object,
            old: None,
            propagation: None,
            user: &user,
        };
        let Some(status) = checker.check(&check, &Snapshot::default()).status else {
            continue;
        };
        let (kind, namespace, name) = document.key();
        let name = match namespace {
            "" => name.to_owned(),
            namespace => format!("{namespace}/{name}"),
        };
        note(&format!(
            "{}: `capstan check` refuses the {kind} {name}, so the result may be wrong: {}",
            document.place(),
            status.message
        ));
    }
    Ok(())
}

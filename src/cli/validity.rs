//! Notes about objects in files that an API server would refuse. A plan and a state of such an
//! object are still shown: files are also written by hand, and may lack what does not matter.

use anyhow::Context as _;
use capstan_core::admission::{Admission, Check, Checker, Options, Snapshot};
use capstan_core::kcp::observed::is_control_plane;
use capstan_core::model::{Operation, User};
use capstan_core::pool::observed::is_pool;

use super::documents::{Document, note};

/// Notes each KubeadmControlPlane and MachinePool that is refused as a creation, with the
/// reasons.
///
/// # Errors
/// The built-in rules or schemas are broken.
pub(super) fn note_refused(documents: &[Document]) -> anyhow::Result<()> {
    let is_judged = |document: &&Document| is_control_plane(&document.object) || is_pool(&document.object);
    let mut judged = documents.iter().filter(is_judged).peekable();
    if judged.peek().is_none() {
        return Ok(());
    }
    let admission = Admission::new(Options::default()).context("loading the built-in rules")?;
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
        let (kind, _, name) = document.key();
        note(&format!(
            "{}: an API server would not store the {kind} {name}, so the result may be wrong: {}",
            document.place(),
            status.message
        ));
    }
    Ok(())
}

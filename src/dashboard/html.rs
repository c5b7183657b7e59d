//! The whole page: live, or as one file that needs no server.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::card::{ShownAs, control_plane, mark, note_mark};
use super::content::Content;
use super::direction::neutral;
use super::overview;
use super::report::Mood;

/// The style of the page.
pub(super) const STYLE: &str = include_str!("style.css");
/// The script of the live page.
pub(super) const SCRIPT: &str = include_str!("script.js");

/// The part of the page that changes: the control planes, or the reason why nothing can be shown.
pub(super) fn content(state: &Result<Content, String>) -> Markup {
    neutral(html! {
        @match state {
            Ok(state) => {
                (overview::before(state))
                div class=(if state.outdated.is_some() { "known outdated-state" } else { "known" }) {
                    @if let Some(reason) = &state.empty {
                        div class="state unused" {
                            p class="headline" { (note_mark("i", "Note: ")) span { "Nothing to show here" } }
                            p { bdi { (reason) } }
                            p { "No action is needed if you expected none. This page changes nothing." }
                        }
                    }
                    @for (position, report, _) in overview::by_urgency(&state.reports) {
                        (control_plane(report, &overview::anchor(position), shown_as(state)))
                    }
                    (overview::after(state))
                }
            },
            Err(reason) => {
                div class="state alarm" {
                    p class="headline" { (mark(Mood::Alarm)) span { "The page cannot be shown" } }
                    p { bdi { (reason) } }
                }
            },
        }
    })
}

/// The state of a cluster that does not respond may have changed.
fn shown_as(state: &Content) -> ShownAs {
    match state.outdated {
        Some(_) => ShownAs::LastKnown,
        None => ShownAs::State,
    }
}

/// The page of a server. Its links are relative to the address with the token. It follows a cluster
/// if `is_live`; files are read once.
pub(super) fn page(state: &Result<Content, String>, source: &str, is_live: bool) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (meta())
                link rel="stylesheet" href="style.css";
                script src="script.js" defer {}
            }
            body {
                header class="banner" {
                    (title(source))
                    p id="connection" class="waiting" role="status" data-live=[is_live.then_some("")] {
                        @if is_live { "connecting" } @else { "from files, not live" }
                    }
                    nav aria-label="Page" {
                        a href="#edit-title" { "Try an edit" }
                        a href="report.html" download="capstan.html" { "Save as HTML" }
                        a href="view.svg" download="capstan.svg" { "Save as SVG" }
                    }
                }
                p id="announcement" role="status" class="spoken" {}
                main { div id="live" { (content(state)) } (edit_form()) }
            }
        }
    }
}

/// The page as one file, without a script.
pub fn file(state: &Result<Content, String>, source: &str, time: &str) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (meta())
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                style { (PreEscaped(STYLE)) }
            }
            body class="file" {
                header class="banner" {
                    (title(source))
                    p id="connection" { "State of " (overview::shown_time(time)) }
                }
                main { (content(state)) }
            }
        }
    }
    .into_string()
}

fn meta() -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        title { "Capstan" }
    }
}

fn title(source: &str) -> Markup {
    html! {
        h1 { "Capstan" }
        p class="source" { bdi { (neutral(html! { (source) })) } }
    }
}

fn edit_form() -> Markup {
    html! {
        section class="card edit" aria-labelledby="edit-title" {
            h2 id="edit-title" tabindex="-1" { "Try an edit" }
            p id="edit-help" {
                "Paste a manifest, or press Edit on a control plane to start with its manifest. The page shows what "
                "admission would answer, and the rollout that would follow. Nothing is sent to the cluster."
            }
            div id="verdict" role="status" aria-label="Answer to the edit" tabindex="-1" {}
            form id="edit" {
                label for="manifest" { "Manifest, YAML or JSON" }
                textarea id="manifest" rows="14" spellcheck="false" aria-describedby="edit-help" {}
                button type="submit" class="primary" { "Check this edit" }
            }
            div id="forecast" {}
        }
    }
}

//! The whole page: live, or as one file that needs no server.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::content::Content;
use super::direction::neutral;
use super::overview;
use super::parts::control_plane;

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
                @if let Some(reason) = &state.empty { p class="headline busy" { bdi { (reason) } } }
                @for (position, report) in state.reports.iter().enumerate() {
                    (control_plane(report, &overview::anchor(position)))
                }
                (overview::after(state))
                }
            },
            Err(reason) => { p class="headline alarm" { bdi { (reason) } } },
        }
    })
}

/// The live page. Its links are relative to the address with the token.
pub(super) fn page(state: &Result<Content, String>, source: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (meta())
                link rel="stylesheet" href="style.css";
                script src="script.js" defer {}
            }
            body {
                (banner(source))
                nav aria-label="Page" {
                    a href="view.svg" download="capstan.svg" { "SVG" } " "
                    a href="report.html" download="capstan.html" { "HTML file" } " "
                    a href="#edit-title" { "Try an edit" }
                    span id="connection" role="status" { "connecting" }
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
            body {
                (banner(source))
                p class="facts" { "As of " (time) "." }
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

fn banner(source: &str) -> Markup {
    html! {
        header class="banner" {
            h1 { "Capstan" }
            p { bdi { (neutral(html! { (source) })) } }
        }
    }
}

fn edit_form() -> Markup {
    html! {
        section class="edit" aria-labelledby="edit-title" {
            h2 id="edit-title" { "Try an edit" }
            p id="edit-help" {
                "Paste a manifest. The page shows what admission would answer and the rollout that would follow. "
                "Nothing is sent to the cluster."
            }
            form id="edit" {
                label for="manifest" { "Manifest, YAML or JSON" }
                textarea id="manifest" rows="12" spellcheck="false" aria-describedby="edit-help" {}
                button type="submit" { "Try" }
            }
            div id="verdict" role="status" {}
        }
    }
}

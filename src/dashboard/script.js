// Replaces the live part of the page whenever the server sends a new one, and sends the manifest of
// the form. The server escapes all texts.
"use strict";

const byId = (id) => document.getElementById(id);
const events = new EventSource("events");

// A screen reader speaks the states of the control planes when they change, and not the whole page.
const announce = () => {
  const states = [...document.querySelectorAll("#live .headline")].map((element) => element.innerText);
  const text = states.join(" ");
  if (byId("announcement").textContent !== text) byId("announcement").textContent = text;
};

// Names an element that can have the keyboard focus, also after the live part is replaced.
const key = (element) => {
  const own = element.getAttribute("href") || element.getAttribute("aria-label") || element.parentElement.id;
  return (element.closest("article")?.id ?? "") + " " + own;
};

// Whether the page has its server, and the server has the cluster.
const connection = () => {
  const outdated = byId("outdated") !== null;
  byId("connection").textContent = outdated ? "the cluster does not respond" : "connected";
};
events.onopen = connection;
events.onerror = () => {
  const ended = events.readyState === EventSource.CLOSED;
  byId("connection").textContent = ended
    ? "ended; the page shows the last state. Start capstan dashboard again, and open its new address"
    : "disconnected; the page shows the last state and tries again";
};
events.onmessage = (event) => {
  const live = byId("live");
  const open = [...live.querySelectorAll("details[open]")].map((element) => element.id);
  const focused = live.contains(document.activeElement) ? key(document.activeElement) : null;
  live.innerHTML = event.data;
  for (const id of open) byId(id)?.setAttribute("open", "");
  const all = [...live.querySelectorAll("a, summary, [tabindex]")];
  if (focused) all.find((element) => key(element) === focused)?.focus({ preventScroll: true });
  connection();
  announce();
};

byId("edit").addEventListener("submit", async (event) => {
  event.preventDefault();
  const verdict = byId("verdict");
  verdict.textContent = "Checking";
  try {
    const answer = await fetch("try", { method: "POST", body: byId("manifest").value });
    verdict.innerHTML = await answer.text();
  } catch (error) {
    verdict.textContent = "The server does not answer: " + error.message;
  }
});

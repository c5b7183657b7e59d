// Replaces the live part of the page whenever the server sends a new one, and sends the manifest of
// the form. The server escapes all texts.
"use strict";

const byId = (id) => document.getElementById(id);
const events = new EventSource("events");

// A screen reader speaks the states of the objects when they change, and not the whole page.
const announce = () => {
  const states = [...document.querySelectorAll("#live .headline, #live dd.now")];
  const text = states.map((element) => element.innerText).join(". ");
  if (byId("announcement").textContent !== text) byId("announcement").textContent = text;
  const first = document.querySelector("#live .headline > span:last-child");
  document.title = first ? first.innerText + " - Capstan" : "Capstan";
};

// Names an element that can have the keyboard focus, also after the live part is replaced.
const key = (element) => {
  const own = element.getAttribute("href") || element.getAttribute("aria-label")
    || element.dataset.object || element.parentElement.id;
  return (element.closest("article")?.id ?? "") + " " + own;
};

// Whether the page has its server, and the server has the cluster.
const connection = (state, text) => {
  byId("connection").className = state;
  byId("connection").textContent = text;
};
const connected = () => {
  if (!("live" in byId("connection").dataset)) return;
  if (byId("outdated")) connection("lost", "the cluster does not respond");
  else connection("good", "connected");
};
events.onopen = connected;
events.onerror = () => {
  const ended = events.readyState === EventSource.CLOSED;
  byId("live").classList.add("cut-off");
  connection("lost", ended
    ? "ended; the page shows the last state. Start capstan dashboard again, and open its new address"
    : "disconnected; the page shows the last state and tries again");
};
events.onmessage = (event) => {
  const live = byId("live");
  const open = [...live.querySelectorAll("details[open]")].map((element) => element.id);
  const focused = live.contains(document.activeElement) ? key(document.activeElement) : null;
  live.innerHTML = event.data;
  live.classList.remove("cut-off");
  for (const id of open) byId(id)?.setAttribute("open", "");
  const all = [...live.querySelectorAll("a, button, summary, [tabindex]")];
  if (focused) all.find((element) => key(element) === focused)?.focus({ preventScroll: true });
  connected();
  announce();
};

// Sends a text, and returns the answer with whether it is a success.
const send = async (path, body) => {
  try {
    const answer = await fetch(path, { method: "POST", body });
    return [answer.ok, await answer.text()];
  } catch (error) {
    return [false, "The server does not answer: " + error.message];
  }
};

byId("live").addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-object]");
  if (!button) return;
  const [isManifest, text] = await send("manifest", button.dataset.object);
  byId("verdict").textContent = isManifest ? "" : text;
  if (isManifest) byId("manifest").value = text;
  byId("edit-title").scrollIntoView();
  byId("manifest").focus({ preventScroll: true });
  byId("manifest").setSelectionRange(0, 0);
});

byId("edit").addEventListener("submit", async (event) => {
  event.preventDefault();
  byId("verdict").textContent = "Checking";
  const [isVerdict, text] = await send("try", byId("manifest").value);
  if (isVerdict) byId("verdict").innerHTML = text;
  else byId("verdict").textContent = text;
  // The form stays next to the answer. What would follow is long, and comes below the form.
  byId("forecast").replaceChildren(...byId("verdict").querySelectorAll(".forecast"));
  // The answer is above the form, and may be long: its beginning comes into view.
  byId("edit-title").scrollIntoView();
  byId("verdict").focus({ preventScroll: true });
});

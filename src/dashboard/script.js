// Replaces the live part of the page whenever the server sends a new one, and sends the manifest of
// the form. The server escapes all texts.
"use strict";

const byId = (id) => document.getElementById(id);
const events = new EventSource("events");

events.onopen = () => { byId("connection").textContent = "connected"; };
events.onerror = () => { byId("connection").textContent = "disconnected; the page shows the last state"; };
events.onmessage = (event) => {
  const open = [...document.querySelectorAll("#live details[open]")].map((element) => element.id);
  byId("live").innerHTML = event.data;
  for (const id of open) byId(id)?.setAttribute("open", "");
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

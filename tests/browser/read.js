// Tries every way in which a page can read a dashboard, and returns what each way gave.
const [dashboard, done] = [arguments[0], arguments[arguments.length - 1]];
const load = (tag, field, path) => new Promise((resolve, reject) => {
  const element = document.createElement(tag);
  element.onload = () => resolve("loaded");
  element.onerror = reject;
  element[field] = dashboard + path;
  if (tag === "link") element.rel = "stylesheet";
  document.head.append(element);
});
const ways = {
  fetch: async () => (await fetch(dashboard)).text(),
  report: async () => (await fetch(dashboard + "report.html")).text(),
  opaque: async () => (await fetch(dashboard, { mode: "no-cors" })).text(),
  edit: async () => (await fetch(dashboard + "try", { method: "POST", body: "a: [" })).text(),
  events: () => new Promise((resolve, reject) => {
    const events = new EventSource(dashboard + "events");
    events.onmessage = (event) => { events.close(); resolve(event.data); };
    events.onerror = (error) => { events.close(); reject(error); };
  }),
  image: () => load("img", "src", "view.svg"),
  style: () => load("link", "href", "style.css"),
};
(async () => {
  const read = {};
  for (const [name, way] of Object.entries(ways)) {
    try { read[name] = await way(); } catch { read[name] = "failed"; }
  }
  done(read);
})();

// The runs of a served folder, newest first; some can be chosen and shown side by side.

const names = [...new Set(DATA.runs.flatMap((run) => Object.keys(run.metrics)))];
const chosen = new Set();
const addressOf = (runs) => `/runs?${runs.map((name) => `run=${encodeURIComponent(name)}`).join("&")}`;
const together = h("button", { type: "button", disabled: true, onclick: () => { location.href = addressOf([...chosen]); } }, "Show the chosen runs together");

function choose(event) {
  if (event.target.checked) chosen.add(event.target.value);
  else chosen.delete(event.target.value);
  together.disabled = chosen.size < 2;
}

byId("runs").replaceChildren(...[
  DATA.runs.length === 0 && h("p", { class: "muted" }, "No run in this folder yet."),
  DATA.runs.length > 0 && h("div", { class: "card scrolls", style: { "margin-top": "1rem" } },
    h("table", {},
      h("thead", {}, h("tr", {}, h("th", {}, h("span", { class: "unseen" }, "Choose")),
        ["Run", "Created", "Gold", "Queries", "Pass"].map((title) => h("th", { scope: "col" }, title)),
        names.map((name) => h("th", { scope: "col", class: "number" }, name)))),
      h("tbody", {}, DATA.runs.map((run) => h("tr", {},
        h("td", {}, h("input", { type: "checkbox", value: run.name, "aria-label": `Choose ${run.name}`, onchange: choose })),
        h("td", {}, h("a", { href: addressOf([run.name]) }, run.name)),
        h("td", { class: "small" }, run.created.slice(0, 16).replace("T", " ")), h("td", {}, run.gold), h("td", { class: "number" }, whole(run.queries)),
        h("td", { class: "number" }, "ok" in run.classes ? whole(run.classes.ok) : "–"),
        names.map((name) => h("td", { class: "number" }, decimal(run.metrics[name]))))))),
    h("p", { style: { "margin-top": "0.75rem" } }, together)),
  DATA.broken.map(({ name, why }) => h("p", { class: "notice" }, `${name} cannot be shown: ${why}`)),
].flat().filter(Boolean));

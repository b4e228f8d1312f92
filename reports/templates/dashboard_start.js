// Draw the page, and follow its address.

function showRun() {
  const run = currentRun();
  byId("run").value = STATE.run;
  showLead(run);
  showMetrics(run);
  showCeiling(run);
  showClasses(run);
  showCauses(run);
  showHeadroom(run);
  showLatency(run);
  showAbout(run);
  showFilters(run);
  showRuns();
  showTable(run);
  showQuery();
}

// Change filters, order or text in place: the address follows without a step in the history.
function change(changes) {
  STATE = { ...STATE, ...changes };
  for (const key of Object.keys(STATE)) if (!STATE[key]) delete STATE[key];
  history.replaceState(null, "", hashOf(STATE));
  for (const name of Object.keys(FILTERS)) {
    const choice = byId(`by-${name}`);
    if (choice) choice.value = STATE[name] || "";
  }
  if (byId("filter").value !== (STATE.text || "")) byId("filter").value = STATE.text || "";
  showTable(currentRun());
}

// A link to queries leads to the table.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-filter]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  history.pushState(null, "", link.getAttribute("href"));
  follow();
  byId("queries").scrollIntoView();
  byId("h-queries").focus({ preventScroll: true });
});

function follow() {
  const before = STATE.run;
  STATE = readState();
  if (STATE.run !== before) showRun();
  else {
    change({});
    showQuery();
  }
}

addEventListener("popstate", follow);
byId("run").replaceChildren(...DATA.runs.map((run, place) => h("option", { value: place }, run.label)));
byId("run").addEventListener("change", (event) => {
  STATE = { run: event.target.value, sort: STATE.sort };
  history.pushState(null, "", hashOf(STATE));
  showRun();
});
showRun();

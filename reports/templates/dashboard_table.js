// The table of queries: filtered and sorted as the state says, a page at a time.

const PAGE = 25;
let ROWS = [];
let FIRST = 0;
let HEAD_OF = null;

// Columns: key, title, class, how to compare, how to show.
function columnsOf(run) {
  const { queries } = run;
  const shown = ["ndcg@10", ...Object.keys(queries.metrics)].find((name) => name in queries.metrics);
  const far = (rank) => (rank > 0 ? rank : Infinity);
  return [
    { key: "class", title: "Class", css: "c-class", of: (row) => Object.keys(CLASSES).indexOf(at(queries.class, row)),
      cell: (row) => [chip(at(queries.class, row)), at(queries.subclass, row) && h("span", { class: "sub" }, className(at(queries.subclass, row)))] },
    { key: "id", title: "Query", css: "c-id", of: (row) => queries.id[row],
      cell: (row) => [queries.id[row], queries.critical[row] ? h("span", { class: "sub" }, "critical") : ""] },
    { key: "text", title: "Text", css: "c-text", of: (row) => queries.text[row], cell: (row) => queries.text[row] },
    { key: "type", title: "Type", css: "c-group", of: (row) => at(queries.type, row), cell: (row) => parted(at(queries.type, row)) },
    { key: "workflow", title: "Workflow", css: "c-group", of: (row) => at(queries.workflow, row) || "", cell: (row) => parted(at(queries.workflow, row) || "–") },
    { key: "rank", title: "Rank", css: "c-number number", of: (row) => far(queries.rank[row]), cell: (row) => queries.rank[row] || "none" },
    shown && { key: "metric", title: shown, css: "c-number number", of: (row) => queries.metrics[shown][row] ?? -1, cell: (row) => decimal(queries.metrics[shown][row]) },
  ].filter(Boolean);
}

function sorted(run, rows) {
  if (!STATE.sort) return rows;
  const falling = STATE.sort.startsWith("-");
  const column = columnsOf(run).find(({ key }) => key === STATE.sort.replace("-", ""));
  if (!column) return rows;
  const values = new Map(rows.map((row) => [row, column.of(row)]));
  const order = (a, b) => {
    const x = values.get(a), y = values.get(b);
    return (x < y ? -1 : x > y ? 1 : 0) * (falling ? -1 : 1) || a - b;
  };
  return [...rows].sort(order);
}

function showFilters(run) {
  const search = h("input", {
    type: "search", id: "filter", autocomplete: "off", spellcheck: "false", placeholder: "words of the query, or its id",
    oninput: (event) => change({ text: event.target.value }) });
  search.value = STATE.text || "";
  const choices = Object.entries(FILTERS).filter(([name]) => run.queries[name].names.length > 0).map(([name, filter]) => {
    const select = h("select", { id: `by-${name}`, onchange: (event) => change({ [name]: event.target.value }) },
      h("option", { value: "" }, "all"),
      run.queries[name].names.map((value) => h("option", { value }, (filter.show || String)(value))));
    select.value = STATE[name] || "";
    return h("label", {}, filter.label, select);
  });
  byId("filters").replaceChildren(h("label", {}, "Text", search), ...choices,
    h("span", { id: "tags", class: "legend" }));
}

// Filters that have no choice of their own show as a tag that takes them off.
function showTags(run) {
  const tag = (key, text) => h("button", { type: "button", class: "tag", onclick: () => change({ [key]: "" }), "aria-label": `Remove the filter ${text}` }, `${text} ✕`);
  const place = run.ceiling.stage.indexOf(STATE.out);
  const [, was, is] = (STATE.flow || "").split(">");
  const active = [...Object.keys(FILTERS), "out", "cause", "item", "flow", "text"].filter((key) => STATE[key]);
  byId("tags").replaceChildren(...[
    STATE.out && tag("out", `lost: ${place < 0 ? STATE.out : run.ceiling.label[place]}`),
    STATE.cause && tag("cause", className(STATE.cause.replace("|", ", "))),
    STATE.item && tag("item", `to mend: ${run.work_items[STATE.item]?.item || STATE.item}`),
    STATE.flow && tag("flow", `${className(was)} → ${className(is)}`),
    active.length > 1 && h("button", { type: "button", class: "tag", onclick: () => change(Object.fromEntries(active.map((key) => [key, ""]))) }, "all filters off"),
  ].filter(Boolean));
}

function showTable(run) {
  ROWS = sorted(run, filtered(run, STATE));
  FIRST = 0;
  showTags(run);
  showPage(run);
}

function showPage(run) {
  const columns = columnsOf(run);
  const last = Math.min(ROWS.length, FIRST + PAGE);
  const state = `${STATE.run} ${STATE.sort}`;
  if (HEAD_OF !== state) {
    const focused = document.activeElement?.dataset?.sort;
    byId("query-head").replaceChildren(h("tr", {}, columns.map(({ key, title, css }) => {
      const direction = STATE.sort === key ? "ascending" : STATE.sort === `-${key}` ? "descending" : null;
      return h("th", { scope: "col", class: css, "aria-sort": direction },
        h("button", { type: "button", class: "plain", "data-sort": key, onclick: () => change({ sort: direction === "ascending" ? `-${key}` : key }) },
          title, direction && h("span", { "aria-hidden": "true" }, direction === "ascending" ? " ↑" : " ↓")));
    })));
    HEAD_OF = state;
    if (focused) document.querySelector(`[data-sort="${CSS.escape(focused)}"]`)?.focus();
  }
  byId("query-rows").replaceChildren(...ROWS.slice(FIRST, last).map((row) =>
    h("tr", { tabindex: "0", "data-row": row }, columns.map(({ css, title, cell }) => h("td", { class: css, "data-label": title }, cell(row))))));
  byId("count").textContent = ROWS.length === run.count
    ? counted(run.count, "query", "queries") : `${whole(ROWS.length)} of ${counted(run.count, "query", "queries")}`;
  const step = (by, text) => h("button", { type: "button", disabled: FIRST + by < 0 || FIRST + by >= ROWS.length, onclick: () => { FIRST += by; showPage(run); byId("queries").scrollIntoView(); } }, text);
  byId("pages").replaceChildren(...(ROWS.length > PAGE
    ? [h("span", { class: "small muted" }, `${whole(FIRST + 1)} to ${whole(last)} of ${whole(ROWS.length)}`), step(-PAGE, "Previous"), step(PAGE, "Next")] : []));
}

byId("query-rows").addEventListener("click", (event) => {
  const row = event.target.closest("tr");
  if (row) openQuery(Number(row.dataset.row));
});

byId("query-rows").addEventListener("keydown", (event) => {
  const row = event.target.closest("tr");
  if (!row) return;
  const next = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
  if (event.key === "Enter") openQuery(Number(row.dataset.row));
  else if (next) next.focus();
  else return;
  event.preventDefault();
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || byId("query").open || event.ctrlKey || event.metaKey || event.altKey) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  event.preventDefault();
  byId("filter").focus();
});

// The figures above the table: what the run scored, where it loses its gold, why, and how fast it is.

function showLead(run) {
  const { queries } = run;
  const classes = countBy(run, () => true);
  const passed = classes.get("ok") || 0;
  const failing = [...classes].filter(([name]) => !["ok", "unscorable", "not_classified"].includes(name));
  const say = [];
  if (run.classified) {
    say.push(`${whole(passed)} of ${counted(run.scored, "query", "queries")} pass.`);
    if (failing.length) {
      const [name, count] = failing.sort((a, b) => b[1] - a[1])[0];
      say.push(` The largest failure class is ${className(name)} with ${counted(count, "query", "queries")}: ${CLASSES[name]?.says || ""}.`);
    }
  } else {
    const found = queries.rank.filter((rank) => rank > 0 && rank <= run.cutoff).length;
    say.push(`${whole(found)} of ${counted(run.scored, "query", "queries")} have a relevant ${run.level} in the first ${run.cutoff}.`);
  }
  const notes = [];
  if (run.unanswered) notes.push(`${counted(run.unanswered, "query", "queries")} got no result and score 0.`);
  if (run.unscorable) notes.push(`${counted(run.unscorable, "query", "queries")} without a relevant ${run.level} left out.`);
  byId("lead").replaceChildren(
    h("h1", {}, `${run.gold.name} ${run.gold.split}`),
    h("p", { class: "say" }, say),
    notes.length > 0 && h("p", { class: "muted" }, notes.join(" ")) || "");
  for (const element of document.querySelectorAll(".unit")) element.textContent = run.level;
}

function metricRows(figures) {
  return Object.entries(figures).map(([name, figure]) => [
    h("div", { class: "label" }, name),
    intervalTrack(figure),
    h("div", { class: "figure" }, decimal(figure.value), " ",
      h("span", { class: "muted small" }, intervalText(figure))),
  ]);
}

function groupRows(groups, metric) {
  return Object.entries(groups).map(([group, of]) => {
    const figure = of.metrics[metric] || { value: null, low: null, high: null };
    return [
      h("div", { class: "label small" }, group, " ", h("span", { class: "muted" }, `(${of.queries})`)),
      intervalTrack(figure),
      h("div", { class: "figure" }, decimal(figure.value), " ",
        h("span", { class: "muted small" }, intervalText(figure))),
    ];
  });
}

function showMetrics(run) {
  const names = Object.keys(run.metrics);
  const undefinedFor = names.filter((name) => run.metrics[name].undefined);
  const body = h("div", { class: "rows phone" });
  const choose = h("select", { id: "group-metric", onchange: draw },
    names.map((name) => h("option", { value: name }, name)));
  const title = (text) => h("h4", { style: { "grid-column": "1 / -1" } }, text);
  function draw() {
    fill(body, {}, []).replaceChildren(...[
      title("by type"), groupRows(run.by_type, choose.value),
      Object.keys(run.by_workflow).length > 0 && [title("by workflow"), groupRows(run.by_workflow, choose.value)],
    ].flat(Infinity).filter(Boolean));
  }
  if (names.includes("ndcg@10")) choose.value = "ndcg@10";
  draw();
  byId("metrics").replaceChildren(
    h("div", { class: "rows phone" }, metricRows(run.metrics),
      h("div", { class: "axis", style: { "grid-column": "2" } }, h("span", {}, "0"), h("span", {}, "1"))),
    undefinedFor.length ? h("p", { class: "muted small" },
      undefinedFor.map((name) => `${name}: undefined for ${counted(run.metrics[name].undefined, "query", "queries")}, left out`).join("; ")) : "",
    h("details", {}, h("summary", {}, "By type and workflow"),
      h("div", { class: "choice" }, h("label", { for: "group-metric" }, "Metric"), choose), body));
}

function showCeiling(run) {
  const { ceiling } = run;
  const rows = [];
  let before = null;
  ceiling.stage.forEach((stage, place) => {
    const count = ceiling.reachable[place];
    const share = run.scored ? count / run.scored : 0;
    const chained = ceiling.chain[place];
    const out = chained ? run.queries.out_after.filter((code) => code === place).length : 0;
    if (chained && before === null && place > 0) rows.push(h("div", { style: { "grid-column": "1 / -1", height: "0" } }));
    if (chained) before = count;
    rows.push(
      h("div", { class: chained ? "label" : "label inset" }, ceiling.label[place]),
      h("div", { class: chained ? "track" : "track thin" }, h("div", { class: "bar", style: { left: 0, width: percent(share) } })),
      h("div", { class: "figure" },
        h("span", { class: chained ? "" : "muted small" }, `${(100 * share).toFixed(1)} %`),
        chained ? h("span", { class: "small" }, " ", out
          ? h("a", { class: "lost", href: linkTo({ out: stage }), "data-filter": true, "aria-label": `${out} lost here: ${ceiling.label[place]}` }, `−${out}`)
          : h("span", { class: "muted" }, "−0")) : ""));
  });
  byId("ceiling").replaceChildren(rows.length
    ? h("div", { class: "rows phone" }, rows)
    : h("p", { class: "muted" }, "The run tells no stages."),
    h("p", { class: "muted small", style: { "margin-top": "0.75rem" } },
      `Share of ${counted(run.scored, "query", "queries")}; a number in colour counts those lost at that step and lists them.`));
}

// --- failure classes ----------------------------------------------------------------------------

function countBy(run, test) {
  const counts = new Map(Object.keys(CLASSES).map((name) => [name, 0]));
  for (let row = 0; row < run.count; row += 1) {
    if (!test(row)) continue;
    const name = at(run.queries.class, row);
    counts.set(name, (counts.get(name) || 0) + 1);
  }
  return new Map([...counts].filter(([, count]) => count > 0));
}

function stack(counts, total, filters, what, large) {
  return h("div", { class: large ? "stack large" : "stack" }, [...counts].map(([name, count]) =>
    h("a", {
      href: linkTo({ ...filters, class: name }), "data-filter": true,
      style: { "--colour": classColour(name), "flex-grow": count },
      title: `${className(name)}: ${count} of ${total}`,
      "aria-label": `${what}: ${count} of ${total} ${className(name)}`,
    }, count / total > 0.045 ? whole(count) : "")));
}

function showClasses(run) {
  const all = countBy(run, () => true);
  const group = (title, name) => {
    const column = run.queries[name];
    if (!column.names.length) return "";
    const rows = column.names.map((value, code) => {
      const counts = countBy(run, (row) => column.codes[row] === code);
      const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
      return [
        h("div", { class: "name" }, h("a", { href: linkTo({ [name]: value }), "data-filter": true }, parted(value))),
        stack(counts, total, { [name]: value }, value, false),
        h("div", { class: "of" }, whole(total)),
      ];
    });
    return h("div", { class: "stacks", "data-group": name }, h("h3", {}, title), rows);
  };
  byId("classes").replaceChildren(
    stack(all, run.count, {}, "all", true),
    h("ul", { class: "legend classes-legend" }, [...all].map(([name, count]) =>
      h("li", {}, h("a", { href: linkTo({ class: name }), "data-filter": true },
        chip(name), " ", h("span", { class: "muted small" }, `${whole(count)} · ${CLASSES[name]?.says || ""}`))))),
    run.classified ? "" : h("p", { class: "notice" }, "This run was made without failure classes; evaluate anew to have them."),
    h("div", { class: "two" }, group("By type", "type"), group("By workflow", "workflow")));
}

// --- causes, headroom, latency, about -----------------------------------------------------------

const ITEMS = 6;

function showCauses(run) {
  const found = new Map();
  run.queries.causes.forEach((causes) => causes.forEach(([place, status]) => {
    const key = `${run.causeNames[place]}|${STATUSES[status]}`;
    if (!found.has(key)) found.set(key, { name: run.causeNames[place], advice: new Set(), status, count: 0 });
    found.get(key).count += 1;
    if (run.advice[place][1]) found.get(key).advice.add(run.advice[place][1]);
  }));
  const sorted = [...found.entries()].sort(([, a], [, b]) => b.count - a.count || a.name.localeCompare(b.name));
  const listOf = (status) => {
    const of = sorted.filter(([, cause]) => STATUSES[cause.status] === status);
    return of.length > 0 && h("div", { class: "kind" }, h("h4", {}, STATUS_SAYS[status]), of.map(([key, cause]) =>
      h("div", { class: "cause" },
        h("a", { href: linkTo({ cause: key }), "data-filter": true }, className(cause.name)), " ",
        h("span", { class: "muted" }, counted(cause.count, "query", "queries")),
        cause.advice.size > 0 && h("p", { class: "small muted" }, cause.advice.size > 1 && "for one: ", [...cause.advice][0]))));
  };
  const items = run.work_items.map((item, place) => h("div", { class: "cause" },
    h("a", { href: linkTo({ item: String(place) }), "data-filter": true }, item.item), " ",
    h("span", { class: "muted small" }, counted(item.rows.length, "query", "queries"),
      item.verified > 0 ? `, ${item.verified} seen to pass with it` : ", hypothesis, not tried")));
  byId("causes").replaceChildren(...[
    items.length > 0 && h("div", { class: "kind" }, h("h4", {}, "Work items in the data"), items.slice(0, ITEMS),
      items.length > ITEMS && h("details", {}, h("summary", {}, `${whole(items.length - ITEMS)} more`), items.slice(ITEMS))),
    listOf("verified"), listOf("untried"),
    listOf("untried") && !listOf("verified") && !listOf("insufficient")
      && h("p", { class: "small muted" }, "To try them: ", h("code", {}, `assay diagnose ${run.path} --verify`)),
    listOf("insufficient") && h("details", {}, h("summary", {}, "Tried in vain"), listOf("insufficient")),
    !found.size && !items.length && h("p", { class: "muted" }, "No causes are named in this run."),
  ].filter(Boolean));
}

function showHeadroom(run) {
  const { headroom } = run;
  if (!headroom) {
    byId("headroom").replaceChildren(h("p", { class: "muted" }, "Not computed for this run. To compute it:"),
      h("p", {}, h("code", {}, `assay headroom ${run.path}`)));
    return;
  }
  const { stages, measures, tier_2: tier } = headroom;
  const names = Object.keys(measures);
  byId("headroom").replaceChildren(...[
    tier && h("p", {}, `hit@${tier.k} is ${decimal(tier.hit_now)}; with other weights of tier 2 at most `,
      h("b", { class: "bound" }, decimal(tier.hit_upper_bound)), "."),
    tier && h("p", { class: "small muted" }, `Of ${counted(tier.failing, "failing query", "failing queries")}, weights exist for ${whole(tier.feasible)}, ${whole(tier.undecided)} undecided. ${tier.label.replace(/^./, (letter) => letter.toUpperCase())}.`),
    names.length > 0 && h("table", { style: { "margin-top": "0.75rem" } },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Best still possible after"), names.map((name) => h("th", { scope: "col", class: "number" }, name)))),
      h("tbody", {}, stages.map((stage, place) => h("tr", {},
        h("td", {}, place === stages.length - 1 ? `${className(stage)}: as it is` : className(stage)),
        names.map((name) => h("td", { class: "number" }, decimal(measures[name][place]))))))),
  ].filter(Boolean));
}

function showLatency(run) {
  const { latency } = run;
  if (!latency) {
    byId("latency").replaceChildren(h("p", { class: "muted" }, "Not measured. To measure it:"),
      h("p", {}, h("code", {}, "assay evaluate GOLD --latency 50")));
    return;
  }
  const stages = Object.entries(latency.stages).sort(([, a], [, b]) => b.p50 - a.p50);
  const total = stages.find(([name]) => name === "total");
  const longest = Math.max(...stages.map(([, times]) => times.p95), 1e-9);
  const row = ([name, times]) => [
    h("div", { class: name === "total" ? "label" : "label small" }, name.replaceAll("_", " ")),
    h("div", { class: "track" },
      h("div", { class: "interval", style: { left: 0, width: percent(times.p95 / longest) } }),
      h("div", { class: "bar", style: { left: 0, width: percent(times.p50 / longest) } })),
    h("div", { class: "figure small" }, `${times.p50.toFixed(1)} `, h("span", { class: "muted" }, `${times.p95.toFixed(1)} ms`)),
  ];
  const rest = stages.filter(([name]) => name !== "total");
  byId("latency").replaceChildren(
    h("div", { class: "rows phone" }, total ? row(total) : [], rest.slice(0, 7).map(row)),
    rest.length > 7 ? h("details", {}, h("summary", {}, `${rest.length - 7} more stages`), h("div", { class: "rows phone" }, rest.slice(7).map(row))) : "",
    h("p", { class: "muted small", style: { "margin-top": "0.75rem" } }, `Median (solid) and 95th percentile over ${counted(latency.queries, "query", "queries")}.`));
}

function showAbout(run) {
  const counts = (title, of) => Object.keys(of).length > 0 && [h("h4", { style: { "margin-top": "0.875rem" } }, title),
    h("div", { class: "scrolls" }, h("table", {}, h("tbody", {}, Object.entries(of).map(([name, count]) =>
      h("tr", {}, h("td", { class: "small" }, className(name)), h("td", { class: "number small" }, whole(count)))))))];
  byId("about").replaceChildren(...[
    h("table", {}, h("tbody", {}, [["folder", run.name], ["created", run.created], ["gold", `${run.gold.name} ${run.gold.version} ${run.gold.split}`], ...Object.entries(run.about)]
      .map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "small", style: { "overflow-wrap": "anywhere" } }, value))))),
    counts("Not done as configured", run.fallbacks),
    counts("Events of the stages, in queries", run.audit),
    DATA.chunks.shortened > 0 && h("p", { class: "muted small", style: { "margin-top": "0.75rem" } },
      `${counted(DATA.chunks.shortened, "text")} cut to ${DATA.chunks.cut} characters on this page`,
      run.queries.shortened > 0 && `, ${counted(run.queries.shortened, "query text")} to 1,000`, "."),
  ].flat().filter(Boolean));
}

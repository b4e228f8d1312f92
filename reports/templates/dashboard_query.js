// One query: the waterfall of its gold, its candidates with what each term gave them, its causes.

function openQuery(row) {
  STATE.query = currentRun().queries.id[row];
  history.replaceState(null, "", hashOf(STATE));
  showQuery();
}

function closeQuery() {
  const row = currentRun().rowOf.get(STATE.query);
  delete STATE.query;
  history.replaceState(null, "", hashOf(STATE));
  document.querySelector(`tr[data-row="${row}"]`)?.focus();
}

byId("query").addEventListener("close", closeQuery);
byId("query").addEventListener("click", (event) => {
  if (event.target === byId("query")) byId("query").close();
});

function showQuery() {
  const run = currentRun();
  const row = run.rowOf.get(STATE.query);
  const dialog = byId("query");
  if (row === undefined) {
    if (dialog.open) dialog.close();
    return;
  }
  const place = ROWS.indexOf(row);
  const go = (by, text, label) => h("button", {
    type: "button", disabled: place < 0 || ROWS[place + by] === undefined, "aria-label": label,
    onclick: () => { openQuery(ROWS[place + by]); } }, text);
  const waterfall = h("section", {}, h("h3", {}, "Where the gold stood after each stage"), h("div", { class: "waterfall" }));
  dialog.replaceChildren(
    h("header", {}, h("p", { class: "muted small" }, run.queries.id[row]),
      go(-1, "‹", "Previous query"), go(1, "›", "Next query"),
      h("button", { type: "button", id: "close", onclick: () => dialog.close() }, "Close")),
    h("div", { class: "body" }, queryFacts(run, row), queryCauses(run, row), waterfall, queryCandidates(run, row)));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  byId("close").focus();
  const room = waterfall.lastChild;
  room.replaceChildren(...queryWaterfall(run, row, room.clientWidth || 600));
}

// Where tier 2 left the order alone, an earlier stage gave the rank.
const PASSED_THROUGH = {
  merge: "out-ranked in the merge; tier 2 passed through",
  inject: "displaced by what was injected; tier 2 passed through",
};

function queryFacts(run, row) {
  const { queries } = run;
  const fact = (name, value) => value !== null && value !== "" && h("span", {}, h("span", { class: "muted" }, name), value);
  const lostFact = (subclass, stage) => {
    const passed = subclass === "lost_in_rerank" && PASSED_THROUGH[stage];
    return passed ? h("span", {}, passed) : fact("lost at", stage);
  };
  const metrics = Object.entries(queries.metrics).map(([name, values]) => fact(name, decimal(values[row])));
  const moved = DATA.runs.map((other, place) => [other, place, other.rowOf.get(queries.id[row])])
    .filter(([, place, found]) => place !== Number(STATE.run) && found !== undefined)
    .map(([other, , found]) => fact(`in ${other.name}`, chip(at(other.queries.class, found))));
  return h("section", {},
    h("h2", { id: "query-title" }, queries.text[row]),
    h("div", { class: "facts" },
      h("span", {}, chip(at(queries.class, row)), at(queries.subclass, row) && `· ${className(at(queries.subclass, row))}`),
      lostFact(at(queries.subclass, row), at(queries.lost_at, row)), fact("type", at(queries.type, row)), fact("workflow", at(queries.workflow, row)),
      queries.critical[row] ? h("b", {}, "critical") : ""),
    h("div", { class: "facts" }, metrics),
    moved.length > 0 && h("div", { class: "facts" }, moved),
    at(queries.searched, row) && h("p", { class: "small muted", style: { "margin-top": "0.5rem" } }, `Searched: ${at(queries.searched, row)}.`),
    queries.headroom[queries.id[row]] && h("p", { class: "small" }, `Headroom: ${queries.headroom[queries.id[row]]}.`),
    queries.evidence[row] && h("p", { class: "small muted", style: { "margin-top": "0.5rem", "overflow-wrap": "anywhere" } }, queries.evidence[row]));
}

function queryCauses(run, row) {
  const causes = run.queries.causes[row];
  if (!causes.length) return "";
  return h("section", { class: "query-causes" }, h("h3", {}, "Causes"), STATUSES.map((status, code) => {
    const of = causes.filter(([, found]) => found === code);
    return of.length > 0 && h("div", { class: "kind", "data-status": status },
      h("h4", { class: `status ${status}` }, STATUS_SAYS[status]),
      of.map(([place, , evidence]) => h("div", { class: "cause" },
        h("b", {}, className(run.advice[place][0])),
        evidence && h("p", { class: "small muted", style: { "overflow-wrap": "anywhere" } }, evidence),
        run.advice[place][1] && status !== "insufficient" && h("p", { class: "small" }, run.advice[place][1]))));
  }));
}

// Stages run down, ranks run right on a logarithmic scale; lists stand alone, what follows the
// merge is joined. What is not there stands at the right edge.
function queryWaterfall(run, row, width) {
  const { waterfall } = run;
  if (!waterfall) return [h("p", { class: "muted" }, "An imported ranking tells no stages.")];
  const begin = waterfall.start[row], units = waterfall.start[row + 1] - begin;
  const absent = waterfall.relevant[row] - waterfall.count[row];
  const notes = [];
  if (waterfall.count[row] > units) notes.push(`The best ${units} of ${waterfall.count[row]} relevant ${run.level}s that were found.`);
  if (absent > 0) notes.push(`${counted(absent, `relevant ${run.level}`)} found by no stage: ${waterfall.missing[row].join(", ")}${absent > waterfall.missing[row].length ? ", …" : ""}.`);
  if (!units) return [h("p", { class: "muted" }, notes.join(" ") || `No relevant ${run.level} is known.`)];
  const stages = waterfall.ranks.filter(({ rank }, i) => i >= waterfall.ranks.length - 4 || rank.slice(begin, begin + units).some(Boolean));
  const longest = Math.max(...stages.map(({ label }) => label.length));
  const left = Math.min(20 + 6.8 * longest, width * 0.55), right = 84, line = 26, top = 22;
  const height = top + stages.length * line + 4;
  const furthest = Math.max(10, ...stages.flatMap(({ rank }) => rank.slice(begin, begin + units)));
  const x = (rank) => left + (width - left - right) * (Math.log(rank) / Math.log(furthest));
  const edge = width - 30;
  const y = (place) => top + place * line + line / 2;
  const chained = (stage) => ["merged", "injected", "reranked", "final"].includes(stage);
  const ticks = [1, run.cutoff, 10, 100].filter((tick, i, all) => tick <= furthest && all.indexOf(tick) === i);
  const parts = [
    svg("rect", { class: "first", x: left - 8, width: x(run.cutoff) - left + 16, y: top, height: stages.length * line, rx: 3 }),
    ticks.map((tick) => [svg("line", { class: "grid", x1: x(tick), x2: x(tick), y1: top, y2: height }),
      svg("text", { x: x(tick), y: 14, "text-anchor": "middle" }, String(tick))]),
    svg("text", { x: edge, y: 14, "text-anchor": "middle" }, "absent"),
    stages.map(({ label, stage }, i) => svg("text", { x: 0, y: y(i) + 4, class: chained(stage) ? "strong" : "" }, label)),
  ];
  for (let unit = units - 1; unit >= 0; unit -= 1) {
    const best = unit === 0;
    const ranks = stages.map(({ rank }) => rank[begin + unit]);
    const points = stages.map(({ stage }, i) => [stage, ranks[i], i]).filter(([stage, rank]) => chained(stage) && rank > 0);
    parts.push(svg("polyline", { class: best ? "path" : "other", "stroke-width": best ? 2 : 1, points: points.map(([, rank, i]) => `${x(rank)},${y(i)}`).join(" ") }));
    stages.forEach(({ label }, i) => {
      const rank = ranks[i];
      const title = svg("title", {}, `${waterfall.unit[begin + unit]}, ${label}: ${rank || "absent"}`);
      if (rank) parts.push(svg("circle", { class: best ? "dot" : "dot other", cx: x(rank), cy: y(i), r: best ? 5 : 3.5 }, title));
      else if (best) parts.push(svg("path", { class: "other", "stroke-width": 1.5, d: `M${edge - 4} ${y(i) - 4}l8 8m0 -8l-8 8` }, title));
      if (best && rank) parts.push(svg("text", { class: "strong", x: x(rank) + 9, y: y(i) + 4 }, String(rank)));
    });
  }
  const spoken = stages.map(({ label, rank }) => `${label} ${rank[begin] || "absent"}`).join(", ");
  return [
    svg("svg", { width, height, role: "img", "aria-label": `${waterfall.unit[begin]}: ${spoken}` }, parts),
    h("p", { class: "small muted", style: { "overflow-wrap": "anywhere" } },
      h("b", {}, waterfall.unit[begin]), units > 1 && ` in colour; ${waterfall.unit.slice(begin + 1, begin + units).join(", ")} in grey`,
      `. The band is the first ${run.cutoff}. `, notes.join(" ")),
  ];
}

function queryCandidates(run, row) {
  const { candidates } = run;
  const begin = candidates.start[row], end = candidates.start[row + 1];
  if (begin === end) return h("section", {}, h("h3", {}, "Candidates"), h("p", { class: "muted" }, "Nothing was retrieved."));
  const rows = Array.from({ length: end - begin }, (_, i) => begin + i);
  const parts = candidates.parts.map((part, i) => ({ ...part, colour: `var(--${PART_COLOURS[i % PART_COLOURS.length]})` }))
    .filter(({ milli }) => rows.some((one) => milli[one] !== 0));
  const scored = rows.filter((one) => candidates.in_pool[one] && parts.length);
  const sum = (one, sign) => parts.reduce((total, { milli }) => total + Math.max(0, sign * milli[one]), 0);
  const most = Math.max(1, ...scored.map((one) => sum(one, 1)));
  const least = Math.max(0, ...scored.map((one) => sum(one, -1)));
  const scale = { zero: least / (most + least), span: most + least };
  return h("section", { class: "candidates" }, h("h3", {}, "Candidates"),
    parts.length > 0 && h("ul", { class: "legend small", style: { "margin-top": "0.4rem" }, "aria-label": "Terms of the score" },
      parts.map(({ name, colour }) => h("li", {}, h("span", { class: "chip", style: { "--colour": colour } }, name)))),
    rows.map((one, i) => candidate(run, one, parts, scale, i > 0 && candidates.place[one] > candidates.place[rows[i - 1]] + 1)));
}

function candidate(run, one, parts, scale, gap) {
  const { candidates } = run, { chunks } = DATA;
  const chunk = candidates.chunk[one], gold = candidates.gold[one], grade = candidates.grade[one];
  const stages = candidates.ranks.filter(({ rank }) => rank[one] > 0).map(({ label, rank }) => `${label} ${rank[one]}`);
  const own = chunks.id[chunk] === chunks.document[chunk] ? "" : chunks.id[chunk];
  const section = at(chunks.section, chunk);
  const judged = gold ? `★ relevant${grade > 1 ? `, grade ${grade}` : ""}` : grade >= 0 ? "judged not relevant" : "not judged";
  const text = chunks.text[chunk];
  return h("div", { class: `candidate${gold ? " gold" : ""}${gap ? " gap" : ""}` },
    h("span", { class: "place" }, candidates.place[one]),
    h("div", { class: "title" }, h("b", {}, chunks.document[chunk]), h("span", { class: gold ? "marked" : "small muted" }, judged),
      h("span", { class: "small muted" }, [own && own !== `${chunks.document[chunk]}#0000` && own, at(candidates.collection, one), section].filter(Boolean).join(" · "))),
    scoreBar(candidates, one, parts, scale),
    text !== null ? h("p", { class: "text" }, text, text.length < chunks.length[chunk] && "…") : h("p", { class: "text muted" }, "The run kept no text of this one."),
    stages.length > 0 && h("p", { class: "small muted" }, stages.join(" · ")));
}

function scoreBar(candidates, one, parts, { zero, span }) {
  const score = candidates.score[one];
  if (score === null) return "";
  if (!candidates.in_pool[one] || !parts.length) {
    return h("p", { class: "small muted" }, `score ${decimal(score)}${parts.length ? ", outside the pool of the second tier" : ""}`);
  }
  let up = zero, down = zero;
  const pieces = parts.filter(({ milli }) => milli[one] !== 0).map(({ name, colour, milli }) => {
    const width = Math.abs(milli[one]) / span;
    const left = milli[one] > 0 ? up : down - width;
    if (milli[one] > 0) up += width; else down -= width;
    return h("span", { style: { left: percent(left), width: percent(width), "--colour": colour }, title: `${name} ${decimal(milli[one] / 1000)}` });
  });
  const spoken = parts.filter(({ milli }) => milli[one] !== 0).map(({ name, milli }) => `${name} ${decimal(milli[one] / 1000)}`).join(", ");
  return h("div", { class: "score" },
    h("div", { class: "parts", role: "img", "aria-label": spoken || "no term" }, pieces, zero > 0 && h("i", { style: { left: percent(zero) } })),
    h("span", { class: "number small" }, decimal(score)));
}

// Several runs: a metric over time, and which queries moved from which class to which.

function showRuns() {
  byId("runs-card").hidden = DATA.runs.length < 2;
  if (DATA.runs.length < 2) return;
  const names = [...new Set(DATA.runs.flatMap((run) => Object.keys(run.metrics)))];
  const options = () => DATA.runs.map((run, place) => h("option", { value: place }, run.short));
  const metric = h("select", { id: "over-time" }, names.map((name) => h("option", {}, name)));
  const from = h("select", { id: "flow-from" }, options());
  const to = h("select", { id: "flow-to" }, options());
  if (names.includes("ndcg@10")) metric.value = "ndcg@10";
  to.value = STATE.run;
  from.value = String(Math.max(0, Number(STATE.run) - 1));
  const chart = h("div", {});
  const flow = h("div", {});
  const draw = () => {
    chart.replaceChildren(overTime(metric.value, chart.clientWidth || 640));
    flow.replaceChildren(flowMatrix(Number(from.value), Number(to.value)));
  };
  for (const choice of [metric, from, to]) choice.addEventListener("change", draw);
  byId("runs").replaceChildren(h("div", { class: "two runs" },
    h("div", {}, h("div", { class: "choice" }, h("label", { for: "over-time" }, "Metric"), metric), chart),
    h("div", {}, h("div", { class: "choice" }, h("label", { for: "flow-from" }, "Class flow from"), from,
      h("label", { for: "flow-to" }, "to"), to), flow)));
  draw();
}

function overTime(metric, width) {
  const height = 220, left = 36, right = 12, top = 10, bottom = 34;
  const points = DATA.runs.map((run, place) => ({ run, place, figure: run.metrics[metric] || { value: null } }))
    .filter(({ figure }) => figure.value !== null);
  const values = points.flatMap(({ figure }) => [figure.value, figure.low ?? figure.value, figure.high ?? figure.value]);
  const low = Math.max(0, Math.floor(10 * Math.min(...values, 1)) / 10);
  const high = Math.min(1, Math.ceil(10 * Math.max(...values, 0)) / 10);
  const span = high - low || 1;
  const x = (place) => left + (width - left - right) * (DATA.runs.length === 1 ? 0.5 : (place + 0.5) / DATA.runs.length);
  const y = (value) => top + (height - top - bottom) * (1 - (value - low) / span);
  const marks = [low, (low + high) / 2, high];
  return svg("svg", { width, height, role: "img", "aria-label": `${metric} by run: ${points.map(({ run, figure }) => `${run.name} ${decimal(figure.value)}`).join(", ")}` },
    marks.map((mark) => [
      svg("line", { class: "grid", x1: left, x2: width - right, y1: y(mark), y2: y(mark) }),
      svg("text", { x: left - 6, y: y(mark) + 4, "text-anchor": "end" }, mark.toFixed(2)),
    ]),
    svg("polyline", { class: "path", points: points.map(({ place, figure }) => `${x(place)},${y(figure.value)}`).join(" "), "stroke-width": 1.5 }),
    points.map(({ run, place, figure }) => [
      figure.low !== null && figure.low !== undefined && svg("line", { class: "whisker", x1: x(place), x2: x(place), y1: y(figure.low), y2: y(figure.high), "stroke-width": 4, "stroke-opacity": 0.35 }),
      svg("circle", { class: "dot", cx: x(place), cy: y(figure.value), r: place === Number(STATE.run) ? 6 : 4 },
        svg("title", {}, `${run.name}: ${decimal(figure.value)} (${intervalText(figure)})`)),
      svg("text", { x: x(place), y: height - 18, "text-anchor": "middle", class: place === Number(STATE.run) ? "strong" : "" }, String(place + 1)),
      svg("text", { x: x(place), y: height - 4, "text-anchor": "middle" }, decimal(figure.value)),
    ]));
}

function flowMatrix(before, after) {
  const from = DATA.runs[before], to = DATA.runs[after];
  const counts = new Map();
  let shared = 0, moved = 0;
  to.queries.id.forEach((id, row) => {
    const other = from.rowOf.get(id);
    if (other === undefined) return;
    shared += 1;
    const was = at(from.queries.class, other), is = at(to.queries.class, row);
    moved += was === is ? 0 : 1;
    counts.set(`${was}>${is}`, (counts.get(`${was}>${is}`) || 0) + 1);
  });
  const used = (side) => Object.keys(CLASSES).filter((name) => [...counts.keys()].some((key) => key.split(">")[side] === name));
  const notes = [];
  if (from.gold.digest !== to.gold.digest) notes.push("The gold sets of these runs differ.");
  if (shared < Math.max(from.count, to.count)) notes.push(`Only the ${counted(shared, "query", "queries")} that both runs have are counted.`);
  if (!from.classified || !to.classified) notes.push("Not both runs are classified.");
  return h("div", {},
    notes.length > 0 && h("p", { class: "notice" }, notes.join(" ")),
    h("p", { class: "small muted" }, `${counted(moved, "query", "queries")} of ${whole(shared)} changed class; rows are the first run, columns the second.`),
    h("div", { class: "scrolls" }, h("table", { class: "matrix", id: "flow" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "from \\ to"), used(1).map((name) => h("th", { scope: "col" }, chip(name))))),
      h("tbody", {}, used(0).map((was) => h("tr", {}, h("th", { scope: "row" }, chip(was)), used(1).map((is) => {
        const count = counts.get(`${was}>${is}`) || 0;
        return h("td", { class: was === is ? "same" : count ? "moved" : "" }, count > 0 && h("a", {
          href: linkTo({ flow: `${before}>${was}>${is}` }, String(after)), "data-filter": true,
          "aria-label": `${count} from ${className(was)} to ${className(is)}` }, whole(count)));
      })))))));
}

// What the page knows: runs, their queries, the names of classes and terms, and the state that the
// address keeps (which run, which filters, which query is open).

const CLASSES = {
  ok: { colour: "var(--green)", says: "passes" },
  ranking_gap: { colour: "var(--vermillion)", says: "searched, but not ranked high enough" },
  query_route_gap: { colour: "var(--orange)", says: "lives where this query did not search" },
  gold_corpus_gap: { colour: "var(--purple)", says: "not in the corpus" },
  gold_over_specified: { colour: "var(--sky)", says: "asks for more than the corpus holds" },
  term_metric_strict: { colour: "var(--yellow)", says: "found, but expected terms are not covered" },
  unscorable: { colour: "var(--grey)", says: "no relevant document is known" },
  not_classified: { colour: "var(--grey)", says: "not classified" },
};
const STATUSES = ["verified", "untried", "insufficient"];
const STATUS_SAYS = {
  verified: "Verified: changing this alone made the query pass",
  untried: "Hypothesis, not tried",
  insufficient: "Hypothesis, tried: changing this alone was not enough",
};
const PART_COLOURS = ["blue", "orange", "green", "purple", "yellow", "sky", "vermillion", "grey"];

// A name that a line may break after each underscore, and nowhere within a word.
const parted = (name) => name.split("_").flatMap((part, i) => (i ? ["_", h("wbr"), part] : [part]));
const classColour = (name) => (CLASSES[name] || CLASSES.not_classified).colour;
const className = (name) => name.replaceAll("_", " ");
const chip = (name) => h("span", { class: "chip", style: { "--colour": classColour(name) } }, className(name));

// A coded column read at a row; null where it has no value.
const at = (column, row) => (column.codes[row] < 0 ? null : column.names[column.codes[row]]);

// Prepared once a run: what filtering and sorting look at.
for (const [place, run] of DATA.runs.entries()) {
  const { queries } = run;
  run.count = queries.id.length;
  run.haystack = queries.id.map((id, row) => `${id}\n${queries.text[row]}`.toLowerCase());
  run.rowOf = new Map(queries.id.map((id, row) => [id, row]));
  run.causeNames = run.advice.map(([cause]) => cause);
  run.short = `${place + 1} · ${run.name}`;
  run.label = `${run.name} · ${run.created.slice(0, 16).replace("T", " ")}`;
}

// What can be filtered by, and the value of a query under each. `flow` is "run>from>to": the
// class it had in that earlier run, and the class it has now.
const FILTERS = {
  class: { label: "Class", value: (run, row) => at(run.queries.class, row), show: className },
  subclass: { label: "Sub-class", value: (run, row) => at(run.queries.subclass, row), show: className },
  type: { label: "Type", value: (run, row) => at(run.queries.type, row) },
  workflow: { label: "Workflow", value: (run, row) => at(run.queries.workflow, row) },
};

function keeps(run, state) {
  const tests = [];
  for (const [name, filter] of Object.entries(FILTERS)) {
    if (state[name]) tests.push((row) => filter.value(run, row) === state[name]);
  }
  if (state.out) tests.push((row) => run.ceiling.stage[run.queries.out_after[row]] === state.out);
  if (state.cause) {
    const [name, status] = state.cause.split("|");
    const wanted = STATUSES.indexOf(status);
    tests.push((row) => run.queries.causes[row].some(
      ([place, found]) => run.causeNames[place] === name && found === wanted));
  }
  if (state.item) {
    const held = new Set(run.work_items[state.item]?.rows || []);
    tests.push((row) => held.has(row));
  }
  if (state.flow) {
    const [before, from, to] = state.flow.split(">");
    const earlier = DATA.runs[before];
    tests.push((row) => {
      const other = earlier ? earlier.rowOf.get(run.queries.id[row]) : undefined;
      return other !== undefined && at(earlier.queries.class, other) === from
        && at(run.queries.class, row) === to;
    });
  }
  const words = (state.text || "").toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length) tests.push((row) => words.every((word) => run.haystack[row].includes(word)));
  return tests;
}

function filtered(run, state) {
  const tests = keeps(run, state);
  const rows = [];
  for (let row = 0; row < run.count; row += 1) {
    if (tests.every((test) => test(row))) rows.push(row);
  }
  return rows;
}

// --- the state, kept in the address so that a view can be sent to somebody ----------------------

const KEYS = ["run", ...Object.keys(FILTERS), "out", "cause", "item", "flow", "text", "sort", "query"];

function readState() {
  const given = new URLSearchParams(location.hash.slice(1));
  const state = {};
  for (const key of KEYS) if (given.get(key)) state[key] = given.get(key);
  if (!(state.run in DATA.runs)) state.run = String(DATA.runs.length - 1);
  return state;
}

let STATE = readState();

const hashOf = (state) => {
  const kept = KEYS.filter((key) => state[key] && !(key === "run" && Number(state.run) === DATA.runs.length - 1));
  return `#${new URLSearchParams(kept.map((key) => [key, state[key]]))}`;
};

// The address of this page with these filters and no others; the run and the order stay.
const linkTo = (filters, run = STATE.run) => hashOf({ run, sort: STATE.sort, ...filters });

const currentRun = () => DATA.runs[STATE.run];

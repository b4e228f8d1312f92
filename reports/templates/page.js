"use strict";
// Shared by every page: the data, elements made without markup, numbers, the theme.

const DATA = JSON.parse(document.getElementById("data").textContent);

// Controls and marks that turn the direction of writing are shown as escapes, never followed.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const escaped = (mark) => {
  const code = mark.charCodeAt(0).toString(16);
  return code.length > 2 ? `\\u${code.padStart(4, "0")}` : `\\x${code.padStart(2, "0")}`;
};
const visible = (text) => text.replace(UNSEEN, escaped);

// Set attributes and children. Text stays text: strings become text nodes, never markup.
// `style` is an object of properties, `on...` a listener; null and false leave an attribute out.
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") {
      for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
    } else if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
    } else {
      const text = value === true ? "" : String(value);
      // What is read is shown safely; an option's value is compared and stays as it is.
      element.setAttribute(name, name === "title" || name === "aria-label" ? visible(text) : text);
    }
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "string" ? visible(child) : child);
  }
  return element;
}

const h = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);

const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const byId = (id) => document.getElementById(id);

const percent = (share) => `${(100 * share).toFixed(3)}%`;

// Three decimals for shares and scores; a dash where there is no value.
const decimal = (value, digits = 3) =>
  value === null || value === undefined ? "–" : value.toFixed(digits);

const whole = (value) => value.toLocaleString("en");

const counted = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;

// A point with its interval on a scale from 0 to 1.
function intervalTrack(figure) {
  if (figure.value === null) return h("div", { class: "track" });
  const { value, low, high } = figure;
  return h("div", { class: "track" },
    low !== null && h("div", { class: "interval", style: { left: percent(low), width: percent(high - low) } }),
    h("div", { class: "point", style: { left: percent(value) } }));
}

const intervalText = (figure) =>
  figure.value === null ? "undefined"
    : figure.low === null ? "too few queries"
      : `${decimal(figure.low)} to ${decimal(figure.high)}`;

// --- the theme: as the system, light, dark ------------------------------------------------------

const THEMES = { system: "as the system", light: "light", dark: "dark" };
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
let theme = "system";
try {
  theme = localStorage.getItem("assay-theme") || theme;
} catch { /* a page from disk may be refused a store */ }

function showTheme() {
  if (!(theme in THEMES)) theme = "system";
  const dark = theme === "dark" || (theme === "system" && prefersDark.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").setAttribute("aria-label", `Colours: ${THEMES[theme]}`);
  byId("theme").title = `Colours: ${THEMES[theme]}`;
}

byId("theme").addEventListener("click", () => {
  const order = Object.keys(THEMES);
  theme = order[(order.indexOf(theme) + 1) % order.length];
  try {
    localStorage.setItem("assay-theme", theme);
  } catch { /* kept for this page only */ }
  showTheme();
});
prefersDark.addEventListener("change", showTheme);
showTheme();

// The hash belongs to the page's own state.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});

// On a server: say when what is shown has changed, and let the reader decide when to look.
if (DATA && DATA.live) {
  const ask = async () => (await fetch(DATA.live)).text();
  byId("reload").addEventListener("click", () => location.reload());
  ask().then((first) => setInterval(async () => {
    const now = await ask().catch(() => first);
    byId("stale").hidden = now === first;
  }, 3000)).catch(() => {});
}

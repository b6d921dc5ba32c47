"use strict";
// Elements of the page, and what it draws of statistics. Loaded before page.js.

// ---- Elements. Text of a dataset only ever becomes text.

// `children` may be arrays, as must be those of which there may be 100,000: a call cannot have so many arguments.
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) made.append(child);
  }
  return made;
}

function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const count = (n) => Number(n).toLocaleString("en");
const plural = (n, one) => `${count(n)} ${one}${n === 1 ? "" : "s"}`;
function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return `${unit && bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}
const short = (x) => typeof x !== "number" ? String(x) : Number.isInteger(x) ? count(x)
  : Math.abs(x) >= 1e4 && Math.abs(x) < 1e15 ? count(Math.round(x)) : String(+x.toPrecision(4));
// What the server tells of a value of bytes.
const textOfBytes = (value) => value.text ?? (value.media ? `${value.media}, ${size(value.size)}` : `${size(value.size)}: ${value.hex}`);
const failed = (error) => el("p", {class: "bad", role: "alert"}, error.message || String(error));

// ---- Statistics

function featureTable(found, statistics) {
  const head = ["feature", "kind", "values", "records", statistics ? "what the values are like" : ""];
  const rows = Object.entries(found.features || {}).map(([name, f]) => {
    const values = f.min_values === undefined ? "" : f.min_values === f.max_values ? String(f.min_values)
      : `${count(f.min_values)} to ${count(f.max_values)}`;
    const has = found.sampled !== undefined ? ""
      : f.records === found.records ? "all" : `${count(f.records || 0)} of ${count(found.records)}`;
    const bytes = f.kind === "bytes" && f.min_bytes !== undefined
      ? el("div", {class: "dim"}, f.min_bytes === f.max_bytes ? size(f.min_bytes) : `${size(f.min_bytes)} to ${size(f.max_bytes)}`)
      : null;
    return el("tr", {}, el("td", {class: "name"}, featureName(name)), el("td", {}, f.kind || "none", bytes),
              el("td", {"data-name": "values a record:"}, values), el("td", {"data-name": "records:"}, has), el("td", {}, ...statisticsOf(statistics && statistics[name], found.classes?.[name])));
  });
  return el("table", {class: "features"}, el("thead", {}, el("tr", {}, ...head.map((h) => el("th", {}, h)))),
            el("tbody", {}, rows));
}

function className(classes, number) {
  if (!classes?.names) return null;  // an object has members such as "constructor"
  const place = classes.numbers ? classes.numbers.indexOf(Number(number)) : Number(number);
  return place >= 0 && place < classes.names.length ? classes.names[place] : null;
}

function statisticsOf(s, classes) {
  if (!s) return [];
  const parts = [];
  const words = [];
  if (s.distinct !== undefined) words.push(`${s.distinct_is_exact ? "" : "about "}${plural(s.distinct, "different value")}`);
  if (s.mean !== undefined) words.push(`mean ${short(s.mean)}, deviation ${short(s.deviation)}`);
  if (s.zeros) words.push(`${plural(s.zeros, "zero")}`);
  if (s.nan) words.push(`${count(s.nan)} NaN`);
  if (s.infinite) words.push(`${count(s.infinite)} infinite`);
  const lengths = s.values_in_record;
  if (lengths?.mean !== undefined) words.push(`${short(lengths.mean)} values a record`);
  if (s.images) words.push(formatsOf(s.images));
  if (s.missing) words.push(`missing in ${plural(s.missing, "record")}`);
  const frequent = s.frequent || [];
  const few = frequent.length && frequent.length === s.distinct;
  const numbers = s.min !== undefined && s.quantiles && s.distinct > 1;
  if (numbers && few && !classes && frequent.length > 8) parts.push(barsOf(frequent, s));
  else if (numbers && !few && !classes) parts.push(boxOf(s));
  else if (frequent.length && s.distinct < s.values) parts.push(topOf(frequent, s.values, s.distinct, classes));
  else if (numbers) parts.push(boxOf(s));
  if (lengths?.quantiles && s.min_values < s.max_values) {
    parts.push(boxOf({min: s.min_values, max: s.max_values, quantiles: lengths.quantiles}, "values a record: "));
  }
  parts.push(el("div", {class: "dim"}, words.join(" · ")));
  return parts;
}

function formatsOf({formats, width, height}) {
  const range = (sizes) => sizes.min === sizes.max ? sizes.min : `${sizes.min} to ${sizes.max}`;
  const kinds = Object.entries(formats).map(([format, n]) => `${count(n)} ${format}`).join(", ");
  return `${kinds}, ${range(width)} × ${range(height)} pixels`;
}

function topOf(frequent, values, distinct, classes) {
  const most = frequent[0].count;
  const shown = frequent.slice(0, 8).map((f) => {
    const name = className(classes, f.value);
    return el("li", {title: `${f.value}: ${count(f.count)} of ${count(values)}`},
              el("i", {style: `width:${100 * f.count / most}%`}), el("span", {}, name === null ? f.value : `${f.value} ${name}`),
              el("b", {}, count(f.count)));
  });
  if (distinct > 8) shown.push(el("li", {class: "dim"}, `and ${count(distinct - shown.length)} others`));
  return el("ul", {class: "top"}, ...shown);
}

// A bar for each value, by size.
const barsOf = (frequent, s) => bars(frequent.map((f) => ({at: Number(f.value), name: f.value, n: f.count})), "counts of values",
                                     `${short(s.min)} to ${short(s.max)}`);

// A bar for the records from each power of two bytes on, below the next.
const sizesOf = ({histogram, min, max}) => bars(
  histogram.map((f) => ({at: f.at_least ? 1 + Math.log2(f.at_least) : 0, name: `${size(f.at_least)} or more`, n: f.records})),
  "sizes of records", `${size(min)} to ${size(max)}, by powers of two`);

// `shown` are [{at: place, name, n: height}].
function bars(shown, what, caption) {
  const sorted = [...shown].sort((a, b) => a.at - b.at);
  const most = Math.max(...sorted.map((one) => one.n));
  const least = sorted[0].at;
  const span = sorted[sorted.length - 1].at - least || 1;
  const chart = svg("svg", {class: "chart", viewBox: "0 0 260 46", role: "img", "aria-label": what});
  const width = Math.max(1, Math.min(12, 250 / sorted.length - 0.5));
  for (const {at, name, n} of sorted) {
    const height = Math.max(1, 44 * n / most);
    const bar = svg("rect", {x: (at - least) / span * (260 - width), y: 46 - height, width, height});
    bar.append(svg("title"));
    bar.lastChild.textContent = `${name}: ${count(n)}`;
    chart.append(bar);
  }
  return el("div", {}, chart, el("div", {class: "dim"}, caption));
}

// Extremes and quantiles.
function boxOf(s, what = "") {
  const at = new Map(s.quantiles.map((q) => [q.share, q.value]));
  const span = s.max - s.min || 1;
  const x = (value) => 2 + 256 * Math.min(1, Math.max(0, (value - s.min) / span));
  const chart = svg("svg", {class: "chart", viewBox: "0 0 260 46", role: "img", "aria-label": "quantiles"});
  const line = (a, b, c, d) => chart.append(svg("line", {x1: a, y1: b, x2: c, y2: d}));
  const [p5, p25, p50, p75, p95] = [0.05, 0.25, 0.5, 0.75, 0.95].map((share) => x(at.get(share) ?? s.min));
  line(x(s.min), 23, x(s.max), 23);
  chart.append(svg("rect", {class: "box", x: p5, y: 14, width: Math.max(1, p95 - p5), height: 18}),
               svg("rect", {x: p25, y: 8, width: Math.max(1, p75 - p25), height: 30}));
  line(p50, 6, p50, 40);
  const words = s.quantiles.filter((q) => [0.05, 0.5, 0.95].includes(q.share))
    .map((q) => `${q.share * 100} %: ${short(q.value)}`);
  return el("div", {}, chart, el("div", {class: "dim"}, `${what}${short(s.min)} to ${short(s.max)} · ${words.join(" · ")}`));
}

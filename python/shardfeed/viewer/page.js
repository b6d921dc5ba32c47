"use strict";
// The page of `shardfeed view` and of `shardfeed report`. A report has its data within the page; otherwise the server
// is asked for what is seen.

const report = JSON.parse(document.getElementById("data")?.textContent || "null");
const main = document.getElementById("main");
const dialog = document.getElementById("record");
const TABS = report ? ["Summary", "Records"] : ["Summary", "Records", "Order", "Verify", "Compare", "Training"];

// What the URL's fragment says, so that the browser's Back works.
const state = {tab: "Summary", d: 0, n: null, layout: null, find: null};
let datasets = [];
let overview = null;  // of the dataset shown

// ---- Asking

async function call(path, query = {}) {
  if (report) return fromReport(path, query);
  const answer = await fetch("api/" + path + "?" + new URLSearchParams({d: state.d, ...query}));
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error || answer.statusText);
  return value;
}

function fromReport(path, query) {
  if (path === "datasets") return report.datasets;
  if (path === "overview" || path === "statistics") return {state: "done", result: report[path]};
  const record = path === "record" && report.records.find((r) => r.record === query.n);
  if (record) return record;
  if (path === "record") throw new Error(`record ${count(query.n)} is not in this report, which has ${plural(report.records.length, "record")}`);
  throw new Error("a report does not have this");
}

// Asks until a task has ended; `tell` gets its states.
async function finished(path, query, tell) {
  const {start, ...asked} = query;  // a task that fails is not started again
  for (let wait = 30, first = true; ; wait = Math.min(wait * 1.5, 1000), first = false) {
    const found = await call(path, first ? query : asked);
    tell(found);
    if (found.state !== "running") return found;
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

// ---- Summary

async function showSummary() {
  const status = el("div", {class: "tools", role: "status"});
  const box = el("div", {}, status);
  main.replaceChildren(box);
  const at = state.d;
  const draw = (found, statistics) => box.replaceChildren(
    ...summaryOf(found, statistics), status, el("div", {class: "wide"}, featureTable(found, statistics)));
  const tell = (text) => status.replaceChildren(el("span", {class: "dim"}, text));
  let found;
  try {
    found = await overviewOf((s) => {
      if (s.state !== "running" || !box.isConnected) return;
      if (s.outline) draw(s.outline);
      if (s.seconds > 0.5) tell("Reading the schema…");
    });
  } catch (error) {
    status.replaceChildren(failed(error));
    box.replaceChildren(status);  // an outline may be that of another dataset
    return;
  }
  if (!box.isConnected) return;
  status.replaceChildren();
  draw(found);
  const run = async () => {
    try {
      const done = await finished("statistics", {start: 1}, (s) => {
        if (s.state === "running") tell(`Reading all records for their statistics: ${Math.round(s.seconds)} s`);
      });
      if (at !== state.d) return;
      if (done.state === "failed") throw new Error(done.error);
      status.replaceChildren();
      if (found.sampled !== undefined) overview = found = done.result;  // which has all features
      draw({...found, ...done.result}, done.result.statistics);
    } catch (error) {
      status.replaceChildren(failed(error));
    }
  };
  const known = report || found.statistics_in_manifest || found.bytes < 256 * 1024 * 1024
    || (await call("statistics")).state !== "idle";
  if (known) run();
  else status.replaceChildren(el("button", {class: "main", onclick: run}, "Compute statistics"),
                              el("span", {class: "dim"}, `reads all ${size(found.bytes)}` + (found.sampled === undefined ? ""
                                : `; so far, ${plural(found.sampled, "record")} were looked at for the features`)));
}

// What is above the table of features.
function summaryOf(found, statistics) {
  const cards = el("div", {class: "cards"});
  const card = (value, name) => cards.append(el("div", {}, el("b", {}, value), name));
  card(count(found.records), "records");
  card(count(found.shards), "shards");
  card(size(found.bytes), (found.compression || "none") === "none" ? "on disk" : `on disk, ${found.compression}`);
  if (found.record_bytes && found.records) {
    const {sum, min, max, histogram} = found.record_bytes;
    card(size(sum / found.records), `mean record (${size(min)} to ${size(max)})`);
    if (histogram?.length > 1) cards.append(el("div", {}, sizesOf(found.record_bytes), "sizes of records"));
  }
  if (statistics && found.repeated_records) {
    card(`${found.repeated_records_is_exact ? "" : "about "}${count(found.repeated_records)}`, "equal to an earlier record");
  }
  const notes = [...(found.notes || [])];
  if (found.not_examples) notes.push(`${plural(found.not_examples, "record")} not tf.train.Examples`);
  const made = Object.entries(found.made_by || {}).map(([k, v]) => `${k}: ${v}`).join(" · ");
  return [cards, ...(made ? [el("p", {class: "dim"}, made)] : []), ...notes.map((n) => el("p", {}, "Note: " + n))];
}

// `tell` gets the states until it is known.
async function overviewOf(tell = () => {}) {
  const at = state.d;
  const done = await finished("overview", {start: 1}, tell);
  if (done.state === "failed") throw new Error(done.error);
  if (at === state.d) overview = done.result;
  return done.result;
}

// ---- Records

const BLOCK = 50;
let blocks = new Map();  // number of a block to a promise of its records

function blockOf(list, block) {
  if (!blocks.has(block)) {
    const first = block * BLOCK;
    const query = list ? {numbers: list.slice(first, first + BLOCK).join(",")} : {first, count: BLOCK};
    blocks.set(block, report ? Promise.resolve(report.records.slice(first, first + BLOCK)) : call("records", query));
    if (blocks.size > 200) blocks.delete(blocks.keys().next().value);
  }
  return blocks.get(block);
}

const recordAt = (list, place) => blockOf(list, Math.floor(place / BLOCK)).then((records) => records[place % BLOCK]);

async function showRecords() {
  blocks = new Map();
  const at = state.d;
  const total = datasets[at].records;
  const list = state.find ? state.find.records : null;
  const shown = list ? list.length : report ? report.records.length : total;
  const tools = el("div", {class: "tools"});
  const scroller = el("div", {class: "scroller", tabindex: 0, "aria-label": "Records"});
  main.replaceChildren(tools, scroller);
  if (!overview) await overviewOf().catch(() => null);
  if (at !== state.d || state.tab !== "Records") return;
  if (!report) tools.append(searchForm());
  if (report) tools.append(el("span", {class: "dim"}, `${count(shown)} of ${plural(total, "record")}`));
  if (!shown) {
    const why = list ? "No record matches." : total ? "This report was written without records." : "There are no records.";
    scroller.append(datasets[at].error ? failed(datasets[at].error) : el("p", {class: "dim", style: "padding:10px"}, why));
    return;
  }
  let first;
  try {
    first = await blockOf(list, 0);
  } catch (error) {
    scroller.append(failed(error));
    return;
  }
  if (at !== state.d || state.tab !== "Records") return;
  const hasImages = first.some((record) => imagesOf(record).length > 0);
  const layout = state.layout || (hasImages ? "images" : "list");
  if (hasImages) {
    tools.append(el("span", {}, ...["images", "list"].map((kind) => el("button", {
      "aria-pressed": String(kind === layout), class: kind === layout ? "main" : "",
      onclick: () => go({layout: kind})}, kind))));
  }
  // Without a schema, what the first records have that are Examples.
  const known = Object.keys(overview?.features || {});
  const names = known.length ? known
    : [...new Set(first.filter((r) => !r.not_an_example).flatMap((r) => (r.features || []).map((f) => f.name)))];
  virtual(scroller, shown, layout === "images" ? null : names, hasImages, (place) => recordAt(list, place));
}

function fillCell(element, record) {
  const image = imagesOf(record)[0];
  element.append(
    record.error ? el("div", {class: "bad", style: "white-space:normal;height:138px"}, record.error)
      : image ? imageOf(record.record, ...image, {alt: captionOf(record), loading: "lazy"})
        : el("div", {class: "dim", style: "white-space:normal;height:138px"}, (record.features || []).map(textOf).join(" · ").slice(0, 200)),
    el("div", {title: captionOf(record)}, captionOf(record) || " "), el("div", {class: "dim"}, count(record.record)));
}

// ---- Order, verify, compare

function showOrder() {
  const fields = [["shuffle", "shuffle seed", ""], ["window", "window", ""], ["batch", "batch", "16"], ["world", "world", "1"],
                  ["rank", "rank", "0"], ["epoch", "epoch", "0"], ["step", "step", "0"]];
  const inputs = Object.fromEntries(fields.map(([name, , value]) => [name, el("input", {size: 7, value, id: "order-" + name})]));
  const sheet = el("div", {class: "sheet"});
  const told = el("p", {class: "dim"}, "What a step delivers, known before it is run. Without a shuffle seed the order is that of the shards.");
  const show = async () => {
    try {
      const query = Object.fromEntries(fields.map(([name]) => [name, inputs[name].value.trim()]));
      told.replaceChildren("…");
      const places = await call("batch", query);
      const numbers = places.map((p) => p.record);
      const records = [];
      for (let i = 0; i < numbers.length; i += 200) records.push(...await call("records", {numbers: numbers.slice(i, i + 200).join(",")}));
      if (!overview) await overviewOf().catch(() => null);
      sheet.replaceChildren(...records.map((record) => {
        const cell = el("div", {class: "cell", onclick: () => openRecord(record.record)});
        fillCell(cell, record);
        return cell;
      }));
      const shards = new Set(places.map((p) => p.shard)).size;
      told.replaceChildren(`${plural(places.length, "record")} from ${plural(shards, "shard")}`);
    } catch (error) {
      sheet.replaceChildren();
      told.replaceChildren(failed(error));
    }
  };
  main.replaceChildren(el("form", {class: "tools", onsubmit: (event) => { event.preventDefault(); show(); }},
    ...fields.map(([name, text]) => el("label", {}, text + " ", inputs[name])), el("button", {class: "main"}, "Show")), told, sheet);
}

async function showVerify() {
  const box = el("div");
  main.replaceChildren(box);
  const at = state.d;
  const draw = (s) => {
    if (at !== state.d || state.tab !== "Verify") return;
    if (s.state === "idle") {
      box.replaceChildren(el("p", {}, "Reads every byte and locates each defect, as ", el("code", {}, "shardfeed verify"), " does."),
                          el("button", {class: "main", onclick: () => run({start: 1})}, "Verify"));
    } else if (s.state === "running") {
      box.replaceChildren(el("p", {class: "dim"}, `Reading every byte: ${Math.round(s.seconds)} s`));
    } else if (s.state === "failed") {
      box.replaceChildren(failed(s.error));
    } else {
      const found = s.result;
      box.replaceChildren(found.num_defects === 0
        ? el("p", {class: "good"}, `All is well: ${plural(found.records, "record")}, ${size(found.bytes)}.`)
        : el("p", {class: "bad"}, `${plural(found.num_defects, "defect")}; ${plural(found.records, "record")} intact.`));
      for (const defect of found.defects) {
        box.append(el("p", {class: "mono"}, defect.detail));
      }
      if (found.defects.length < found.num_defects) box.append(el("p", {class: "dim"}, "and more"));
    }
  };
  const run = (query) => finished("verify", query, draw).catch((error) => box.replaceChildren(failed(error)));
  run({});
}

async function showCompare() {
  const first = state.d;
  const others = datasets.map((d, i) => i).filter((i) => i !== first);
  const other = el("select", {"aria-label": "other dataset", id: "compare-with"},
                   ...others.map((i) => el("option", {value: i}, datasets[i].spec)));
  other.value = (first + 1) % datasets.length;
  const number = el("input", {size: 9, inputmode: "numeric", "aria-label": "record", id: "compare-record", placeholder: "number"});
  const box = el("div");
  const sides = el("div");
  const isShown = (second) => state.tab === "Compare" && state.d === first && second === Number(other.value);
  const compare = async () => {
    const second = Number(other.value);
    const tell = (...told) => isShown(second) && box.replaceChildren(...told);
    try {
      const done = await finished("diff", {a: first, b: second, start: 1}, (s) => {
        if (s.state === "running") tell(el("p", {class: "dim"}, `Reading both datasets: ${Math.round(s.seconds)} s`));
      });
      if (done.state === "failed") throw new Error(done.error);
      tell(...differenceOf(done.result, datasets[first], datasets[second]));
    } catch (error) {
      tell(failed(error));
    }
  };
  const besides = async () => {
    const second = Number(other.value);
    const n = number.value.replaceAll(",", "").trim();
    const shown = !/^\d+$/.test(n) ? [] : await Promise.all([first, second].map((d) => sideOf(d, Number(n))));
    if (isShown(second)) sides.replaceChildren(el("div", {class: "sides"}, ...shown));
  };
  other.addEventListener("change", () => { compare(); besides(); });
  main.replaceChildren(el("form", {class: "tools", onsubmit: (event) => { event.preventDefault(); besides(); }},
    el("label", {hidden: others.length < 2}, "with ", other), el("label", {}, "record ", number),
    el("button", {}, "Show in both")), sides, box);
  compare();
}

function differenceOf(found, first, second) {
  const head = ["feature", "distance", "of what", "first", "second"].map((h) => el("th", {}, h));
  const rows = found.drift.map((d) => el("tr", {}, el("td", {class: "name"}, featureName(d.feature)),
    el("td", {class: d.significant && d.distance > found.max_drift ? "bad" : ""}, d.distance.toFixed(3)),
    el("td", {}, d.measure, d.value === undefined ? "" : ` of ${d.value}`),
    el("td", {}, ...statisticsOf(found.first.features[d.feature])),
    el("td", {}, ...statisticsOf(found.second.features[d.feature]))));
  return [
    el("p", {}, `${first.spec} (${plural(found.first.records, "record")}) and ${second.spec} (${plural(found.second.records, "record")})`),
    ...(found.schema.length ? found.schema.map((text) => el("p", {class: "bad"}, text)) : [el("p", {class: "good"}, "The schemas are equal.")]),
    el("div", {class: "wide"}, el("table", {class: "features"}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, rows)))];
}

// A record of one of the datasets that are compared.
async function sideOf(d, n) {
  const side = el("section", {}, el("h3", {}, `record ${count(n)} of ${datasets[d].spec}`));
  try {
    const [record, known] = await Promise.all([call("record", {d, n}), finished("overview", {d, start: 1}, () => {}).catch(() => null)]);
    side.append(...contentOf(record, d, known?.result?.classes));
  } catch (error) {
    side.append(failed(error));
  }
  return side;
}

// ---- Moving about

function go(changes, replace = false) {
  const next = {...state, ...changes};
  if (next.d !== state.d) Object.assign(next, {find: null, n: null});
  Object.assign(state, next);
  const hash = "#" + new URLSearchParams(Object.entries({tab: state.tab, d: state.d, n: state.n, layout: state.layout})
    .filter(([, value]) => value !== null));
  history[replace ? "replaceState" : "pushState"](null, "", hash);
  show(changes);
}

function fromHash() {
  const query = new URLSearchParams(location.hash.slice(1));
  const d = Number(query.get("d"));
  state.tab = TABS.includes(query.get("tab")) && (training || query.get("tab") !== "Training") ? query.get("tab") : "Summary";
  if (d !== state.d) { overview = null; state.find = null; }
  state.d = Number.isInteger(d) && d >= 0 && d < datasets.length ? d : 0;
  state.n = /^\d+$/.test(query.get("n") ?? "") ? Number(query.get("n")) : null;
  state.layout = ["images", "list"].includes(query.get("layout")) ? query.get("layout") : null;
}

// `changes` are those of `state`: a record opens over what is shown.
function show(changes) {
  for (const button of document.querySelectorAll("#tabs button")) {
    button.setAttribute("aria-selected", String(button.textContent === state.tab));
  }
  document.getElementById("dataset").value = state.d;
  document.title = `${datasets[state.d].spec} · shardfeed`;
  if (state.n !== null) showRecord();
  else if (dialog.open) dialog.close();
  if (changes && Object.keys(changes).every((name) => name === "n")) return;
  if (changes && "d" in changes) overview = null;
  main.className = state.tab === "Records" ? "filled" : "";
  ({Summary: showSummary, Records: showRecords, Order: showOrder, Verify: showVerify, Compare: showCompare,
   Training: showTraining})[state.tab]();
}

function keys(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
  if (state.n !== null && !typing && ["ArrowLeft", "ArrowRight", "j", "k"].includes(event.key)) {
    dialog.querySelectorAll(".bar button")[["ArrowLeft", "k"].includes(event.key) ? 0 : 1].click();
    event.preventDefault();
  } else if (event.key === "/" && !typing && !report && state.n === null) {
    event.preventDefault();
    if (state.tab !== "Records") go({tab: "Records"});
    setTimeout(() => document.getElementById("find-text")?.focus(), 50);
  } else if (!typing && state.n === null && /^[1-6]$/.test(event.key)) {
    const tab = [...document.querySelectorAll("#tabs button")][event.key - 1];
    tab?.click();
  } else if (event.key === "g" && !typing && state.n === null) {
    event.preventDefault();
    document.getElementById("jump-to").focus();
  }
}

async function begin() {
  try {
    datasets = await call("datasets");
    training = report ? null : await call("chain");
  } catch (error) {
    main.replaceChildren(failed(error));
    return;
  }
  const tabs = TABS.filter((tab) => (tab !== "Compare" || datasets.length > 1) && (tab !== "Training" || training));
  document.getElementById("tabs").append(...tabs.map((tab, i) => el("button", {
    role: "tab", title: `key ${i + 1}`, onclick: () => go({tab, n: null})}, tab)));
  const select = document.getElementById("dataset");
  select.append(...datasets.map((d, i) => el("option", {value: i}, d.spec)));
  select.disabled = datasets.length < 2;
  select.addEventListener("change", () => go({d: Number(select.value)}));
  const jump = document.getElementById("jump");
  jump.hidden = Boolean(report);
  jump.addEventListener("submit", (event) => {
    event.preventDefault();
    const n = document.getElementById("jump-to").value.replaceAll(",", "").trim();
    if (/^\d+$/.test(n)) openRecord(Number(n));
  });
  dialog.addEventListener("cancel", (event) => { event.preventDefault(); go({n: null}); });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) go({n: null}); });
  document.addEventListener("keydown", keys);
  addEventListener("popstate", () => { fromHash(); show(); });
  fromHash();
  show();
}

begin();

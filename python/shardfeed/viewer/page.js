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
  if (path === "record") return report.records.find((r) => r.record === query.n);
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

function imageUrl(record, feature, index) {
  if (report) return report.images[`${record}/${feature}/${index}`] || "";
  return "image?" + new URLSearchParams({d: state.d, n: record, f: feature, i: index});
}

// ---- Summary

async function showSummary() {
  const box = el("div");
  main.replaceChildren(box);
  const at = state.d;
  let found;
  try {
    found = await overviewOf();
  } catch (error) {
    if (at === state.d && state.tab === "Summary") box.replaceChildren(failed(error));
    return;
  }
  if (at !== state.d || state.tab !== "Summary") return;
  const mean = found.record_bytes && found.records ? found.record_bytes.sum / found.records : null;
  const cards = el("div", {class: "cards"});
  const card = (value, name) => cards.append(el("div", {}, el("b", {}, value), name));
  card(count(found.records), "records");
  card(count(found.shards), "shards");
  card(size(found.bytes), found.compression === "none" ? "on disk" : `on disk, ${found.compression}`);
  if (mean !== null) card(size(mean), `mean record (${size(found.record_bytes.min)} to ${size(found.record_bytes.max)})`);
  const notes = [...(found.notes || [])];
  if (found.not_examples) notes.push(`${plural(found.not_examples, "record")} not tf.train.Examples`);
  const made = Object.entries(found.made_by || {}).map(([k, v]) => `${k}: ${v}`).join(" · ");
  const table = el("div", {class: "wide"});
  const status = el("div", {class: "tools"});
  box.append(cards, made ? el("p", {class: "dim"}, made) : null || "", ...notes.map((n) => el("p", {}, "Note: " + n)),
             status, table);
  const draw = (done) => {
    table.replaceChildren(featureTable(found, done && done.statistics));
    if (done?.repeated_records) {
      card(`${done.repeated_records_is_exact ? "" : "about "}${count(done.repeated_records)}`, "equal to an earlier record");
    }
  };
  draw(null);
  const run = async () => {
    try {
      const done = await finished("statistics", {start: 1}, (s) => {
        if (s.state === "running") status.replaceChildren(el("span", {class: "dim"},
          `Reading all records for their statistics: ${Math.round(s.seconds)} s`));
      });
      if (at !== state.d) return;
      if (done.state === "failed") throw new Error(done.error);
      status.replaceChildren();
      draw(done.result);
    } catch (error) {
      status.replaceChildren(failed(error));
    }
  };
  const known = report || found.statistics_in_manifest || found.bytes < 256 * 1024 * 1024
    || (await call("statistics")).state !== "idle";
  if (known) run();
  else status.replaceChildren(el("button", {class: "main", onclick: run}, "Compute statistics"),
                              el("span", {class: "dim"}, `reads all ${size(found.bytes)}`));
}

async function overviewOf() {
  const done = await finished("overview", {start: 1}, (s) => {
    if (s.state === "running" && state.tab === "Summary" && s.seconds > 0.5) {
      main.replaceChildren(el("p", {class: "dim"}, "Reading the schema…"));
    }
  });
  if (done.state === "failed") throw new Error(done.error);
  overview = done.result;
  return overview;
}

// ---- Records

const BLOCK = 50;
let blocks = new Map();  // number of a block to a promise of its records

function recordsAt(list, place) {
  const block = Math.floor(place / BLOCK);
  if (!blocks.has(block)) {
    const first = block * BLOCK;
    const query = list ? {numbers: list.slice(first, first + BLOCK).join(",")} : {first, count: BLOCK};
    blocks.set(block, report ? Promise.resolve(report.records.slice(first, first + BLOCK)) : call("records", query));
    if (blocks.size > 200) blocks.delete(blocks.keys().next().value);
  }
  return blocks.get(block).then((records) => records[place % BLOCK]);
}

// The features with images of a record, with the first value of each.
function imagesOf(record) {
  const found = [];
  if (record.raw_image) found.push(["image/raw", 0]);
  for (const feature of record.features || []) {
    feature.values.forEach((value, i) => {
      if (value && (value.media?.startsWith("image/") || value.is_image)) found.push([feature.name, i]);
    });
  }
  return found;
}

function textOf(feature) {
  if (!feature) return "";
  const parts = feature.values.slice(0, 8).map((v) => {
    if (v === null || typeof v !== "object") {
      const name = className(overview?.classes?.[feature.name], v);
      return name === null ? String(v) : `${v} ${name}`;
    }
    return textOfBytes(v);
  });
  return parts.join(", ") + (feature.count > parts.length ? `, … (${count(feature.count)})` : "");
}

// The text below an image: its class, or the first short text.
function captionOf(record) {
  const features = record.features || [];
  const named = features.find((f) => f.name.endsWith("class/text")) || features.find((f) => f.name.endsWith("label"))
    || features.find((f) => f.count === 1 && f.values[0]?.text && f.values[0].size < 200);
  return named ? textOf(named) : "";
}

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
    scroller.append(el("p", {class: "dim", style: "padding:10px"}, list ? "No record matches." : "There are no records."));
    return;
  }
  let first;
  try {
    first = await recordsAt(list, 0);
  } catch (error) {
    scroller.append(failed(error));
    return;
  }
  if (at !== state.d || state.tab !== "Records") return;
  const hasImages = imagesOf(first).length > 0;
  const layout = state.layout || (hasImages ? "images" : "list");
  if (hasImages) {
    tools.append(el("span", {}, ...["images", "list"].map((kind) => el("button", {
      "aria-pressed": String(kind === layout), class: kind === layout ? "main" : "",
      onclick: () => go({layout: kind})}, kind))));
  }
  const names = overview ? Object.keys(overview.features || {}) : (first.features || []).map((f) => f.name);
  virtual(scroller, shown, layout === "images" ? null : names, hasImages, (place) => recordsAt(list, place));
}

function fillCell(element, record) {
  const image = imagesOf(record)[0];
  element.append(
    record.error ? el("div", {class: "bad", style: "white-space:normal;height:138px"}, record.error)
      : image ? el("img", {src: imageUrl(record.record, ...image), alt: captionOf(record), loading: "lazy"})
        : el("div", {class: "dim", style: "white-space:normal;height:138px"}, (record.features || []).map(textOf).join(" · ").slice(0, 200)),
    el("div", {title: captionOf(record)}, captionOf(record) || " "), el("div", {class: "dim"}, count(record.record)));
}

function searchForm() {
  const names = Object.keys(overview?.features || {});
  const old = state.find || {feature: "", compare: "contains", text: ""};
  const feature = el("select", {"aria-label": "feature", id: "find-feature"}, el("option", {value: ""}, "any bytes"),
                     ...names.map((n) => el("option", {value: n}, n)));
  feature.value = names.includes(old.feature) ? old.feature : "";
  const compare = el("select", {"aria-label": "comparison", id: "find-compare"});
  const text = el("input", {type: "text", "aria-label": "value", id: "find-text", placeholder: "search  ( / )"});
  text.value = old.text;
  const offer = () => {
    const kind = overview?.features?.[feature.value]?.kind;
    const offered = feature.value === "" ? ["contains"] : kind === "bytes" ? ["contains", "=", "missing", "present"]
      : ["=", "!=", "<", "<=", ">", ">=", "missing", "present"];
    compare.replaceChildren(...offered.map((c) => el("option", {value: c}, c)));
    if (offered.includes(old.compare)) compare.value = old.compare;
  };
  offer();
  feature.addEventListener("change", offer);
  const told = el("span", {class: "dim", role: "status", id: "found"});
  const search = async (find) => {
    told.replaceChildren("searching…");
    try {
      const at = state.d;
      const records = find.records || [];
      let next = find.next ?? 0;
      const until = records.length + 50;
      while (next !== null && records.length < until && at === state.d) {
        const found = await call("find", {feature: find.feature, compare: find.compare, text: find.text, first: next});
        records.push(...found.records);
        next = found.next;
        told.replaceChildren(`${count(records.length)} found` + (next === null ? "" : `, searched ${count(next)} records`));
      }
      if (at !== state.d || state.tab !== "Records") return;
      state.find = {...find, records, next};
      showRecords();
    } catch (error) {
      told.replaceChildren(failed(error));
    }
  };
  if (state.find) {
    told.append(`${count(state.find.records.length)} found` +
                (state.find.next === null ? "" : ` in the first ${count(state.find.next)} records`));
  }
  return el("form", {class: "tools", style: "margin:0", onsubmit: (event) => {
    event.preventDefault();
    search({feature: feature.value, compare: compare.value, text: text.value});
  }}, feature, compare, text, el("button", {type: "submit"}, "Find"),
    state.find && state.find.next !== null ? el("button", {type: "button", onclick: () => search(state.find)}, "Search further") : null,
    state.find ? el("button", {type: "button", onclick: () => { state.find = null; showRecords(); }}, "Show all") : null, told);
}

// ---- One record

function openRecord(n) { if (n !== "" && n !== null) go({n}); }

async function showRecord() {
  const n = state.n;
  const total = datasets[state.d].records;
  const list = state.find ? state.find.records : report ? report.records.map((r) => r.record) : null;
  const beside = (step) => {
    const place = list ? list.indexOf(n) : -1;
    const to = place >= 0 ? list[place + step] : report ? undefined : n + step;
    return to !== undefined && to >= 0 && to < total ? to : null;
  };
  const where = el("span", {class: "where dim"});
  const body = el("div", {class: "body"});
  const step = (by, text, name) => el("button", {disabled: beside(by) === null, "aria-label": name, onclick: () => {
    const to = beside(by);
    if (to !== null) go({n: to}, true);
  }}, text);
  dialog.replaceChildren(el("div", {class: "bar"}, step(-1, "←", "previous record"), step(1, "→", "next record"),
    el("strong", {}, `record ${count(n)}`), where, el("button", {"aria-label": "close", onclick: () => go({n: null})}, "✕")), body);
  if (!dialog.open) dialog.showModal();
  let record;
  try {
    record = await call("record", {n});
  } catch (error) {
    body.replaceChildren(failed(error));
    return;
  }
  if (n !== state.n) return;
  if (record.shard) where.textContent = `${record.shard}, its record ${count(record.shard_record)}` +
    (record.bytes === undefined ? "" : `, ${size(record.bytes)}`);
  if (record.error) {
    body.replaceChildren(failed(record.error));
    return;
  }
  body.replaceChildren(...imagesOf(record).slice(0, 12).map(([feature, i]) => withBoxes(record, feature, i)));
  const rows = record.features.map((f) => el("tr", {}, el("td", {class: "name"}, f.name || "(the record)"),
    el("td", {}, f.kind, f.count === 1 ? "" : ` [${count(f.count)}]`), el("td", {}, ...valuesOf(record, f))));
  body.append(el("table", {class: "features"}, el("tbody", {}, ...rows)));
}

function valuesOf(record, feature) {
  const shown = [];
  if (feature.kind !== "bytes") {
    const names = feature.values.slice(0, 20).map((v) => className(overview?.classes?.[feature.name], v)).filter((x) => x !== null);
    shown.push(el("div", {class: "values mono"}, feature.values.join(", ")));
    if (names.length) shown.push(el("div", {}, names.join(", ")));
  }
  feature.kind === "bytes" && feature.values.forEach((value, i) => {
    const query = new URLSearchParams({d: state.d, n: record.record, f: feature.name, i});
    const save = report ? null : el("a", {href: `value?${query}&save=1`, download: ""}, "save");
    if (value.media?.startsWith("audio/") && !report) shown.push(el("audio", {controls: true, src: "value?" + query}));
    const text = value.text ?? value.hex ?? value.media;
    shown.push(el("div", {class: "values" + (value.text === undefined ? " mono" : "")}, text),
               el("div", {class: "dim"}, size(value.size), value.media && value.text ? `, ${value.media}` : "",
                  value.text !== undefined && !value.media && value.size > 300 ? ", only the beginning is shown" : "", save ? " · " : "", save));
  });
  if (feature.count > feature.values.length) {
    shown.push(el("div", {class: "dim"}, `and ${count(feature.count - feature.values.length)} more values`));
  }
  if (feature.steps) shown.push(el("div", {class: "dim"}, `${plural(feature.steps.length, "step")}: ${feature.steps.slice(0, 50).join(", ")}`));
  return shown;
}

// An image with the boxes and outlines of its record, whose coordinates are shares of its width and height.
function withBoxes(record, feature, index) {
  const image = el("img", {src: imageUrl(record.record, feature, index), alt: feature});
  const box = el("span", {class: "shown"}, image);
  image.addEventListener("load", () => { if (image.naturalWidth < 128) image.classList.add("small"); });
  const frame = el("figure", {style: "margin:0 0 10px"}, box, el("figcaption", {class: "dim"}, feature));
  image.addEventListener("load", () => {
    frame.lastChild.textContent = `${feature}, ${image.naturalWidth} × ${image.naturalHeight}`;
  });
  if (feature !== "image/encoded" || index !== 0) return frame;
  const values = (name) => record.features.find((f) => f.name === "image/object/" + name)?.values || [];
  const [xmin, ymin, xmax, ymax] = ["xmin", "ymin", "xmax", "ymax"].map((n) => values("bbox/" + n));
  const names = values("class/text");
  const labels = values("class/label");
  const drawing = svg("svg", {viewBox: "0 0 1 1", preserveAspectRatio: "none"});
  for (let i = 0; i < Math.min(xmin.length, ymin.length, xmax.length, ymax.length); ++i) {
    drawing.append(svg("rect", {x: xmin[i], y: ymin[i], width: Math.max(0, xmax[i] - xmin[i]), height: Math.max(0, ymax[i] - ymin[i])}));
    const name = names[i]?.text ?? className(overview?.classes?.["image/object/class/label"], labels[i]) ?? labels[i];
    if (name !== undefined) {
      box.append(el("span", {class: "tag", style: `left:${100 * xmin[i]}%;top:${100 * ymin[i]}%`}, String(name)));
    }
  }
  let from = 0;
  const points = values("polygon");
  for (const length of values("polygon_lengths")) {
    const pairs = [];
    for (let i = from; i + 1 < Math.min(points.length, from + length); i += 2) pairs.push(`${points[i]},${points[i + 1]}`);
    from += length;
    if (pairs.length > 2) drawing.append(svg("polygon", {points: pairs.join(" ")}));
  }
  if (drawing.childNodes.length) box.append(drawing);
  return frame;
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
  const other = state.d === 0 ? 1 : 0;
  const box = el("div");
  main.replaceChildren(box);
  const draw = (s) => {
    if (state.tab !== "Compare") return;
    if (s.state === "running") box.replaceChildren(el("p", {class: "dim"}, `Reading both datasets: ${Math.round(s.seconds)} s`));
    else if (s.state === "failed") box.replaceChildren(failed(s.error));
    else if (s.state === "done") {
      const found = s.result;
      box.replaceChildren(el("p", {}, `${datasets[state.d].spec} (${plural(found.first.records, "record")}) and ` +
                                     `${datasets[other].spec} (${plural(found.second.records, "record")})`));
      box.append(...found.schema.map((text) => el("p", {class: "bad"}, text)));
      if (!found.schema.length) box.append(el("p", {class: "good"}, "The schemas are equal."));
      box.append(el("div", {class: "wide"}, el("table", {class: "features"}, el("thead", {}, el("tr", {},
        ...["feature", "distance", "of what", "first", "second"].map((h) => el("th", {}, h)))),
        el("tbody", {}, ...found.drift.map((d) => el("tr", {}, el("td", {class: "name"}, d.feature),
          el("td", {class: d.significant && d.distance > found.max_drift ? "bad" : ""}, d.distance.toFixed(3)),
          el("td", {}, d.measure, d.value === undefined ? "" : ` of ${d.value}`),
          el("td", {}, ...statisticsOf(found.first.features[d.feature])),
          el("td", {}, ...statisticsOf(found.second.features[d.feature]))))))));
    }
  };
  finished("diff", {a: state.d, b: other, start: 1}, draw).catch((error) => box.replaceChildren(failed(error)));
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

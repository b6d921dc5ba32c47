"use strict";
// What a record has, in lists and by itself. Loaded before page.js.

// A feature may have an empty name, and a record that is no Example is itself the value of one.
const featureName = (name, record) => name !== "" ? name : record?.not_an_example ? "(the record)" : '""';

// The values of a record that are shown as images: feature and place of each.
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

// Where the browser finds an image or a sound: {url}, or {left_out: why} in a report that does not have it.
function mediumOf(kind, record, feature, index, d = state.d) {
  if (report) return report.media[`${record}/${feature}/${index}`] ?? {left_out: "not in this report"};
  return {url: `${kind}?` + new URLSearchParams({d, n: record, f: feature, i: index})};
}

function imageOf(record, feature, index, attributes = {}, d = state.d) {
  const {url, left_out} = mediumOf("image", record, feature, index, d);
  return url ? el("img", {src: url, ...attributes}) : el("span", {class: "dim"}, left_out);
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

// ---- One record

function openRecord(n) { if (n !== "" && n !== null) go({n}); }

async function showRecord() {
  const {n, d} = state;
  const total = datasets[d].records;
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
  const isShown = () => n === state.n && d === state.d;
  try {
    const record = await call("record", {n});
    if (!isShown()) return;
    if (record.shard) where.textContent = `${record.shard}, its record ${count(record.shard_record)}` +
      (record.bytes === undefined ? "" : `, ${size(record.bytes)}`);
    body.replaceChildren(...contentOf(record, d, overview?.classes));
    if (overview) return;
    // The record is there before the names of its classes.
    const known = await overviewOf().catch(() => null);
    if (known && isShown()) body.replaceChildren(...contentOf(record, d, known.classes));
  } catch (error) {
    if (isShown()) body.replaceChildren(failed(error));
  }
}

// Images and features of a record of dataset `d`, with the names of classes by feature.
function contentOf(record, d, classes) {
  if (record.error) return [failed(record.error)];
  const rows = record.features.map((f) => el("tr", {}, el("td", {class: "name"}, featureName(f.name, record)),
    el("td", {}, f.kind, f.count === 1 ? "" : ` [${count(f.count)}]`), el("td", {}, ...valuesOf(record, f, d, classes))));
  return [...imagesOf(record).slice(0, 12).map(([feature, i]) => figureOf(record, feature, i, d, classes)),
          el("table", {class: "features"}, el("tbody", {}, rows))];
}

function valuesOf(record, feature, d, classes) {
  const shown = [];
  if (feature.kind === "bytes") {
    feature.values.forEach((value, i) => shown.push(...bytesOf(record, feature, value, i, d)));
  } else {
    const names = feature.values.slice(0, 20).map((v) => className(classes?.[feature.name], v)).filter((x) => x !== null);
    shown.push(el("div", {class: "values mono"}, feature.values.join(", ")));
    if (names.length) shown.push(el("div", {}, names.join(", ")));
  }
  if (feature.count > feature.values.length) {
    shown.push(el("div", {class: "dim"}, `and ${count(feature.count - feature.values.length)} more values`));
  }
  if (feature.steps) shown.push(el("div", {class: "dim"}, `${plural(feature.steps.length, "step")}: ${feature.steps.slice(0, 50).join(", ")}`));
  return shown;
}

function bytesOf(record, feature, value, i, d) {
  const query = new URLSearchParams({d, n: record.record, f: feature.name, i});
  const shown = [];
  if (value.media?.startsWith("audio/")) {
    const {url, left_out} = mediumOf("value", record.record, feature.name, i, d);
    shown.push(url ? el("audio", {controls: true, src: url}) : el("div", {class: "dim"}, left_out));
  }
  shown.push(el("div", {class: "values" + (value.text === undefined ? " mono" : "")}, value.text ?? value.hex ?? value.media),
             el("div", {class: "dim"}, size(value.size), value.media && value.text ? `, ${value.media}` : "",
                value.left_out ? `, the last ${size(value.left_out)} of it are left out here` : "", report ? null : " · ",
                report ? null : el("a", {href: `value?${query}&save=1`, download: ""}, "save")));
  return shown;
}

// An image with its name and size, and what is marked in it.
function figureOf(record, feature, index, d, classes) {
  const {reduced} = mediumOf("image", record.record, feature, index, d);
  const image = imageOf(record.record, feature, index, {alt: feature}, d);
  const box = el("span", {class: "shown"}, image);
  const caption = el("figcaption", {class: "dim"}, featureName(feature, record));
  image.addEventListener("load", () => {
    if (image.naturalWidth < 128) image.classList.add("small");
    caption.append(`, ${reduced ? "reduced for this report to " : ""}${image.naturalWidth} × ${image.naturalHeight}`);
  });
  image.addEventListener("error", async () => {
    const why = report ? null : await fetch(image.src).then((answer) => answer.json()).catch(() => null);
    box.replaceChildren(failed(why?.error ?? "the browser cannot show this image"));
  });
  if (["image/encoded", "image/raw"].includes(feature) && index === 0) mark(box, record, classes);
  return el("figure", {style: "margin:0 0 10px"}, box, caption);
}

// Draws the boxes and outlines of a record, whose coordinates are shares of the image's width and height.
function mark(box, record, classes) {
  const values = (name) => record.features.find((f) => f.name === "image/object/" + name)?.values || [];
  const [xmin, ymin, xmax, ymax] = ["xmin", "ymin", "xmax", "ymax"].map((n) => values("bbox/" + n));
  const names = values("class/text");
  const labels = values("class/label");
  const drawing = svg("svg", {viewBox: "0 0 1 1", preserveAspectRatio: "none"});
  for (let i = 0; i < Math.min(xmin.length, ymin.length, xmax.length, ymax.length); ++i) {
    drawing.append(svg("rect", {x: xmin[i], y: ymin[i], width: Math.max(0, xmax[i] - xmin[i]), height: Math.max(0, ymax[i] - ymin[i])}));
    const name = names[i]?.text ?? className(classes?.["image/object/class/label"], labels[i]) ?? labels[i];
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
}

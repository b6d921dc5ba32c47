"use strict";
// The page "Training": the batches of a chain as training gets them. Loaded before page.js.

let training = null;  // the chain's name and text; null if there is none
const trained = {epoch: 0, batch: 0};  // the batch that is shown

function showTraining() {
  const epoch = el("input", {size: 5, id: "training-epoch", value: trained.epoch});
  const batch = el("input", {size: 8, id: "training-batch", value: trained.batch});
  const told = el("p", {class: "dim", role: "status", id: "trained"}, "…");
  const box = el("div", {class: "wide"});
  let asked = 0;
  const show = async (step) => {
    const ask = ++asked;
    const query = {epoch: epoch.value.trim() || "0", batch: Math.max(0, Number(batch.value.trim() || 0) + step)};
    try {
      let found;
      do {
        found = await call("training", query);
        if (ask !== asked || state.tab !== "Training") return;
        if ("at" in found) told.replaceChildren(`at batch ${count(found.at)}, on the way to ${count(query.batch)}…`);
      } while ("at" in found);
      Object.assign(trained, {epoch: found.epoch, batch: found.batch});
      batch.value = found.batch;
      const shown = found.shown.length < found.rows ? `, of which the first ${count(found.shown.length)} are shown` : "";
      told.replaceChildren(`batch ${count(found.batch)} of epoch ${count(found.epoch)}: ${plural(found.rows, "row")}${shown}`);
      box.replaceChildren(batchOf(found));
    } catch (error) {
      if (ask !== asked) return;
      box.replaceChildren();
      told.replaceChildren(failed(error));
    }
  };
  const button = (text, step, id) => el("button", {type: "button", id, onclick: () => show(step)}, text);
  main.replaceChildren(
    el("p", {}, training.name, " ", el("span", {class: "mono dim"}, training.text)),
    el("form", {class: "tools", onsubmit: (event) => { event.preventDefault(); show(0); }},
      el("label", {}, "epoch ", epoch), el("label", {}, "batch ", batch), el("button", {class: "main"}, "Show"),
      button("◀", -1, "training-before"), button("▶", 1, "training-after")), told, box);
  show(0);
}

// A batch with images as a sheet, any other as a table.
function batchOf(found) {
  const image = (row, column) => "training_image?" + new URLSearchParams({epoch: found.epoch, batch: found.batch, row, column});
  const showsImages = found.shown[0]?.some((value) => value.image);
  const head = found.columns.map((column) => el("th", {}, column.name || "value", el("div", {class: "dim"}, column.type)));
  if (!showsImages) {
    return el("table", {class: "features"}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {},
      ...found.shown.map((row) => el("tr", {}, ...row.map((value) => el("td", {class: "mono"}, textOfBytes(value)))))));
  }
  const types = el("p", {class: "dim"}, found.columns.map((column) => `${column.name}: ${column.type}`).join(" · "));
  return el("div", {}, types, el("div", {class: "sheet"}, ...found.shown.map((row, i) => el("div", {class: "batch-row"},
    ...row.map((value, j) => value.image ? el("img", {src: image(i, j), alt: found.columns[j].name, loading: "lazy"}) : null),
    ...row.map((value, j) => value.image ? null : el("div", {title: textOfBytes(value)}, `${found.columns[j].name}: ${textOfBytes(value)}`))))));
}

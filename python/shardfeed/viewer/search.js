"use strict";
// Searching the records of a dataset. Loaded before page.js.

// How many records match, and how far the search has come.
function toldOf({records, next, unread, error}) {
  return [`${count(records.length)} found` + (next === null ? "" : ` in the first ${count(next)} records`),
          unread ? el("span", {class: "bad", title: error}, ` · ${plural(unread, "record")} could not be read: ${error}`) : null]
    .filter((part) => part !== null);
}

// Searches until 50 more records are found. `tell` gets what is found so far. Returns null if another dataset is shown.
async function searched(find, tell) {
  const at = state.d;
  const found = {records: [], next: 0, unread: 0, error: "", ...find};
  const until = found.records.length + 50;
  const {feature, compare, text} = find;
  while (found.next !== null && found.records.length < until) {
    const part = await call("find", {...(feature === null ? {} : {feature}), compare, text, first: found.next});
    if (at !== state.d) return null;
    found.records = [...found.records, ...part.records];
    found.next = part.next;
    found.unread += part.unread ?? 0;
    found.error ||= part.error ?? "";
    tell(found);
  }
  return found;
}

function searchForm() {
  const names = Object.keys(overview?.features || {});
  const old = state.find || {feature: null, compare: "contains", text: ""};
  // The first is no feature, whatever their names are.
  const feature = el("select", {"aria-label": "feature", id: "find-feature"}, el("option", {}, "any bytes"),
                     names.map((n) => el("option", {value: n}, featureName(n))));
  feature.selectedIndex = old.feature === null ? 0 : names.indexOf(old.feature) + 1;
  const chosen = () => feature.selectedIndex === 0 ? null : names[feature.selectedIndex - 1];
  const compare = el("select", {"aria-label": "comparison", id: "find-compare"});
  const text = el("input", {type: "text", "aria-label": "value", id: "find-text", placeholder: "search  ( / )"});
  text.value = old.text;
  const offer = () => {
    const kind = overview?.features?.[chosen()]?.kind;
    const offered = chosen() === null ? ["contains"] : kind === "bytes" ? ["contains", "=", "missing", "present"]
      : ["=", "!=", "<", "<=", ">", ">=", "missing", "present"];
    compare.replaceChildren(...offered.map((c) => el("option", {value: c}, c)));
    if (offered.includes(old.compare)) compare.value = old.compare;
  };
  offer();
  feature.addEventListener("change", offer);
  const told = el("span", {class: "dim", role: "status", id: "found"}, ...(state.find ? toldOf(state.find) : []));
  const search = async (find) => {
    told.replaceChildren("searching…");
    try {
      const found = await searched(find, (sofar) => told.replaceChildren(...toldOf(sofar)));
      if (found === null || state.tab !== "Records") return;
      state.find = found;
      showRecords();
    } catch (error) {
      told.replaceChildren(failed(error));
    }
  };
  return el("form", {class: "tools", style: "margin:0", onsubmit: (event) => {
    event.preventDefault();
    search({feature: chosen(), compare: compare.value, text: text.value});
  }}, feature, compare, text, el("button", {type: "submit"}, "Find"),
    state.find && state.find.next !== null ? el("button", {type: "button", onclick: () => search(state.find)}, "Search further") : null,
    state.find ? el("button", {type: "button", onclick: () => { state.find = null; showRecords(); }}, "Show all") : null, told);
}

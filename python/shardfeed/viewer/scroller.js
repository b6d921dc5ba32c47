"use strict";
// A list of millions of records. Loaded before page.js, which fills its cells.

// Draws only what is seen of `total` records, in rows of a table with these columns or, without, in cells with images.
// Browsers limit the height of elements. With more rows than that, a small step of the scroll bar moves by what is seen,
// as usual, and a large one to that share of all rows.
function virtual(scroller, total, columns, withImages, recordAt) {
  const MAX_HEIGHT = 12e6;
  const rowHeight = !columns ? 188 : withImages ? 44 : 30;
  const cellWidth = 172;
  const head = columns ? el("div", {class: "head"}, el("span", {}, "record"),
                            columns.map((name) => el("span", {title: name}, featureName(name)))) : null;
  const space = el("div", {class: "space"});
  if (columns) space.style.minWidth = `${96 + 170 * columns.length}px`;
  scroller.append(...(head ? [head] : []), space);
  let across = 1;
  let rows = 0;
  let drawn = new Map();
  let pending = 0;
  let top = 0;    // of the scroll bar, in pixels
  let firstRow = 0;  // the row at `top`, with its fraction
  const layOut = () => {
    const place = Math.floor(firstRow) * across;
    const before = across;
    across = columns ? 1 : Math.max(1, Math.floor((scroller.clientWidth - 4) / cellWidth));
    if (across !== before || !rows) {
      rows = Math.ceil(total / across);
      space.style.height = Math.min(MAX_HEIGHT, rows * rowHeight) + "px";
      if (rows * rowHeight > MAX_HEIGHT) firstRow = place / across;
      else firstRow = scroller.scrollTop / rowHeight;
    }
    draw();
  };
  const scrolled = () => {
    pending = 0;
    const now = scroller.scrollTop;
    const range = Math.max(1, scroller.scrollHeight - scroller.clientHeight);
    const lastRow = Math.max(0, rows - (scroller.clientHeight - (head ? head.offsetHeight : 0)) / rowHeight);
    if (rows * rowHeight <= MAX_HEIGHT) {
      firstRow = now / rowHeight;
    } else if (now <= 0 || now >= range - 1) {
      firstRow = now <= 0 ? 0 : lastRow;
    } else if (Math.abs(now - top) <= 1.5 * scroller.clientHeight) {
      firstRow = Math.min(lastRow, Math.max(0, firstRow + (now - top) / rowHeight));
    } else {
      firstRow = now / range * lastRow;
    }
    top = now;
    draw();
  };
  const draw = () => {
    const seen = Math.ceil(scroller.clientHeight / rowHeight) + 1;
    const from = Math.max(0, Math.floor(firstRow) - 1);
    const wanted = new Map();
    for (let row = from; row < Math.min(rows, from + seen + 2); ++row) {
      const y = rows * rowHeight <= MAX_HEIGHT ? row * rowHeight : scroller.scrollTop + (row - firstRow) * rowHeight;
      for (let i = 0; i < across && row * across + i < total; ++i) wanted.set(row * across + i, [i * cellWidth, y]);
    }
    for (const [place, element] of drawn) {
      if (!wanted.has(place)) {
        element.remove();
        drawn.delete(place);
      }
    }
    for (const [place, [x, y]] of wanted) {
      let element = drawn.get(place);
      if (!element) {
        element = columns ? el("div", {class: "row", style: `height:${rowHeight}px`})
          : el("div", {class: "cell", style: `width:${cellWidth - 4}px;height:${rowHeight - 4}px`});
        drawn.set(place, element);
        space.append(element);
        fill(element, place);
      }
      element.style.top = y + "px";
      if (!columns) element.style.left = x + "px";
    }
  };
  const fill = async (element, place) => {
    await new Promise((resolve) => setTimeout(resolve, 40));  // nothing is asked for that is only passed
    if (!element.isConnected) return;
    let record;
    try {
      record = await recordAt(place);
    } catch (error) {
      record = {record: "", error: error.message};
    }
    if (!record || !element.isConnected) return;
    element.addEventListener("click", () => openRecord(record.record));
    if (columns) {
      const byName = new Map((record.features || []).map((f) => [f.name, f]));
      const images = new Map(imagesOf(record).reverse());  // the first value of each feature
      element.append(el("span", {}, count(record.record)));
      if (record.error) element.append(el("span", {class: "bad whole", title: record.error}, record.error));
      else if (record.not_an_example) element.append(el("span", {class: "whole"}, textOf(record.features[0])));
      else for (const name of columns) {
        const text = textOf(byName.get(name));
        element.append(el("span", {title: text},
                          images.has(name) ? imageOf(record.record, name, images.get(name), {alt: ""}) : text));
      }
    } else {
      fillCell(element, record);
    }
  };
  scroller.addEventListener("scroll", () => { if (!pending) pending = requestAnimationFrame(scrolled); });
  new ResizeObserver(() => layOut()).observe(scroller);
}

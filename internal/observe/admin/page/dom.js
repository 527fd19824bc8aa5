// Makes elements. All text is inserted as text, never as HTML.

// el makes an element. Children are elements or strings; null, undefined and "" are skipped.
export function el(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

const svgNames = "http://www.w3.org/2000/svg";

export function svg(name, attributes, ...children) {
  return fill(document.createElementNS(svgNames, name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== "") node.append(child);
  }
  return node;
}

// figure shows a formatted number, with the exact value in an attribute for programs.
export function figure(name, value, text) {
  return el("span", { "data-figure": name, "data-value": value }, text);
}

// hidden returns text for screen readers only.
export const hidden = (text) => el("span", { class: "sr" }, text);

export function tile(label, big, ...small) {
  return el("div", { "data-key": "tile " + label }, el("dt", null, label), el("dd", null,
    el("div", { class: "big" }, big), small.map((line) => line ? el("div", { class: "small" }, line) : null)));
}

// table draws rows of cells. The first cell names the row; columns are [label, isText]. A row may have a key, and a row below it.
export function table(caption, columns, rows, wide) {
  const head = el("tr", null, columns.map(([label, isText]) => el("th", isText ? { scope: "col", class: "text" } : { scope: "col" }, label)));
  const body = rows.map((cells) => {
    const row = el("tr", { "data-key": cells.key }, cells.map((cell, i) => {
      if (i === 0) return el("th", { scope: "row" }, cell);
      return el("td", { "data-label": columns[i][0], class: columns[i][1] ? "text" : "number" }, cell);
    }));
    return cells.below ? [row, el("tr", { class: "below", "data-key": cells.key + " below" }, el("td", { colspan: columns.length }, cells.below))] : row;
  });
  return el("table", wide ? { class: "wide" } : null, el("caption", { class: "sr" }, caption), el("thead", null, head), el("tbody", null, body.flat()));
}

// section returns a titled part of a gateway's details.
export function section(title, ...content) {
  return el("section", { "data-key": title }, el("h4", null, title), content);
}

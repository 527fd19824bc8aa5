// Elements. All text goes in as text, never as HTML.

// el makes an element; children are elements, strings, or nothing.
export function el(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

const svgNames = "http://www.w3.org/2000/svg";

export function svg(name, attributes, ...children) {
  return fill(document.createElementNS(svgNames, name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) node.setAttribute(key, value);
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== "") node.append(child);
  }
  return node;
}

export function tile(label, big, ...small) {
  return el("div", null, el("dt", null, label), el("dd", null,
    el("div", { class: "big" }, big), small.map((line) => el("div", { class: "small" }, line))));
}

// table draws rows of cells; columns are [label, isText].
export function table(columns, rows, wide) {
  const head = el("tr", null, columns.map(([label, isText]) => el("th", isText ? { scope: "col", class: "text" } : { scope: "col" }, label)));
  const body = rows.map((cells) => el("tr", null, cells.map((cell, i) => {
    const attributes = i === 0 ? {} : { "data-label": columns[i][0], class: columns[i][1] ? "text" : "number" };
    return el("td", attributes, cell);
  })));
  return el("table", wide ? { class: "wide" } : null, el("thead", null, head), el("tbody", null, body));
}

export function section(title, ...content) {
  return el("section", null, el("h3", null, title), content);
}

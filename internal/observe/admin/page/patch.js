// Changes the shown elements into the wanted ones. It touches only what differs, so focus, selection and open details
// stay, and an idle page costs nothing. Nodes with data-key are matched by their key. Other code draws the content of
// nodes with data-keep.

// patch makes nodes the children of parent.
export function patch(parent, ...nodes) {
  children(parent, nodes.flat(Infinity).filter((n) => n !== null && n !== undefined && n !== "").map((n) => (n instanceof Node ? n : new Text(n))));
}

const keyOf = (node) => node.dataset?.key;
const alike = (a, b) => a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

function children(parent, wanted) {
  const keys = new Set(wanted.map(keyOf).filter(Boolean));
  const keyed = new Map();
  for (const child of [...parent.children]) {
    if (!keyOf(child)) continue;
    if (keys.has(keyOf(child))) keyed.set(keyOf(child), child);
    else child.remove();
  }
  let at = parent.firstChild;
  for (const want of wanted) {
    const found = keyOf(want) ? keyed.get(keyOf(want)) : at;
    if (!found || !alike(found, want)) {
      parent.insertBefore(want, at);
      continue;
    }
    if (found !== at) parent.insertBefore(found, at);
    at = found.nextSibling;
    update(found, want);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function update(node, want) {
  if (node.nodeType === Node.TEXT_NODE) {
    if (node.data !== want.data) node.data = want.data;
    return;
  }
  for (const { name, value } of want.attributes) {
    if (node.getAttribute(name) !== value && name !== "open") node.setAttribute(name, value); // the reader decides what is open
  }
  for (const { name } of [...node.attributes]) {
    if (!want.hasAttribute(name) && name !== "open") node.removeAttribute(name);
  }
  if (!("keep" in node.dataset)) children(node, [...want.childNodes]);
}

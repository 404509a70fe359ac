// Elements from plain text: data from the bus is never parsed as HTML.

export const byId = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

// A table with a head; cells are texts or elements.
export function table(caption, head, rows) {
  return el(
    "div", { class: "scroll" },
    el(
      "table", {},
      el("caption", { class: "unseen" }, caption),
      el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, ...rows.map((cells) => el("tr", {}, el("th", { scope: "row" }, cells[0]), ...cells.slice(1).map((cell) => el("td", {}, cell))))),
    ),
  );
}

// What may be meant by a name that is not known: buttons; nothing if there are none.
export function similar(buttons) {
  return buttons.length ? [el("p", { class: "soft" }, "Similar names: ", ...buttons.flatMap((each, i) => (i ? [", ", each] : [each])), ".")] : [];
}

// Unchanged text is not set again, so that there is no layout and screen readers stay silent.
export function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function say(id, text) {
  set(byId(id), text);
}

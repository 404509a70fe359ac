// Keys and buttons.

import { byId } from "./dom.js";

export function listenToKeys(page) {
  const actions = { "/": () => byId("find-text").focus(), "?": () => byId("help").showModal(), m: () => page.nextMeasure(), p: () => page.hold(), t: () => page.theme.toggle() };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    const isTyping = event.target.matches("input");
    if (event.key === "Escape") {
      if (isTyping) event.target.blur();
      else page.close();
    } else if (!isTyping && actions[event.key]) {
      event.preventDefault();
      actions[event.key]();
    }
  });
  byId("find").addEventListener("submit", (event) => {
    event.preventDefault();
    page.find(byId("find-text").value);
  });
  byId("find-text").addEventListener("input", (event) => page.suggest(event.target.value));
  byId("find-text").addEventListener("focus", (event) => page.suggest(event.target.value));
  byId("map-metric").addEventListener("keydown", (event) => page.metricKey(event));
  // Its address would close what is open.
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("panel").focus();
  });
  byId("theme").addEventListener("click", () => page.theme.toggle());
  byId("pause").addEventListener("click", () => page.hold());
  byId("help-open").addEventListener("click", () => byId("help").showModal());
}

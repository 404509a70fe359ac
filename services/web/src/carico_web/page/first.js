// Before the first paint: apply the stored theme, and notice parts of the page that do not load.
(function () {
  var AGAIN_MS = 2000;
  // What connecting needs, while modules load; main.js reads it.
  if (window.fetch) {
    window.firstSettings = fetch("/settings.json");
    window.firstSettings.catch(function () {});
  }
  try {
    var chosen = localStorage.getItem("carico-theme");
    if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  } catch (error) {
    // Storage is not available: the system's theme applies.
  }
  // If the network changes, downloads fail, and a page without one of its modules would not work and not report it.
  addEventListener("error", function (event) {
    var tag = event.target && event.target.tagName;
    if (tag !== "SCRIPT" && tag !== "LINK") return;
    var banner = document.getElementById("banner");
    if (banner) {
      banner.textContent = "A part of this page did not load: retrying.";
      banner.removeAttribute("hidden");
    }
    setTimeout(function () { location.reload(); }, AGAIN_MS);
  }, true);
})();

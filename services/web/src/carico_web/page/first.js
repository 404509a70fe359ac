// Before the first paint: the theme that was chosen here before, and a watch over the parts that are still to come.
(function () {
  var AGAIN_MS = 2000;
  try {
    var chosen = localStorage.getItem("carico-theme");
    if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  } catch (error) {
    // Storage is refused: the system's own choice holds.
  }
  // A network that changes ends what is being fetched, and a page that lacks a module would stay dead without a word.
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

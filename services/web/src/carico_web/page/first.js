// Before the first paint: the theme that was chosen here before.
(function () {
  try {
    var chosen = localStorage.getItem("carico-theme");
    if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  } catch (error) {
    // Storage is refused: the system's own choice holds.
  }
})();

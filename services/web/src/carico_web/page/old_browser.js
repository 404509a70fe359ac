// For browsers without modules.
document.addEventListener("DOMContentLoaded", function () {
  var banner = document.getElementById("banner");
  banner.textContent = "This browser is too old for this page (it has no JavaScript modules): use a newer one, or `carico top`.";
  banner.removeAttribute("hidden");
});

// Read by browsers that know no modules.
document.addEventListener("DOMContentLoaded", function () {
  var banner = document.getElementById("banner");
  banner.textContent = "This browser is too old for this page (it knows no JavaScript modules): open it in a newer one, or use `carico top`.";
  banner.removeAttribute("hidden");
});

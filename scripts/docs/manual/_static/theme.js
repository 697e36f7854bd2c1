// Light and dark pages. Debian's Furo comes without its own script and without the colors of "auto": here the system's
// choice is taken, and the button switches between light and dark.
(() => {
  document.documentElement.classList.remove("no-js");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    const theme = localStorage.getItem("theme");
    return theme === "light" || theme === "dark" ? theme : system.matches ? "dark" : "light";
  };
  const apply = () => { document.body.dataset.theme = chosen(); };
  system.addEventListener("change", apply);
  apply();
  for (const button of document.getElementsByClassName("theme-toggle"))
    button.addEventListener("click", event => {
      event.stopImmediatePropagation(); // Furo's own script, where it runs
      localStorage.setItem("theme", chosen() === "dark" ? "light" : "dark");
      apply();
    }, true);
})();

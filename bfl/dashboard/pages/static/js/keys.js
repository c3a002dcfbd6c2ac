// Keys: / to the search box, t for the theme, arrows through rounds and blocks.

import { step } from "./network.js";

export function startKeys() {
  const button = document.querySelector("#theme");
  button.hidden = false;
  const name = (kind) => {
    button.title = `theme: ${kind} (t)`;
    button.setAttribute("aria-label", `theme: ${kind}`);
  };
  name(window.bflTheme.kept());
  button.addEventListener("click", () => name(window.bflTheme.next()));
  document.querySelector("#run")?.addEventListener("change", (event) => event.target.form.requestSubmit());
  document.addEventListener("keydown", (event) => {
    const at = event.target;
    const isTyping = at.closest?.("input:not([type=range], [type=radio], [type=checkbox]), select, textarea");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      document.querySelector("#q").focus();
    }
    if (event.key === "t") button.click();
    const hasArrows = at.closest?.("input, .window, .scroll"); // of their own
    if (!hasArrows && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
      const link = document.querySelector(`[data-key="${event.key}"]`);
      if (link) link.click();
      else if (step(event.key === "ArrowLeft" ? -1 : 1)) event.preventDefault();
    }
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
}

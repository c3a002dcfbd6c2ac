// Before anything is drawn: the theme that somebody has chosen here; without a choice the system's.
"use strict";
(() => {
  const kinds = ["auto", "light", "dark"];
  const kept = () => {
    try {
      const found = localStorage.getItem("bfl-theme");
      return kinds.includes(found) ? found : "auto";
    } catch {
      return "auto"; // storage is switched off
    }
  };
  const show = (kind) => {
    if (kind === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = kind;
  };
  const next = () => {
    const kind = kinds[(kinds.indexOf(kept()) + 1) % kinds.length];
    try {
      localStorage.setItem("bfl-theme", kind);
    } catch {
      // it holds for this page
    }
    show(kind);
    window.dispatchEvent(new Event("bfl-theme"));
    return kind;
  };
  document.documentElement.classList.add("js");
  show(kept());
  window.bflTheme = { kept, next };
})();

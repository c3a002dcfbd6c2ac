// The search box: places while somebody types. Enter without a choice sends the form, which works without this too.

import { address, ask, make } from "./api.js";

const WAIT_MS = 150;

export function startSearch() {
  const box = document.querySelector("#q");
  const list = document.querySelector("#found");
  let timer = null;
  let chosen = -1;

  const hide = () => {
    list.hidden = true;
    box.setAttribute("aria-expanded", "false");
    chosen = -1;
    box.removeAttribute("aria-activedescendant");
  };
  const mark = (at) => {
    const items = [...list.children];
    chosen = items.length ? (at + items.length) % items.length : -1;
    items.forEach((each, index) => each.classList.toggle("chosen", index === chosen));
    if (chosen >= 0) box.setAttribute("aria-activedescendant", items[chosen].id);
  };
  const look = async () => {
    const text = box.value.trim();
    if (!text) return hide();
    const { found } = await ask("search", { q: text }).catch(() => ({ found: [] }));
    if (box.value.trim() !== text) return;
    list.replaceChildren(...found.filter((each) => /^\/(?![\/\\])/.test(each.url)).map(item));
    list.hidden = !list.children.length;
    box.setAttribute("aria-expanded", String(!list.hidden));
    chosen = -1;
  };
  box.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, WAIT_MS);
  });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return list.hidden ? box.blur() : hide();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      mark(chosen + (event.key === "ArrowDown" ? 1 : chosen < 0 ? 0 : -1));
    }
    if (event.key === "Enter" && chosen >= 0 && !list.hidden) {
      event.preventDefault();
      list.children[chosen].querySelector("a").click();
    }
  });
  box.addEventListener("blur", () => setTimeout(hide, 200));
}

function item(each, index) {
  const made = make("li", { role: "option", id: `found-${index}` });
  made.append(make("a", { href: address(each.url), tabindex: "-1" }, each.label));
  return made;
}

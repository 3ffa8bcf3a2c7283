"use strict";
for (const group of document.querySelectorAll(".figures")) {
  const drawn = [...group.children].filter((one) => one.dataset.words !== undefined);
  if (drawn.length < 6) continue;
  const filter = Object.assign(document.createElement("input"), { type: "search", className: "filter" });
  filter.placeholder = `find among ${drawn.length} figures…`;
  filter.setAttribute("aria-label", "show figures whose words contain this");
  filter.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase();
    for (const one of drawn) one.hidden = !one.dataset.words.includes(wanted);
  });
  group.before(filter);
}
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => (one.open = true)));

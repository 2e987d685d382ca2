
"use strict";
// The filters and orders of the report. Without this script, all findings are shown as reported.
(() => {
  const KEYS = ["group", "rule", "file", "cost"];
  const form = document.getElementById("filters");
  const list = document.getElementById("findings");
  const reported = Array.from(list.children);
  const total = reported.reduce((sum, finding) => sum + countOf(finding), 0);
  const texts = new Map();

  function textOf(finding) {
    if (!texts.has(finding)) texts.set(finding, finding.textContent.toLowerCase());
    return texts.get(finding);
  }

  // Findings that are shown as one have one value each.
  function valuesOf(finding, key) {
    return finding.dataset[key].split(" ");
  }

  function countOf(finding) {
    return Number(finding.dataset.count);
  }

  function filter() {
    const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = KEYS.filter((key) => form.elements[key].value);
    let shown = 0;
    for (const finding of reported) {
      const kept =
        wanted.every((key) => valuesOf(finding, key).includes(form.elements[key].value)) &&
        words.every((word) => textOf(finding).includes(word));
      finding.hidden = !kept;
      if (kept) shown += countOf(finding);
    }
    form.elements.shown.value = `${shown} of ${total}`;
  }

  function order() {
    const key = form.elements.order.value;
    if (!key) return list.append(...reported);
    // The options of a filter stand in their order.
    const ranks = new Map(Array.from(form.elements[key].options, (option, rank) => [option.value, rank]));
    const rank = (finding) => ranks.get(valuesOf(finding, key)[0]);
    list.append(...reported.slice().sort((one, other) => rank(one) - rank(other)));
  }

  function follow(event) {
    const link = event.target.closest("a[href^='#']");
    if (!link) return;
    if (link.dataset.key) {
      event.preventDefault();
      form.elements[link.dataset.key].value = link.dataset.value;
      filter();
      form.scrollIntoView();
    } else {
      open(link.getAttribute("href").slice(1));
    }
  }

  // A link may lead to a page that is folded, or to a finding that is filtered out.
  function open(id) {
    const target = document.getElementById(id);
    if (!target) return;
    target.open = true;
    (target.closest("article") ?? target).hidden = false;
  }

  // The command of a finding is about its own line, until another one is clicked.
  function ask(event) {
    const row = event.target.closest(".source .row");
    const at = row && row.closest("article").querySelector(".why .at");
    if (at) at.textContent = row.dataset.row;
  }

  form.hidden = false;
  document.getElementById("rows").hidden = false;
  form.addEventListener("input", filter);
  form.elements.order.addEventListener("input", order);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { filter(); order(); }));
  document.addEventListener("click", follow);
  document.addEventListener("click", ask);
  filter();
  order();
  if (location.hash) open(decodeURIComponent(location.hash.slice(1)));
})();

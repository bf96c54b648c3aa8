"use strict";
// Follows a run: each event is the whole of it, so that none that is missed can leave the page wrong.
(() => {
  const live = document.getElementById("live");
  if (!live || "ended" in live.dataset) return;
  const connection = document.getElementById("connection");
  const key = (node) => node.querySelector("summary")?.textContent ?? "";
  const replace = (html) => {
    const states = new Map([...live.querySelectorAll("details")].map((node) => [key(node), node.open]));
    const focused = live.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const scrolled = [...live.querySelectorAll(".scroll")].map((node) => [node.scrollLeft, node.scrollTop]);
    const switched = [...live.querySelectorAll(".switch :checked")].map((node) => node.id);
    live.innerHTML = html;
    for (const id of switched) live.querySelector(`#${id}`)?.click();
    for (const node of live.querySelectorAll("details")) {
      if (states.has(key(node))) node.open = states.get(key(node));
    }
    live.querySelectorAll(".scroll").forEach((node, place) => {
      [node.scrollLeft, node.scrollTop] = scrolled[place] ?? [0, 0];
    });
    if (focused) live.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  };
  const address = `/runs/${encodeURIComponent(live.dataset.run)}/stream`;
  const source = new EventSource(`${address}?seen=${encodeURIComponent(live.dataset.version)}`);
  source.addEventListener("open", () => { connection.textContent = "This page follows the run."; });
  source.addEventListener("error", () => { connection.textContent = "The connection is lost; it is tried again."; });
  source.addEventListener("changed", (event) => replace(event.data));
  source.addEventListener("ended", (event) => {
    source.close();
    replace(event.data);
    connection.textContent = "The run has ended.";
  });
})();

"use strict";
// A list that narrows what is shown does so once something is chosen.
document.addEventListener("change", (event) => {
  if (event.target instanceof HTMLSelectElement && "sends" in event.target.dataset) event.target.form.requestSubmit();
});
// The list of runs is narrowed while somebody types: what was found is replaced, and the field keeps its cursor.
const filter = document.querySelector("form.filter:has(+ #found)");
const address = () => `${filter.action}?${new URLSearchParams([...new FormData(filter)].filter(([, value]) => value))}`;
const narrow = async () => {
  const asked = address();
  const answer = await fetch(asked).catch(() => undefined);
  const fresh = answer && new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("found");
  // Somebody has typed on meanwhile.
  if (!fresh || asked !== address()) return;
  document.getElementById("found").replaceWith(fresh);
  history.replaceState(null, "", asked);
};
let pause;
filter?.addEventListener("input", () => {
  clearTimeout(pause);
  pause = setTimeout(narrow, 250);
});
// The log of a run that goes on: its lines are asked for anew each second.
const logs = document.querySelector("#logs[data-follow]");
const follow = async () => {
  const answer = await fetch(location.href).catch(() => undefined);
  if (answer?.ok) {
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("logs");
    if (fresh.innerHTML !== logs.innerHTML) logs.innerHTML = fresh.innerHTML;
    if (!("follow" in fresh.dataset)) return;
  }
  setTimeout(follow, 800);
};
if (logs) follow();
(() => {
  const live = document.getElementById("live");
  if (!live) return;

  // Zoom and find in the drawing of the plan; the tools stay the same when the run is replaced around them.
  const tools = document.createElement("div");
  tools.className = "graph-tools";
  tools.setAttribute("role", "search");
  tools.setAttribute("aria-label", "In the plan");
  tools.innerHTML = `<label>Find a step <input type="search" placeholder="name, tool or status" autocomplete="off"></label>
    <output></output>
    <button type="button" data-by="0.8" aria-label="Zoom out">−</button>
    <button type="button" data-by="1.25" aria-label="Zoom in">+</button>
    <button type="button">Whole width</button>`;
  const wanted = tools.querySelector("input");
  const told = tools.querySelector("output");
  let zoom = 1;
  let place = 0;
  const scrolls = () => [...live.querySelectorAll("#plan .scroll")].filter((node) => node.offsetParent);
  const drawings = () => scrolls().flatMap((node) => [...node.querySelectorAll("svg.dag")]);
  const draw = () => {
    for (const svg of live.querySelectorAll("svg.dag")) {
      const { width, height } = svg.viewBox.baseVal;
      svg.setAttribute("width", width * zoom);
      svg.setAttribute("height", height * zoom);
    }
  };
  const zoomTo = (factor) => {
    const kept = scrolls().map((node) => [node, node.scrollLeft + node.clientWidth / 2, node.scrollTop + node.clientHeight / 2]);
    const by = factor / zoom;
    zoom = factor;
    draw();
    for (const [node, x, y] of kept) {
      node.scrollLeft = x * by - node.clientWidth / 2;
      node.scrollTop = y * by - node.clientHeight / 2;
    }
  };
  // A plan that is folded by wave has no drawing: its rows are searched.
  const steps = () => {
    const nodes = drawings().flatMap((svg) => [...svg.querySelectorAll(".node")]);
    return nodes.length ? nodes : [...live.querySelectorAll("table.steps tbody tr")];
  };
  const find = () => {
    const text = wanted.value.trim().toLowerCase();
    const named = (node) => (node.querySelector("title") ?? node).textContent.toLowerCase().includes(text);
    const found = [];
    for (const node of steps()) {
      const isFound = text !== "" && named(node);
      node.classList.toggle("found", isFound);
      node.classList.remove("current");
      if (isFound) found.push(node);
    }
    place = found.length ? (place + found.length) % found.length : 0;
    told.textContent = text === "" ? "" : found.length ? `${place + 1} of ${found.length}` : "none";
    found[place]?.classList.add("current");
    return found[place];
  };
  const show = (node) => node?.scrollIntoView({ block: "nearest", inline: "center" });
  const equip = () => {
    const first = live.querySelector("#plan .scroll");
    if (!first) return;
    first.before(tools);
    if (zoom !== 1) draw();
    if (wanted.value) find();
  };
  tools.addEventListener("click", (event) => {
    if (!(event.target instanceof HTMLButtonElement)) return;
    const [svg] = drawings();
    if (!svg) return;
    const whole = svg.closest(".scroll").clientWidth / svg.viewBox.baseVal.width;
    const by = Number(event.target.dataset.by);
    zoomTo(by ? Math.min(4, Math.max(0.05, zoom * by)) : Math.min(1, whole));
  });
  wanted.addEventListener("input", () => { place = 0; show(find()); });
  wanted.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    place += event.shiftKey ? -1 : 1;
    const node = find();
    if (node) show(node);
    else if (wanted.value.trim()) location.assign(`${live.dataset.run}/steps/${encodeURIComponent(wanted.value.trim())}`);
  });
  equip();
  if ("ended" in live.dataset) return;

  // What goes on is counted further between two events: durations, and the axis of the times with its bars.
  const shown = (seconds) => seconds < 60 ? `${Math.floor(seconds)} s` : seconds < 3600
    ? `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`
    : `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
  const scaled = ["x", "x1", "x2", "width"];
  // Both from what the server said and when that came: the browser's clock may be another one, and be set.
  let received = performance.now();
  const tick = () => {
    const passed = (performance.now() - received) / 1000;
    for (const node of live.querySelectorAll("span[data-seconds]")) {
      node.textContent = shown(Number(node.dataset.seconds) + passed);
    }
    for (const table of live.querySelectorAll(".gantt:has(.growing)")) {
      const factor = Number(table.dataset.seconds) / (Number(table.dataset.seconds) + passed);
      for (const node of table.querySelectorAll("svg :is(text, line, rect)")) {
        for (const name of scaled.filter((name) => node.hasAttribute(name))) {
          node.dataset[name] ??= parseFloat(node.getAttribute(name));
          node.setAttribute(name, `${node.dataset[name] * factor}%`);
        }
        if (node.classList.contains("growing")) node.setAttribute("width", `${100 - parseFloat(node.getAttribute("x"))}%`);
      }
    }
  };
  setInterval(tick, 1000);

  // Follows a run: each event is the whole of it, so that none that is missed can leave the page wrong.
  const connection = document.getElementById("connection");
  const key = (node) => node.querySelector("summary")?.textContent ?? "";
  const replace = (html) => {
    const states = new Map([...live.querySelectorAll("details")].map((node) => [key(node), node.open]));
    const active = live.contains(document.activeElement) ? document.activeElement : null;
    const scrolled = [...live.querySelectorAll(".scroll")].map((node) => [node.scrollLeft, node.scrollTop]);
    const switched = [...live.querySelectorAll(".switch :checked")].map((node) => node.id);
    live.innerHTML = html;
    received = performance.now();
    for (const id of switched) live.querySelector(`#${id}`)?.click();
    for (const node of live.querySelectorAll("details")) {
      if (states.has(key(node))) node.open = states.get(key(node));
    }
    equip();
    live.querySelectorAll(".scroll").forEach((node, at) => {
      [node.scrollLeft, node.scrollTop] = scrolled[at] ?? [0, 0];
    });
    const link = active?.getAttribute("href");
    const focused = tools.contains(active) ? active : link && live.querySelector(`a[href="${CSS.escape(link)}"]`);
    focused?.focus({ preventScroll: true });
  };
  let seen = live.dataset.version;
  let hasEnded = false;
  const take = ({ kind, version, html }) => {
    if (hasEnded) return;
    if (kind === "open") connection.textContent = "This page follows the run.";
    if (kind === "lost") connection.textContent = "The connection is lost; it is tried again.";
    if (kind !== "changed" && kind !== "ended") return;
    seen = version;
    replace(html);
    if (kind !== "ended") return;
    hasEnded = true;
    connection.textContent = "The run has ended.";
  };
  if (window.SharedWorker) {
    const { port } = new SharedWorker(live.dataset.worker);
    const follow = () => port.postMessage({ key: live.dataset.key, seen });
    port.addEventListener("message", ({ data }) => take(data));
    port.start();
    follow();
    // A page that is left may be shown again as it was.
    addEventListener("pagehide", () => port.postMessage("bye"));
    addEventListener("pageshow", (event) => { if (event.persisted) follow(); });
    return;
  }
  // Without a worker that tabs share, a tab that nobody sees holds no stream.
  let source;
  const listen = () => {
    source?.close();
    source = undefined;
    if (document.hidden || hasEnded) return;
    source = new EventSource(`${live.dataset.stream}${encodeURIComponent(seen)}`);
    source.addEventListener("open", () => take({ kind: "open" }));
    source.addEventListener("error", () => take({ kind: "lost" }));
    for (const kind of ["changed", "ended"]) {
      source.addEventListener(kind, (event) => {
        if (kind === "ended") source.close();
        take({ kind, version: event.lastEventId, html: event.data });
      });
    }
  };
  document.addEventListener("visibilitychange", listen);
  listen();
})();

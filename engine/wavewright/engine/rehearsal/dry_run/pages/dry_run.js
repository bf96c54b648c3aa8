
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const { steps, tools } = JSON.parse(byId("data").textContent);
  const graph = byId("graph"), detail = byId("detail"), search = byId("search");
  const nodes = new Array(steps.length);
  for (const node of graph.querySelectorAll(".node")) nodes[Number(node.dataset.n)] = node;
  const numbers = new Map(steps.map((step, number) => [step.id, number]));
  const readers = steps.map(() => []);
  const waitsOf = (number) => steps[number].waits || [];
  steps.forEach((step, number) => waitsOf(number).forEach((before) => readers[before].push(number)));

  // The lines stand in the order of the steps that wait, where all of them are drawn.
  const drawn = [...byId("lines").children];
  const lines = new Map();
  steps.forEach((step, number) => waitsOf(number).forEach((before) => lines.set(before + ">" + number, lines.size)));
  const hasAllLines = drawn.length === lines.size;

  // --- looking ------------------------------------------------------------------------------------------
  const [, , width, height] = graph.getAttribute("viewBox").split(" ").map(Number);
  const view = { x: 0, y: 0, width, height };
  const least = 0.01;
  const scale = () => Math.min(graph.clientWidth / view.width, graph.clientHeight / view.height) || 1;
  const look = () => {
    graph.setAttribute("viewBox", [view.x, view.y, view.width, view.height].map((each) => each.toFixed(1)).join(" "));
    const factor = scale();
    graph.classList.toggle("far", factor < 0.45);
    const larger = Math.min(30, Math.max(1, 0.9 / factor));
    graph.style.setProperty("--larger", larger.toFixed(2));
    if (larger !== lettered) { lettered = larger; thinOut(); }
  };
  // Of titles that would run into each other only some are shown.
  const titles = [...byId("titles").children].map((text) => ({ text, x: Number(text.getAttribute("x")), y: Number(text.getAttribute("y")) }));
  let lettered = 0;
  const thinOut = () => {
    let row = -Infinity, right = -Infinity, last = null, isRowShown = true;
    for (const title of titles) {
      if (title.y !== last) {
        isRowShown = title.y - row >= 18 * lettered;
        if (isRowShown) { row = title.y; right = -Infinity; }
        last = title.y;
      }
      const isShown = isRowShown && title.x >= right;
      if (isShown) right = title.x + (title.text.textContent.length * 7 + 12) * lettered;
      title.text.classList.toggle("crowded", !isShown);
    }
  };
  const whole = () => {
    // A small graph is not blown up: its letters stay those of the page.
    const grown = Math.max(1, Math.min(graph.clientWidth / width, graph.clientHeight / height) / 1.25);
    Object.assign(view, { x: (width - width * grown) / 2, y: (height - height * grown) / 2 });
    Object.assign(view, { width: width * grown, height: height * grown });
    look();
  };
  const zoom = (factor, x = view.x + view.width / 2, y = view.y + view.height / 2) => {
    const now = scale(), wanted = now / Math.min(4, Math.max(least, now * factor));
    view.x = x - (x - view.x) * wanted;
    view.y = y - (y - view.y) * wanted;
    view.width *= wanted;
    view.height *= wanted;
    look();
  };
  const centreOf = (number) => {
    const [x, y] = nodes[number].getAttribute("transform").match(/-?[\d.]+/g).map(Number);
    return [x + Number(nodes[number].firstChild.getAttribute("width")) / 2, y + 22];
  };
  const show = (number) => {
    const [x, y] = centreOf(number), factor = scale();
    const inside = Math.abs(x - view.x - view.width / 2) < graph.clientWidth / factor / 2 - 90
      && Math.abs(y - view.y - view.height / 2) < graph.clientHeight / factor / 2 - 30;
    if (inside && factor >= 0.45) return;
    if (factor < 0.45) { view.width = graph.clientWidth / 0.9; view.height = graph.clientHeight / 0.9; }
    view.x = x - view.width / 2;
    view.y = y - view.height / 2;
    look();
  };
  const placeOf = (event) => {
    const matrix = graph.getScreenCTM().inverse();
    return [matrix.a * event.clientX + matrix.e, matrix.d * event.clientY + matrix.f];
  };

  // --- choosing -----------------------------------------------------------------------------------------
  const make = (tag, text, className) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const section = (title, ...content) => content.length ? [make("h3", title), ...content] : [];
  const links = (list) => {
    const shown = make("div", undefined, "steps");
    for (const number of list.slice(0, 60)) {
      const button = make("button", steps[number].id);
      button.type = "button";
      button.addEventListener("click", () => { choose(number); show(number); detail.querySelector("h2").focus(); });
      shown.append(button);
    }
    if (list.length > 60) shown.append(make("span", "and " + (list.length - 60) + " more", "dim"));
    return list.length ? [shown] : [];
  };
  const fact = (list, name, value, className) => {
    if (value === undefined || value === "") return;
    list.append(make("dt", name), make("dd", String(value), className));
  };
  const typeLines = (tool) => (tool.takes || []).map((taken) => {
    const line = make("li");
    line.append(make("code", taken.name + ": " + taken.type), taken.about ? " " + taken.about : "");
    return line;
  });
  const gateLines = (step) => (step.gates || []).map((gate) => {
    const line = make("li");
    line.append(make("strong", gate.id), ": " + gate.asked + " (" + gate.consequence + ")");
    if (gate.hint) line.append(make("div", gate.hint, "dim"));
    return line;
  });
  const list = (items) => {
    if (!items.length) return [];
    const made = make("ul");
    made.append(...items);
    return [made];
  };
  const named = new Set(["id", "tool", "why", "wave", "waits", "reads", "time", "cost", "gates", "critical", "for_each",
    "calls", "skipped", "when", "optional", "effects", "needs_approval", "model", "params"]);
  const describe = (number) => {
    const step = steps[number], tool = tools[step.tool];
    const title = make("h2", step.id);
    title.tabIndex = -1;
    const facts = make("dl");
    fact(facts, "calls", tool.name + (step.for_each ? ", once an item: " + (step.calls ?? "as often as an output says") : ""));
    fact(facts, "wave", step.wave + (step.critical ? ", on the critical path" : ""));
    fact(facts, "time", step.time);
    fact(facts, "model", step.model);
    fact(facts, "cost", step.cost);
    fact(facts, "effects", (step.effects || []).join(", "), "effect");
    fact(facts, "approval", step.needs_approval ? "a person is asked when it is ready" : undefined);
    fact(facts, "when", step.when && step.when + (step.skipped ? " (false for these inputs: skipped)" : ""));
    fact(facts, "optional", step.optional ? "its failure does not fail the run" : undefined);
    for (const [name, value] of Object.entries(step)) {
      if (!named.has(name)) fact(facts, name.replaceAll("_", " "), typeof value === "object" ? JSON.stringify(value) : value);
    }
    const reads = step.reads || [];
    detail.replaceChildren(
      title,
      ...(step.why ? [make("p", step.why)] : []),
      ...(tool.about ? [make("p", tool.about, "dim")] : []),
      facts,
      ...section("Parameters", make("pre", step.params ? JSON.stringify(step.params, null, 2) : "none")),
      ...section("Takes", ...list(typeLines(tool))),
      ...section("Gives", ...(tool.gives ? [make("pre", tool.gives)] : [])),
      ...section("Gates", ...list(gateLines(step))),
      ...section("Reads", ...links(reads)),
      ...section("Waits for", ...links(waitsOf(number).filter((before) => !reads.includes(before)))),
      ...section("Read or waited for by", ...links(readers[number])),
    );
    detail.scrollTop = 0;
  };
  let chosen = -1, entry = 0;
  const line = (before, after) => {
    if (hasAllLines) return drawn[lines.get(before + ">" + after)].cloneNode();
    const made = document.createElementNS(graph.namespaceURI, "path");
    const [x1, y1] = centreOf(before), [x2, y2] = centreOf(after);
    const side = Number(nodes[before].firstChild.getAttribute("width")) / 2;
    const bend = Math.max(30, Math.min(90, Math.abs(x2 - x1 - 2 * side) / 2));
    const points = [x1 + side + bend, y1, x2 - side - bend, y2, x2 - side, y2].join(" ");
    made.setAttribute("d", "M" + (x1 + side) + " " + y1 + "C" + points);
    return made;
  };
  const choose = (number) => {
    for (const node of graph.querySelectorAll(".chosen, .beside")) node.classList.remove("chosen", "beside");
    nodes[entry].tabIndex = -1;
    if (chosen >= 0) nodes[chosen].setAttribute("aria-pressed", "false");
    chosen = number;
    byId("chosen").replaceChildren();
    if (number < 0) { nodes[entry].tabIndex = 0; detail.replaceChildren(make("p", hint, "dim")); return; }
    entry = number;
    nodes[number].tabIndex = 0;
    nodes[number].classList.add("chosen");
    nodes[number].setAttribute("aria-pressed", "true");
    const beside = [...waitsOf(number).map((before) => [before, number]), ...readers[number].map((after) => [number, after])];
    for (const [before, after] of beside) {
      nodes[before === number ? after : before].classList.add("beside");
      const copy = line(before, after);
      copy.setAttribute("class", "chosen");
      byId("chosen").append(copy);
    }
    describe(number);
    history.replaceState(null, "", "#step-" + steps[number].id);
  };
  const hint = "Choose a step to see its parameters, types, gates and neighbours: by a click, or by Tab and the arrow keys.";

  // --- keys, mouse and fingers ----------------------------------------------------------------------------
  const order = [...graph.querySelectorAll(".node")].map((node) => Number(node.dataset.n));
  const places = new Map(order.map((number, place) => [number, place]));
  const neighbour = (number, key) => {
    if (key === "ArrowLeft") return waitsOf(number)[0];
    if (key === "ArrowRight") return readers[number][0];
    if (key === "ArrowUp") return order[places.get(number) - 1];
    if (key === "ArrowDown") return order[places.get(number) + 1];
    if (key === "Home") return order[0];
    return key === "End" ? order[order.length - 1] : undefined;
  };
  nodes.forEach((node, number) => {
    node.tabIndex = -1;
    node.setAttribute("role", "button");
    node.setAttribute("aria-pressed", "false");
    node.setAttribute("aria-label", steps[number].id + ", " + tools[steps[number].tool].name + ", wave " + steps[number].wave);
  });
  graph.addEventListener("keydown", (event) => {
    const node = event.target.closest(".node");
    const number = node ? Number(node.dataset.n) : entry;
    const next = event.key === "Enter" || event.key === " " ? number : neighbour(number, event.key);
    if (event.key === "Escape") choose(-1);
    else if (event.key === "+" || event.key === "=") zoom(1.25, ...centreOf(number));
    else if (event.key === "-") zoom(0.8, ...centreOf(number));
    else if (event.key === "0") whole();
    else if (next !== undefined) { choose(next); show(next); nodes[next].focus({ preventScroll: true }); }
    else if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
  });
  graph.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), ...placeOf(event));
  }, { passive: false });
  let grip = null;
  graph.addEventListener("pointerdown", (event) => {
    if (event.button === 0) grip = { x: event.clientX, y: event.clientY, left: view.x, top: view.y, moved: false };
  });
  window.addEventListener("pointermove", (event) => {
    if (!grip) return;
    const right = event.clientX - grip.x, down = event.clientY - grip.y;
    if (!grip.moved && Math.hypot(right, down) < 4) return;
    grip.moved = true;
    graph.classList.add("moving");
    const factor = scale();
    view.x = grip.left - right / factor;
    view.y = grip.top - down / factor;
    look();
  });
  window.addEventListener("pointerup", (event) => {
    const node = grip && !grip.moved && event.target.closest && event.target.closest(".node");
    if (node) { choose(Number(node.dataset.n)); node.focus({ preventScroll: true }); }
    grip = null;
    graph.classList.remove("moving");
  });
  window.addEventListener("pointercancel", () => { grip = null; graph.classList.remove("moving"); });

  byId("in").addEventListener("click", () => zoom(1.4));
  byId("out").addEventListener("click", () => zoom(1 / 1.4));
  byId("fit").addEventListener("click", whole);
  byId("full").addEventListener("click", () => {
    zoom(1 / scale());
    if (chosen >= 0) { const [x, y] = centreOf(chosen); view.x = x - view.width / 2; view.y = y - view.height / 2; look(); }
  });
  search.addEventListener("input", () => {
    const wanted = search.value.trim().toLowerCase();
    nodes.forEach((node, number) => {
      const text = (steps[number].id + " " + tools[steps[number].tool].name).toLowerCase();
      node.classList.toggle("found", wanted !== "" && text.includes(wanted));
    });
  });
  search.addEventListener("keydown", (event) => {
    const found = order.filter((number) => nodes[number].classList.contains("found"));
    if (event.key !== "Enter" || !found.length) return;
    const next = found[(found.indexOf(chosen) + 1) % found.length];
    choose(next);
    show(next);
  });
  const follow = () => {
    const number = numbers.get(decodeURIComponent(location.hash).replace(/^#step-/, ""));
    if (number !== undefined && number !== chosen) { choose(number); show(number); }
  };
  window.addEventListener("hashchange", () => { follow(); graph.scrollIntoView({ block: "nearest" }); });
  window.addEventListener("resize", look);

  byId("bar").hidden = false;
  if (order.length) { entry = order[0]; nodes[entry].tabIndex = 0; }
  detail.replaceChildren(make("p", hint, "dim"));
  whole();
  follow();
})();

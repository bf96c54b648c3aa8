"use strict";
// One stream for all tabs of a browser: it opens few connections to a host, and each tab that holds one takes it from
// all others. A tab sends what it follows, and "bye"; it is told each event, the last one at once.
const tabs = new Map();
const newest = new Map();
let source;
let timer;

const tell = (key, message) => {
  for (const [port, followed] of tabs) {
    if (key === undefined || followed.key === key) port.postMessage(message);
  }
};

const take = (event) => {
  const [run, drawings, version] = event.lastEventId.split(" ");
  const key = `${run} ${drawings}`;
  const message = { kind: event.type, version, html: event.data };
  newest.set(key, message);
  tell(key, message);
  // The server ends a stream of which all runs have ended.
  if (event.type === "ended") open();
};

// Tabs that are opened at once are one change of the stream.
const reopenIn = (milliseconds) => {
  clearTimeout(timer);
  timer = setTimeout(open, milliseconds);
};

const open = () => {
  source?.close();
  source = undefined;
  const followed = new Map();
  for (const { key, seen } of tabs.values()) {
    const known = newest.get(key);
    if (known?.kind !== "ended" && !followed.has(key)) followed.set(key, known?.version ?? seen);
  }
  for (const key of newest.keys()) {
    if (![...tabs.values()].some((tab) => tab.key === key)) newest.delete(key);
  }
  if (followed.size === 0) return;
  const query = new URLSearchParams([...followed].map(([key, seen]) => ["follow", `${key} ${seen}`]));
  source = new EventSource(`streams?${query}`);
  source.addEventListener("open", () => tell(undefined, { kind: "open" }));
  source.addEventListener("error", () => {
    tell(undefined, { kind: "lost" });
    // An answer that is no stream ends it for good, such as that of a session which has ended.
    if (source?.readyState === EventSource.CLOSED) reopenIn(3000);
  });
  source.addEventListener("changed", take);
  source.addEventListener("ended", take);
};

self.addEventListener("connect", ({ ports: [port] }) => {
  port.addEventListener("message", ({ data }) => {
    if (data === "bye") {
      tabs.delete(port);
    } else {
      tabs.set(port, data);
      const known = newest.get(data.key);
      if (known && known.version !== data.seen) port.postMessage(known);
    }
    reopenIn(50);
  });
  port.start();
});

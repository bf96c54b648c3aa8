"use strict";
// Follows the game. The id of an event is that of the last event of the game, a point, and the number of what is still
// open: the words that arrive and the messages that wait, which each event has whole. Lines come once; an undo has all.
(() => {
  const element = (id) => document.getElementById(id);
  const [log, scroll, trouble, connection, message] = ["log", "scroll", "trouble", "connection", "message"].map(element);
  const table = document.querySelector(".table");
  let seen = parseInt(table.dataset.seen, 10);
  const toEnd = () => { scroll.scrollTop = scroll.scrollHeight; };
  const say = (text) => { trouble.textContent = text; trouble.hidden = !text; };
  const submit = async (form, button) => {
    say("");
    const given = new URLSearchParams(new FormData(form, button));
    if (!given.has("player")) given.set("player", element("say").elements.player.value);
    const answer = await fetch(form.action, { method: "POST", body: given, headers: { accept: "application/json" } });
    if (!answer.ok) return say((await answer.json()).error);
    if (form.id === "say") form.reset();
    message.focus();
  };
  const show = (id, html) => {
    const part = element(id), focused = part.contains(document.activeElement);
    part.innerHTML = html;
    if (focused) message.focus();
  };
  document.addEventListener("submit", (event) => {
    event.preventDefault();
    submit(event.target, event.submitter).catch(() => say("The game cannot be reached."));
  });
  const take = (event) => {
    table.dataset.seen = event.lastEventId;
    const id = parseInt(event.lastEventId, 10), told = JSON.parse(event.data);
    show("pending", told.pending);
    if (told.is_whole || id > seen) {
      seen = id;
      if (told.is_whole) log.innerHTML = told.lines;
      else log.insertAdjacentHTML("beforeend", told.lines);
      show("actions", told.actions);
      show("board", told.board);
    }
    toEnd();
  };
  // A browser opens few connections to a host: a tab that nobody sees holds none, and goes on where it was.
  let source;
  const listen = () => {
    source?.close();
    if (document.hidden) return;
    source = new EventSource(`stream?seen=${table.dataset.seen}`);
    source.addEventListener("open", () => { connection.textContent = "This page follows the game."; });
    source.addEventListener("error", () => { connection.textContent = "The connection is lost; it is tried again."; });
    source.addEventListener("changed", take);
  };
  document.addEventListener("visibilitychange", listen);
  listen();
  toEnd();
})();

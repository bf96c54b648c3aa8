"use strict";
// Follows the game. Each event has an id, the lines since the event before and the whole board; one that tells of an
// undo has all lines. What was seen already is left out, so a new connection loses and repeats nothing.
(() => {
  const table = document.querySelector(".table");
  const log = document.getElementById("log");
  const board = document.getElementById("board");
  const trouble = document.getElementById("trouble");
  const connection = document.getElementById("connection");
  const message = document.getElementById("message");
  let seen = Number(table.dataset.seen);
  const toEnd = () => { log.scrollTop = log.scrollHeight; };
  const say = (text) => { trouble.textContent = text; trouble.hidden = !text; };
  const submit = async (form, button) => {
    say("");
    const given = new URLSearchParams(new FormData(form, button));
    const answer = await fetch(form.action, { method: "POST", body: given, headers: { accept: "application/json" } });
    if (!answer.ok) return say((await answer.json()).error);
    if (form.id === "say") form.reset();
    message.focus();
  };
  document.addEventListener("submit", (event) => {
    event.preventDefault();
    submit(event.target, event.submitter).catch(() => say("The game cannot be reached."));
  });
  const source = new EventSource(`/stream?seen=${seen}`);
  source.addEventListener("open", () => { connection.textContent = "This page follows the game."; });
  source.addEventListener("error", () => { connection.textContent = "The connection is lost; it is tried again."; });
  source.addEventListener("changed", (event) => {
    const id = Number(event.lastEventId);
    if (id <= seen) return;
    seen = id;
    const told = JSON.parse(event.data);
    if (told.is_whole) log.innerHTML = told.lines;
    else log.insertAdjacentHTML("beforeend", told.lines);
    const focused = board.contains(document.activeElement);
    board.innerHTML = told.board;
    if (focused) message.focus();
    toEnd();
  });
  toEnd();
})();
